"""Watches attributes that calls of a module leave changed: flags, names, submodules.

A program is for the attributes of its capture. A call that torch or dynamo runs may change some for
good; programs from before are not for the calls after it then.

Not here: parameters and buffers (``torch.state``), and what a capture itself changes
(``capture.side_effects``). Numbers are watched only where a capture named them: most are notes of
sizes, which the next call writes anew.
"""

from __future__ import annotations

import enum
import weakref
from collections.abc import Iterable
from typing import Any, TypeAlias

import torch

from ..capture.read_attributes import read_attributes

_MISSING = object()
_PLAIN = (bool, str, bytes, type(None), torch.dtype, enum.Enum)
_NUMBERS = (int, float)
#: Attributes of each module: ``training`` is a part of the form of a call.
_OWN = frozenset(torch.nn.Module().__dict__)

#: The path of a module, and an attribute of it.
Place: TypeAlias = tuple[str, str]
#: The attributes that are not as they were at first, and what they are.
State: TypeAlias = frozenset[tuple[Place, Any]]


class KeptAttributes:
    """The attributes of one module that its calls have changed."""

    def __init__(self):
        self._before: dict[Place, Any] | None = None
        #: Those that were seen to change, and what they were at first.
        self._first: dict[Place, Any] = {}
        self._named: set[Place] = set()

    @property
    def is_watching(self) -> bool:
        """Returns true if an attribute was seen to change."""
        return bool(self._first)

    def name(self, places: Iterable[Place]) -> None:
        """Watches these too, whatever they hold."""
        self._named |= set(places)

    def begin(self, module: torch.nn.Module) -> None:
        """A program is there from now on: changes matter."""
        if self._before is None:
            self._before = self._attributes(module)

    def note(self, module: torch.nn.Module) -> bool:
        """Looks at ``module`` after a call that may have changed it; returns true if one did."""
        if self._before is None:
            return False
        before, now = self._before, self._attributes(module)
        changed = [place for place in before.keys() | now.keys() if not _same(before, now, place)]
        self._before = now
        if not changed:
            return False
        read = read_attributes(module)
        for place in changed:
            if place[1] in read or isinstance(before.get(place, now.get(place)), weakref.ref):
                self._first.setdefault(place, before.get(place, _MISSING))
        return True

    def state(self, module: torch.nn.Module) -> State:
        """The attributes that are not as they were at first; empty for most modules."""
        if not self._first:
            return frozenset()
        found = ((place, _value(module, place)) for place in self._first)
        return frozenset(
            (place, _token(value)) for place, value in found if not _equal(value, self._first[place])
        )

    def _attributes(self, module: torch.nn.Module) -> dict[Place, Any]:
        found: dict[Place, Any] = {}
        for path, m in module.named_modules():
            for name, part in m._modules.items():
                found[path, name] = _kept(part)
            for name in m.__dict__.keys() - _OWN:
                value = m.__dict__[name]
                is_named = isinstance(value, _NUMBERS) and (path, name) in self._named
                if isinstance(value, _PLAIN) or is_named:
                    found[path, name] = value
        return found


def _kept(value):
    """A value as it is compared: submodules are not kept alive."""
    return weakref.ref(value) if isinstance(value, torch.nn.Module) else value


def _token(value) -> Any:
    """A value in a key."""
    if isinstance(value, weakref.ref) or value is _MISSING:
        return value
    return type(value).__qualname__, repr(value)


def _value(module: torch.nn.Module, place: Place) -> Any:
    path, name = place
    try:
        holder = module.get_submodule(path)
    except AttributeError:
        return _MISSING
    return _kept(holder.__dict__.get(name, holder._modules.get(name, _MISSING)))


def _same(before: dict[Place, Any], now: dict[Place, Any], place: Place) -> bool:
    return _equal(before.get(place, _MISSING), now.get(place, _MISSING))


def _equal(a, b) -> bool:
    if a is b or type(a) is not type(b):
        return a is b
    return (
        a == b if isinstance(a, weakref.ref) else isinstance(a, (*_PLAIN, *_NUMBERS)) and repr(a) == repr(b)
    )
