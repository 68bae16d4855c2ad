"""Decides on which device the tensors of a module are, and on which device its compiled code runs.

The device of a module is that of its parameters and buffers, then of the inputs of an example.
Compiled code runs there, unless ``Options.device`` names another one: tensors of the host are
copied then, those of a GPU are refused.

Not here: which ops of a graph belong to another device (``graph.other_devices``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import torch

from ...core import extension
from ...core.errors import Error
from ...core.options import Options
from ..graph import weight_names

HOST = torch.device("cpu")
#: Types of devices whose tensors compiled code takes.
TYPES = ("cpu", "cuda")


def indexed(device: torch.device) -> torch.device:
    """``device`` with the index that tensors on it have: without one it is the current device."""
    if device.type != "cuda" or device.index is not None:
        return device
    return torch.device("cuda", torch.cuda.current_device() if torch.cuda.is_available() else 0)


def name_of(device: torch.device) -> str:
    """The name that ``disc.devices()`` has for a device of torch, which calls AMD's GPUs "cuda"."""
    device = indexed(device)
    if device.type != "cuda":
        return device.type
    return f"{'hip' if torch.version.hip else 'cuda'}:{device.index}"


def may_be_elsewhere(t: torch.Tensor) -> bool:
    """Returns true for a scalar of the host, which goes with tensors of any device."""
    if t.device.type != "cpu" or isinstance(t, torch.nn.parameter.UninitializedTensorMixin):
        return False
    return t.dim() == 0


def device_of(tensors: Iterable[tuple[str, torch.Tensor]]) -> torch.device:
    """The device of named tensors, of which each is there or a scalar of the host.

    Raises disc.Error, which names two tensors of different devices, or one that is on a device
    for which nothing is compiled.
    """
    first: tuple[str, torch.device] | None = None
    for name, t in tensors:
        if t.device.type not in TYPES:
            raise Error(
                f"{name} is on {t.device}, and disc compiles for CPUs and CUDA devices",
                code="E0801",
                help="move the module to one of these, or let torch run it",
            )
        if may_be_elsewhere(t):
            continue
        if first is None:
            first = name, t.device
        elif t.device != first[1]:
            raise Error(
                f"{first[0]} is on {first[1]}, and {name} is on {t.device}: compiled code takes tensors of one device",
                code="E0601",
                help="move them to one device; only tensors without axes may stay on the cpu",
            )
    return HOST if first is None else first[1]


def device_of_module(
    module: torch.nn.Module, names: Iterable[str] = (), tensors: Iterable[torch.Tensor] = ()
) -> torch.device:
    """The device of a module and of the inputs ``tensors`` of an example, which are called
    ``names``. Raises as ``device_of`` does.
    """
    held = [(f"weight {name}", t) for name, t in weight_names.named(module)]
    # What a meta tensor is good for, capture says.
    given = [(f"input {name}", t) for name, t in zip(names, tensors, strict=True) if not t.is_meta]
    return device_of([*held, *given])


def placed(options: Options, device: torch.device) -> Options:
    """``options`` with the device that code for tensors on ``device`` runs on.

    Raises disc.Error if ``Options.device`` names one that cannot read these tensors.
    """
    if device.type == "cpu":
        return options
    name = name_of(device)
    if options.device not in (None, name):
        raise Error(
            f"the module is on {device}, and Options.device is {options.device!r}, which does not read its memory",
            code="E0601",
            help="leave out Options.device, or move the module",
        )
    return dataclasses.replace(options, device=name)


def refuse_absent(device: torch.device) -> None:
    """Raises disc.Error for a device that torch has and disc has not."""
    if device.type == "cpu" or name_of(device) in (devices := extension.devices()):
        return
    real = ", ".join(name for name in devices if not name.startswith("simt:"))
    raise Error(
        f"the module is on {device}, and compiled code can run here on {real} alone",
        code="E0700",
        help="disc.devices() lists the devices; move the module, or let torch run it",
    )


def refuse_unrunnable(options: Options, tensors: Iterable) -> None:
    """Raises disc.Error for a target whose code cannot run where ``tensors`` are; what is no tensor
    does not count.
    """
    if options.target is None and options.device is None:
        return
    held = (t.device for t in tensors if isinstance(t, torch.Tensor))
    device = next((device for device in held if device.type != "cpu"), HOST)
    if device.type in TYPES:
        extension.check_runs(placed(options, device))
