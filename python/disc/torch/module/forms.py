"""Keeps the forms in which a module is called, and what was compiled for each.

A form is the structure of the arguments, their constants, types and ranks, the mode of the module,
the state of autocast, the default device, and all that is watched of the module. Whether an
argument came by position or by name makes no difference, nor whether a default was passed. A form
may be for all values of some numbers (``open_numbers``).

Invariant: a form is compiled once, whatever number of threads ask for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from ..calls.call import PLAIN
from ..calls.refusals import Refusals
from ..devices import autocast_state
from ..pytree import kv_caches
from ..pytree.arguments import CONSTANTS
from ..pytree.held_values import HeldValues
from ..pytree.open_numbers import may_be_open
from ..pytree.parameters import Parameters
from ..watch.modes import default_device
from ..watch.module_watch import ModuleWatch
from .entry import Entry, GraphEntry

#: Gives the module that is compiled, which may be gone.
Original: TypeAlias = Callable[[], torch.nn.Module]

#: A number of a call: its row in the key of the form, and its place among the leaves of the row.
Leaf = tuple[int, int]


@dataclass
class Form:
    """One form of call: what was compiled for it first, then variants for calls that the first does
    not serve.
    """

    key: tuple
    #: The module as it was when it was compiled.
    watch: ModuleWatch
    entries: list[Entry] = field(default_factory=list)
    #: Calls that the entries refused.
    refusals: Refusals = field(default_factory=Refusals)
    #: Report values of entries whose place another one took.
    retired: list[dict[str, Any]] = field(default_factory=list)
    #: No further variant is compiled.
    is_closed: bool = False
    #: The values of the module that each call reads.
    held: HeldValues | None = None
    #: The numbers of which the form takes all values.
    numbers: frozenset[Leaf] = frozenset()

    @property
    def training(self) -> bool:
        """The mode of the module."""
        return self.key[0]

    @property
    def autocast(self) -> autocast_state.State:
        """The state of autocast."""
        return self.key[1]

    def pass_questions(self) -> None:
        """Tells the entries what the model asks of the tensors of a call."""
        for entry in self.entries:
            if isinstance(entry, GraphEntry):
                entry.call.questions = self.watch.questions

    def is_for(self, original: Original) -> bool:
        """Returns true if it is for the module as it is now, but for values of weights."""
        return self.watch.holds() and all(entry.takes_weights(original) for entry in self.entries)

    @property
    def is_plain(self) -> bool:
        """Returns true without autocast and without a default device."""
        return not self.autocast and self.key[2] is None


class Forms:
    """The forms of one module."""

    def __init__(self, parameters: Parameters):
        self.parameters = parameters
        self.held: list[Form] = []

    def key(self, training: bool, args: tuple, kwargs: dict) -> tuple:
        """The form of a call."""
        row: list[Any] = [training, autocast_state.current(), default_device()]
        given = self.parameters.given(args, kwargs)
        for name in sorted(given, key=str):
            value = given[name]
            if type(value) in PLAIN:
                row.append((name, None, (_kind(value),)))
                continue
            leaves, spec = kv_caches.flatten(value)
            row.append((name, spec, tuple(map(_kind, leaves))))
        return tuple(row)

    def find(self, key: tuple, original: Original, may_be_open: bool = True) -> Form | None:
        """The form that was compiled for the module as it is now, but for values of weights; one
        without open numbers first.
        """
        found = None
        for form in self.held:
            if not form.numbers:
                if form.key == key and form.is_for(original):
                    return form
            elif may_be_open and found is None and form.key == opened(key, form.numbers):
                found = form if form.is_for(original) else None
        return found

    def of_key(self, key: tuple) -> list[Form]:
        """The forms of a key, whatever the module was."""
        return [form for form in self.held if form.key == key]

    def rows(self, args: tuple, kwargs: dict) -> list[Any]:
        """The names of the arguments that rows of the key are about, from row ``FIRST`` on."""
        return sorted(self.parameters.given(args, kwargs), key=str)


def opened(key: tuple, numbers: frozenset[Leaf]) -> tuple | None:
    """The key of the form for all values of ``numbers``; None if one of them cannot be open."""
    rows: list[Any] = list(key)
    for row, place in numbers:
        if row >= len(rows) or row < FIRST or place >= len(rows[row][2]):
            return None
        name, spec, kinds = rows[row]
        kind, value = kinds[place]
        if kind is not float and not may_be_open(value):
            return None
        rows[row] = name, spec, (*kinds[:place], (kind, _ANY), *kinds[place + 1 :])
    return tuple(rows)


#: The first rows of a key are about the module and modes of torch.
FIRST = 3
#: The value of an open number.
_ANY = "any"


def _kind(leaf) -> tuple[Any, ...]:
    if isinstance(leaf, torch.Tensor):
        kind = torch.Tensor if type(leaf) in PLAIN else type(leaf)
        return kind, leaf.dtype, leaf.dim(), str(leaf.device), leaf.layout
    if isinstance(leaf, (float, complex)):
        return type(leaf), repr(leaf)
    return type(leaf), leaf if isinstance(leaf, CONSTANTS) else None
