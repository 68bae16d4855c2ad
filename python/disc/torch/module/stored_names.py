"""Finds modules whose calls assign attributes."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterator

import torch

from ..overrides.reached import is_left

_STORES = frozenset((dis.opmap["STORE_ATTR"], dis.opmap["DELETE_ATTR"]))
#: Attributes of tensors, not of modules.
_OF_TENSORS = frozenset(("requires_grad", "grad"))


def stores_attributes(module: torch.nn.Module) -> bool:
    """Returns true if the ``forward`` of a module or of a part of it, or a hook, assigns an
    attribute of something.
    """
    return any(_stores(code) for m in module.modules() for f in _called(m) for code in _codes(f))


def _called(m: torch.nn.Module) -> list:
    return [m.forward, *m._forward_hooks.values(), *m._forward_pre_hooks.values()]


def _codes(f) -> Iterator[types.CodeType]:
    """The code of a function, and of those that it decorates."""
    while f is not None:
        f = getattr(f, "__func__", f)
        if isinstance(f, types.FunctionType) and not _puts_back(f.__globals__.get("__name__")):
            yield f.__code__
        f = f.func if isinstance(f, functools.partial) else getattr(f, "__wrapped__", None)


def _puts_back(module: object) -> bool:
    """Returns true for code of torch and Python, and for decorators of transformers."""
    return is_left(module) or str(module).startswith("transformers.utils.")


@functools.lru_cache(4096)
def _stores(code: types.CodeType) -> bool:
    operations = zip(code.co_code[::2], code.co_code[1::2], strict=True)
    if any(op in _STORES for op, _ in operations):
        names = {i.argval for i in dis.get_instructions(code) if i.opcode in _STORES}
        if not names <= _OF_TENSORS:
            return True
    return any(_stores(inner) for inner in code.co_consts if isinstance(inner, types.CodeType))
