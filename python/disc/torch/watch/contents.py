"""Compares what a module can read with what it could read before: the layers of a list may be in
another table after one was put in and taken out, and are the same.
"""

from __future__ import annotations

import collections
from typing import Any

import torch

from ..cache.kinds import has_content
from .modes import asked
from .reach import Reach
from .values import kind_of_weight, same

_HOLDERS = (dict, list, set, collections.deque)
_Row = tuple[str, list[Any]]


class Contents:
    """All that decides about a program, by the places where it was found."""

    def __init__(self, reach: Reach):
        parts = [m for m in reach.modules if id(m) in reach.parts]
        tables = [table for m in parts for table in (m._parameters, m._buffers)]
        weights = {id(table) for table in tables}
        names = reach.names
        rows = [_named(place, space, names) for space, place in reach.spaces]
        rows += [_named(place, space, used) for space, place, used in reach.globals.values()]
        rows += [_items(place, d) for d, place in reach.registries]
        for d, place in reach.dicts:
            rows.append(_weights(place, d) if id(d) in weights else _items(place, d))
        rows += [(place, list(map(_mark, held))) for held, place in reach.lists]
        rows += [(place, list(map(_mark, held))) for held, place in reach.others]
        rows += [(name, [_mark(cell.cell_contents)]) for cell, name in reach.cells if has_content(cell)]
        #: In the order of places: that of the walk depends on the order of sets.
        self._rows: list[_Row] = sorted(rows, key=lambda row: row[0])
        self._kinds = [type(x) for x in (*reach.modules, *reach.objects)]
        self._modes = [torch.get_default_dtype(), *(now for _, now in asked(reach.asked))]
        self._tied = _numbers(tables)
        # Only the watch compares values.
        self._tensors = [(t, -1 if t.is_inference() else t._version) for t, _ in reach.tensors]

    def is_same(self, other: Contents) -> bool:
        """Returns true if a program for the one is a program for the other."""
        if len(self._rows) != len(other._rows) or self._tied != other._tied:
            return False
        if self._modes != other._modes or collections.Counter(self._kinds) != collections.Counter(
            other._kinds
        ):
            return False
        then, now = ({id(t): version for t, version in one._tensors} for one in (self, other))
        return then == now and all(map(_are_same, self._rows, other._rows))


def _named(place: str, space: dict, names: set[str]) -> _Row:
    """The names of a space that count."""
    return place, [part for name in sorted(names & space.keys()) for part in (name, _mark(space[name]))]


def _items(place: str, held: dict) -> _Row:
    return place, [part for key, value in list(held.items()) for part in (key, _mark(value))]


def _weights(place: str, table: dict) -> _Row:
    return place, [part for name, t in table.items() for part in (name, kind_of_weight(t))]


def _mark(value: Any) -> Any:
    """A value as it counts where it was found: what a container holds is found apart."""
    if isinstance(value, dict):
        return dict
    return type(value) if isinstance(value, _HOLDERS) else value


def _are_same(then: _Row, now: _Row) -> bool:
    return then[0] == now[0] and len(then[1]) == len(now[1]) and all(map(same, then[1], now[1]))


def _numbers(tables: list[dict]) -> list[int]:
    """The weights by number: tied ones have one."""
    numbers: dict[int, int] = {}
    held = [t for table in tables for t in table.values() if isinstance(t, torch.Tensor)]
    return [numbers.setdefault(id(t), len(numbers)) for t in held]
