"""Compares values that modules hold, as far as they decide what is compiled."""

from __future__ import annotations

import enum
import types
from typing import Any

import torch

from ..graph.weight_names import PLAIN as TENSORS

_PLAIN = frozenset(
    (
        bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.memory_format,
        torch.layout,
    )
)  # fmt: skip
_SWITCHES = (bool, str, bytes, type(None), torch.dtype, enum.Enum)


def same(then: Any, now: Any) -> bool:
    """Returns true if one value may take the place of the other: plain ones that are equal, and
    tuples and methods of such parts.
    """
    kind = type(then)
    if then is now or kind is not type(now):
        return then is now
    if kind in _PLAIN or isinstance(then, enum.Enum):
        return repr(then) == repr(now)  # tells -0.0 from 0.0, and not NaN from NaN
    if isinstance(then, tuple):
        return len(then) == len(now) and all(map(same, then, now))
    if kind is types.MethodType:
        return then.__self__ is now.__self__ and then.__func__ is now.__func__
    return False


def kind_of_weight(t: Any) -> Any:
    """Returns all that a program knows of a parameter or a buffer: all but its values."""
    if type(t) in TENSORS:
        return t.dtype, tuple(t.shape), t.device, t.layout
    if isinstance(t, torch.Tensor):
        return type(t), t.dtype, tuple(t.shape), t.device, t.layout
    return t


def is_switch(then: Any, now: Any) -> bool:
    """Returns true for a change of a flag, a name or a submodule, which decides about other calls;
    numbers and tensors are mostly notes of the call.
    """
    if isinstance(then, torch.nn.Module) or isinstance(now, torch.nn.Module):
        return True
    return isinstance(then, _SWITCHES) and isinstance(now, _SWITCHES)


def are_equal(then: Any, now: Any) -> bool:
    """Returns true if two values are equal: plain ones, and lists, dicts and sets of such."""
    if same(then, now):
        return True
    if type(then) is not type(now):
        return False
    if isinstance(then, dict):
        return list(then) == list(now) and all(map(are_equal, then.values(), now.values()))
    if isinstance(then, (list, tuple)):
        return len(then) == len(now) and all(map(are_equal, then, now))
    return isinstance(then, set) and all(type(x) in _PLAIN for x in then) and then == now
