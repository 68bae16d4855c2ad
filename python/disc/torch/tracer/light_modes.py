"""Makes torch's fake tensors and shape environments without all of torch's compiler.

torch imports dynamo for settings that are off here, and to keep dynamo out of its modes, which no
dynamo sees while disc traces. Its import takes as long as the trace of a small model.

Invariants:

- functions of torch are copied, not replaced; what hides decompositions is an override
  (``overrides.registry``), only in the tracing thread;
- where torch needs dynamo for more, it imports it.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from ..overrides.registry import Override, is_active, register


class _Off:
    """Settings, all of which are off."""

    _custom_ops_profile = None

    def __getattr__(self, name: str) -> bool:
        return False


class _Torch:
    """torch, with the settings of a dynamo that is not imported."""

    _off = types.SimpleNamespace(config=_Off())

    def __getattr__(self, name: str) -> Any:
        return self._off if name == "_dynamo" and "torch._dynamo" not in sys.modules else getattr(torch, name)


#: Modules that are not imported, and what stands for them.
_ABSENT: dict[str, Any] = {
    "torch.fx.experimental.validator": types.SimpleNamespace(translation_validation_enabled=lambda: False),
    "torch._dynamo.config": _Torch(),
}


class _Globals(dict):
    """Names of one's own before those that a module has at the moment."""

    def __init__(self, module: dict[str, Any], **own: Any):
        super().__init__(own)
        self._module = module

    def __missing__(self, name: str) -> Any:
        return self._module[name]


def _import(name, *args, **kwargs):
    if (absent := _ABSENT.get(name)) is not None:
        return absent
    found = builtins.__import__(name, *args, **kwargs)
    # `import torch.x` gives torch.
    return _ABSENT["torch._dynamo.config"] if found is torch else found


def without_dynamo(function: Callable) -> Callable:
    """A copy of a function of torch that finds dynamo's settings off instead of importing them, and
    writes no structured trace.
    """
    function = inspect.unwrap(function)
    space = _Globals(
        function.__globals__,
        __builtins__={**vars(builtins), "__import__": _import},
        torch=_Torch(),
        trace_structured=lambda *args, **kwargs: None,
    )
    made = types.FunctionType(
        function.__code__, space, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


class LightFakeMode(FakeTensorMode):
    """Torch's mode of fake tensors, which dynamo does not see."""

    __init__ = without_dynamo(FakeTensorMode.__init__)
    _dispatch_impl = without_dynamo(FakeTensorMode._dispatch_impl)
    __torch_dispatch__ = inspect.unwrap(FakeTensorMode.__torch_dispatch__)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


# Decompositions that describe results are kept from dynamo by a function that imports it when it
# is called first, and keeps what dynamo made of the decomposition with it.

_KEPT = "__dynamo_disable"


@functools.cache
def show_decompositions() -> None:
    """Registers overrides by which a trace calls decompositions as they are, as long as nobody has
    imported dynamo.
    """
    if "torch._dynamo" in sys.modules:
        return
    why = "dynamo sees no trace, and its import takes long"
    register(
        Override(vars(function), _KEPT, _plain(function), why, scope="trace", is_direct=True)
        for function in _hidden()
    )


def _hidden() -> list[types.FunctionType]:
    """The decompositions that torch hides from dynamo."""
    import torch._refs
    import torch._refs.linalg
    import torch._refs.special

    tables = [torch._decomp.decomposition_table, torch._decomp.meta_table]
    tables += [vars(module) for name, module in [*sys.modules.items()] if name.startswith("torch._refs")]
    found: dict[types.FunctionType, None] = {}
    for function in (function for table in tables for function in table.values()):
        while (inner := _wrapped(function)) is not None:
            if function.__code__.co_filename == torch._compile.__file__:
                found[inner] = None
            function = inner
    return list(found)


def _wrapped(function: Any) -> types.FunctionType | None:
    """The function that a decorator's function calls: ``fn`` in torch."""
    if not isinstance(function, types.FunctionType) or "fn" not in (names := function.__code__.co_freevars):
        return None
    inner = function.__closure__[names.index("fn")].cell_contents
    return inner if isinstance(inner, types.FunctionType) else None


def _plain(function: types.FunctionType) -> Callable:
    @functools.cache
    def unseen() -> Callable:
        # Another thread may be importing it: this waits.
        from torch import _dynamo

        return _dynamo.disable(function, wrapping=False)

    def call(*args, **kwargs):
        if is_active("trace") and "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        return unseen()(*args, **kwargs)

    return call
