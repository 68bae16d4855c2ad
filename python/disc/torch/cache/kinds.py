"""Lists the kinds of values that a walk reads in a way of their own,
and tells what objects of a class hold.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import threading
import types
import typing

import torch

PLAIN = frozenset((
    type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented), range, slice,
    torch.dtype, torch.device, torch.memory_format, torch.layout, torch.finfo, torch.iinfo,
))  # fmt: skip
#: Without a state that could decide what is computed.
OPAQUE = (
    logging.Logger, logging.LoggerAdapter, type(threading.Lock()), type(threading.RLock()), typing.TypeVar,
    type(dataclasses.MISSING), type(typing.Union), type(typing.Literal), logging.Filterer,
)  # fmt: skip
BUILTIN = frozenset((
    types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType, types.MethodWrapperType,
    types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
))  # fmt: skip
#: Functions of C that may be bound to an object.
BOUND = (types.BuiltinFunctionType, types.MethodWrapperType)
#: The type of the descriptors of a named tuple's fields.
FIELD = type(collections.namedtuple("Pair", "first").first)
GENERIC = (types.GenericAlias, types.UnionType, type(typing.Optional[int]), type(typing.List[int]))  # noqa: UP006, UP045
#: Bases of classes written in Python.
_HOLDERS = frozenset((object, dict, list, tuple, int, float, str, bytes, collections.OrderedDict))

#: Attributes of objects of libraries that differ from process to process, and decide nothing: a
#: configuration of transformers keeps the ``hash`` of its text.
_OF_THE_PROCESS = {"transformers": frozenset(("_original_object_hash",))}


def lasting_state(state: dict | None, kind: type) -> dict:
    """The attributes of an object of ``kind`` without those that only mean something in this
    process.
    """
    state = state or {}
    passing = _OF_THE_PROCESS.get(kind.__module__.partition(".")[0], frozenset())
    if passing.isdisjoint(state):
        return state
    return {name: value for name, value in state.items() if name not in passing}


def has_content(cell: types.CellType) -> bool:
    try:
        return (cell.cell_contents, True)[1]
    except ValueError:
        return False


def slots_of(kind: type):
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def is_python(kind: type) -> bool:
    """Returns true if objects of a class hold all in their dict, slots and items."""
    bases = [base for base in kind.__mro__ if base not in _HOLDERS]
    return all(base.__flags__ & (1 << 9) and not _is_of_c(base) for base in bases)


def _is_of_c(kind: type) -> bool:
    """Returns true for a class that was written in C though it is on the heap: it has functions
    that no other class has.
    """
    functions = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)
    held = vars(kind).values()
    return any(isinstance(x, functions) and x.__objclass__ is kind for x in held)
