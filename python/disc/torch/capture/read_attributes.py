"""Finds attributes of modules that their code reads, from bytecode.

An attribute that only its own update reads (``self.calls += 1``) decides about nothing. Code is
that of the classes of a module and its parts, and of the functions beside these; what other code
reads is not seen.
"""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterator

import torch

_LOADS = frozenset(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"))
#: Names by the code that they are read in: code does not change.
_known: dict[types.CodeType, frozenset[str]] = {}
#: As above, with those of functions inside.
_all: dict[types.CodeType, frozenset[str]] = {}
_STORE = dis.opmap["STORE_ATTR"]


def read_attributes(module: torch.nn.Module) -> frozenset[str]:
    """The names of attributes that a call of ``module`` may read."""
    kinds = {kind for m in module.modules() for kind in type(m).__mro__ if _is_own(kind)}
    names: set[str] = set()
    for code in _codes(kinds):
        if code not in _known:
            _known[code] = frozenset(_read(code))
        names |= _known[code]
    return frozenset(names)


def attributes_of(code: types.CodeType) -> frozenset[str]:
    """The names of attributes that a function reads, those of functions inside it too, and texts
    that may be names.
    """
    if (found := _all.get(code)) is None:
        stores = any(opcode == _STORE for opcode in code.co_code[::2])
        texts = (c for c in code.co_consts if isinstance(c, str) and c.isidentifier())
        found = frozenset(_read(code) if stores else (*code.co_names, *texts))
        inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
        _all[code] = found = found.union(*map(attributes_of, inner))
    return found


def _is_own(kind: type) -> bool:
    return issubclass(kind, torch.nn.Module) and kind is not torch.nn.Module


def _codes(kinds: set[type]) -> Iterator[types.CodeType]:
    """The code of the classes and of functions beside them, but for what makes a module."""
    beside = {kind.__module__ for kind in kinds if not kind.__module__.startswith("torch.")}
    for kind in kinds:
        for name, value in vars(kind).items():
            if name != "__init__":
                yield from _codes_of(value)
    for name in beside:
        for value in list(vars(sys.modules.get(name, types)).values()):
            if getattr(value, "__module__", None) == name:
                yield from _codes_of(value)


def _codes_of(value) -> Iterator[types.CodeType]:
    if isinstance(value, property):
        yield from _codes_of(value.fget)
        return
    # Decorators, class methods and static methods hold what they wrap.
    seen: set[int] = set()
    while value is not None and id(value) not in seen:
        seen.add(id(value))
        if isinstance(value, types.FunctionType):
            yield from _nested(value.__code__)
        value = getattr(value, "__wrapped__", None) or getattr(value, "__func__", None)


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for held in code.co_consts:
        if isinstance(held, types.CodeType):
            yield from _nested(held)


def _read(code: types.CodeType) -> Iterator[str]:
    line: int | None = None
    starts = dict(dis.findlinestarts(code))
    loads: list[tuple[str, int | None]] = []
    stores: set[tuple[str, int | None]] = set()
    for step in dis.get_instructions(code):
        line = starts.get(step.offset, line)
        if step.opname in _LOADS:
            loads.append((step.argval, line))
        elif step.opname == "STORE_ATTR":
            stores.add((step.argval, line))
    yield from (name for name, at in loads if (name, at) not in stores)
    # ``getattr(self, "name")``
    yield from (held for held in code.co_consts if isinstance(held, str) and held.isidentifier())
