"""Watches all that decided what was compiled of a module: ``ModuleWatch``.

Not here: values of weights (``watch.weights``), and what a module writes while it is captured
(``watch.outside``).
Invariant: a watch that holds means that a capture made now would be the one that was made.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection
from typing import Any

import torch

from ...core import extension
from ..cache.kinds import has_content
from ..pytree.held_values import Held, HeldValues, kind_of
from . import modes
from .contents import Contents
from .reach import Reach
from .values import are_equal, is_switch, kind_of_weight, same
from .weights import are_tied, tied_places


class ModuleWatch:
    """Holds what a module can read, as it was when this was made.

    ``serves(weights)`` and ``holds()`` are asked at calls, and native.
    """

    def __init__(self, reach: Reach | None, tables: Collection[str] = (), held: HeldValues | None = None):
        """Notes what ``reach`` found; without it nothing is watched but modes of torch. Of
        ``tables``, which calls fill, only the items count that are there; of values in ``held``,
        which calls read, only their kinds.
        """
        #: Names of the rows of the native watch.
        self._spaces: list[str] = []
        #: All that the module could read then; None if nothing is watched.
        self.reach = reach
        self._tables = frozenset(tables)
        self._held = held
        #: The dicts of the first rows hold attributes and globals.
        self._attributes: list[dict] = []
        #: The classes whose dicts are among them.
        self._classes = reach.classes if reach is not None else {}
        rows: dict[str, Any] = {"dicts": [], "lists": [], "cells": [], "objects": [], "modes": []}
        tensors: list[tuple[torch.Tensor, bool]] = []
        if reach is not None:
            rows = self._rows(reach)
            read = {id(value) for value in held.values().values()} if held is not None else set()
            tensors = [(t, True) for t, _ in reach.tensors if id(t) not in read]
        self._versions = [(t, t._version) for t, _ in tensors if not t.is_inference()]
        watch = extension.module_watch(
            **rows, plain=modes.plain(), tensors=extension.weight_watch([], tensors), same=same
        )
        self.native = watch
        #: The questions of the model about the tensors of a call (``watch.inputs``).
        self.questions = frozenset(reach.questions if reach is not None else ())
        # Tables that calls fill, and values that they read, are others each time.
        is_plain = reach is not None and held is None and not self._tables
        self._contents = Contents(reach) if is_plain else None
        self.serves = watch.serves
        self.holds = watch.holds

    def _rows(self, reach: Reach) -> dict[str, Any]:
        names = frozenset(reach.names)
        parts = [m for m in reach.modules if id(m) in reach.parts]
        weights = {id(table) for m in parts for table in (m._parameters, m._buffers)}
        dicts = [(space, self._watched(space, names), None, place) for space, place in reach.spaces]
        dicts += [
            (space, self._watched(space, frozenset(used)), None, place)
            for space, place, used in reach.globals.values()
        ]
        self._attributes = [space for space, *_ in dicts]
        dicts += [(d, frozenset(d), None, place) for d, place in reach.registries if _has_plain_keys(d)]
        for d, place in reach.dicts:
            names_there = frozenset(d) if place in self._tables and id(d) not in weights else None
            dicts.append((d, names_there, kind_of_weight if id(d) in weights else None, place))
        self._spaces = [place for *_, place in dicts]
        return {
            "dicts": [row[:3] for row in dicts],
            "lists": [held for held, _ in reach.lists],
            "cells": [(cell, cell.cell_contents) for cell, _ in reach.cells if has_content(cell)],
            "objects": [*reach.modules, *reach.objects],
            "modes": [
                *([(self._held.kinds, self._held.kinds())] if self._held is not None else []),
                *modes.asked(reach.asked),
                *(_contents_of(held) for held, _ in reach.others),
                *((functools.partial(are_tied, places), True) for places in tied_places(parts)),
            ],
        }

    def _watched(self, space: dict, names: frozenset[str]) -> frozenset[str]:
        """The names of a space that count, without those that calls read."""
        if self._held is None:
            return names
        return names - {held.key for held in self._held.places if held.space is space}

    def changed(self) -> list[str]:
        """Names what is not as it was."""
        rows, lists, cells, kinds, changed_modes, has_tensors = self.native.changes()
        reach = self.reach
        if reach is None:
            return []
        found = [_joined(self._spaces[i], key) for i, key, _, _ in rows]
        found += [reach.lists[i][1] for i in lists]
        named = [name for cell, name in reach.cells if has_content(cell)]
        found += [named[i] for i in cells if i < len(named)]
        objects = [*reach.modules, *reach.objects]
        found += [f"the class of {type(objects[i]).__name__}" for i in kinds]
        if self._held is not None and 0 in changed_modes:
            found.append(f"the kind of {self._held}")
            changed_modes = changed_modes[1:]
        found += ["a mode of torch, a set, or tied weights" for _ in changed_modes]
        if has_tensors:
            found.append("a tensor that is no parameter and no buffer")
        return list(dict.fromkeys(found))

    def changed_values(self) -> list[tuple[Held, Any]]:
        """The places of numbers and tensors that changed to others of their kind, each with what
        tells the old value from others; empty if anything else changed.
        """
        rows, *others, has_tensors = self.native.changes()
        if any(others):
            return []
        found: list[tuple[Held, Any]] = []
        for i, key, then, now in rows:
            if i >= len(self._attributes) or (kind := kind_of(now)) is None or kind_of(then) != kind:
                return []
            then = id(then) if isinstance(then, torch.Tensor) else repr(then)
            found.append((self._place(i, key), then))
        if has_tensors:
            written = [(t, version) for t, version in self._versions if t._version != version]
            places = [(place, version) for t, version in written for place in self._places_of(t)]
            if not written or len(places) != len(written):
                return []
            found += places
        return found

    def _places_of(self, t: torch.Tensor) -> list[Held]:
        if kind_of(t) is None:
            return []
        return [
            self._place(i, key)
            for i, space in enumerate(self._attributes)
            for key, value in space.items()
            if value is t and isinstance(key, str)
        ]

    def _place(self, i: int, key: str) -> Held:
        """The place of a name in a space of attributes or globals."""
        space = self._attributes[i]
        return Held(space, key, _joined(self._spaces[i], key), self._classes.get(id(space)))

    def is_back(self, contents: Contents) -> bool:
        """Returns true if the module has again what it had, in other tables and lists."""
        return self._contents is not None and self._contents.is_same(contents)

    def is_equal(self) -> bool:
        """Returns true if all that changed are lists, dicts and sets that others took the place of,
        which hold the same.
        """
        rows, *others = self.native.changes()
        # The same object under its key is in another place of its dict.
        are_others = all(then is not now and are_equal(then, now) for _, _, then, now in rows)
        return bool(rows) and not any(others) and are_others

    def is_prepared(self) -> bool:
        """Returns true if all that changed are new flags: a first call leaves them, which say what
        it has prepared.
        """
        rows, *others = self.native.changes()
        return not any(others) and all(then is None and isinstance(now, bool) for _, _, then, now in rows)

    def accept_notes(self, names: Collection[str] | None) -> None:
        """Takes attributes of these names that changed for what was; without names all that
        changed, but for flags, names and submodules: a call that PyTorch runs leaves notes.
        """
        rows, lists, *_ = self.native.changes()
        for i, key, then, now in rows:
            is_note = not is_switch(then, now) if names is None else _joined(self._spaces[i], key) in names
            if is_note:
                self.native.accept(i, key)
        for i in lists if names is None else ():
            self.native.accept_list(i)


def _joined(place: str, key: Any) -> str:
    return f"{place}.{key}" if place else str(key)


def _has_plain_keys(table: dict) -> bool:
    return all(isinstance(key, (str, int, type)) for key in table)


def _contents_of(held: Any) -> tuple[Any, Any]:
    """A function that tells of what a set or a queue holds, and its answer now."""
    if isinstance(held, set):
        return functools.partial(frozenset, held), frozenset(held)
    return functools.partial(_holds, held, tuple(held)), True


def _holds(held: Any, then: tuple) -> bool:
    return len(held) == len(then) and all(map(operator.is_, held, then))
