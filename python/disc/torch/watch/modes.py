"""Lists the modes of torch that decide what a module computes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import overrides
from torch.utils._device import DeviceContext

from ...core import extension

#: Modes that count where code of the model asks for them, by the name that it uses.
_ASKED: dict[str, Callable[[], Any]] = {
    "is_grad_enabled": torch.is_grad_enabled,
    "is_inference_mode_enabled": torch.is_inference_mode_enabled,
    "are_deterministic_algorithms_enabled": torch.are_deterministic_algorithms_enabled,
    "get_deterministic_debug_mode": torch.are_deterministic_algorithms_enabled,
    "is_deterministic_algorithms_warn_only_enabled": torch.is_deterministic_algorithms_warn_only_enabled,
    "get_float32_matmul_precision": torch.get_float32_matmul_precision,
    "get_num_threads": torch.get_num_threads,
}
_PLAIN: list[tuple[Callable[[], Any], Any]] = [
    (torch._C._is_any_autocast_enabled, False),
    (torch._C._get_tracing_state, None),
]
_STACKS: list[tuple[Callable[[], Any], Any]] = [
    (torch._C._len_torch_dispatch_stack, 0),
    (torch._C._len_torch_function_stack, 0),
]


def plain() -> list[tuple[Callable[[], Any], Any]]:
    """The modes that each call asks Python for: without autocast, a trace, and modes that see
    torch's functions or ops, the program that served the last call may serve this one.
    """
    calls = [] if extension.watches_torch_calls() else _PLAIN
    return calls if extension.watches_torch_modes() else [*calls, *_STACKS]


def asked(names: Collection[str]) -> list[tuple[Callable[[], Any], Any]]:
    """The modes that code with these names may ask for, with what they are now."""
    found = [ask for name, ask in _ASKED.items() if name in names]
    if not extension.watches_torch_modes():
        found.append(torch.get_default_dtype)
    return [(ask, ask()) for ask in dict.fromkeys(found)]


def default_device() -> str | None:
    """The device of tensors that are made without one; None where nobody has set it."""
    if not torch._C._len_torch_function_stack():
        return None
    found = [mode for mode in overrides._get_current_function_mode_stack() if type(mode) is DeviceContext]
    return str(found[-1].device) if found else None


def are_functions_seen(original: Callable[[], torch.nn.Module]) -> bool:
    """Returns true if a mode sees the functions of torch that a module calls: one of the user's, or
    that of a default device which is not the module's.
    """
    if not torch._C._len_torch_function_stack():
        return False
    own = next((t.device.type for t in original().parameters()), "cpu")
    stack = overrides._get_current_function_mode_stack()
    return any(type(mode) is not DeviceContext or mode.device.type != own for mode in stack)
