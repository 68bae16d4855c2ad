"""Keeps the forms in which a module is called, and what was compiled for each.

A form is the structure of the arguments, their constants, types and ranks, the mode of the module,
and the state of autocast. Whether an argument came by position or by name makes no difference, nor
whether a default was passed.

Invariant: a form is compiled once, whatever number of threads ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from ..call import PLAIN
from ..pytree import kv_caches
from ..pytree.arguments import CONSTANTS
from ..pytree.parameters import Parameters
from .entry import Entry


@dataclass
class Form:
    """One form of call: what was compiled for it first, then variants for calls that the first does
    not serve.
    """

    key: tuple
    entries: list[Entry] = field(default_factory=list)
    #: Calls that torch served, by the reason.
    eager: dict[str, int] = field(default_factory=dict)
    #: Why no further variant is compiled.
    is_closed: bool = False

    def is_without_autocast(self) -> bool:
        return self.key[1] is None


class Forms:
    """The forms of one module."""

    def __init__(self, parameters: Parameters):
        self.parameters = parameters
        self.held: list[Form] = []

    def key(self, training: bool, args: tuple, kwargs: dict) -> tuple:
        """The form of a call."""
        row = [training, autocast_state()]
        for name, value in self.parameters.given(args, kwargs).items():
            if type(value) in PLAIN:
                row.append((name, None, (_kind(value),)))
                continue
            leaves, spec = kv_caches.flatten(value)
            row.append((name, spec, tuple(map(_kind, leaves))))
        return tuple(row)

    def find(self, key: tuple) -> Form | None:
        return next((form for form in self.held if form.key == key), None)


def autocast_state() -> torch.dtype | None:
    """The type that autocast converts to on a CPU; None if it is off."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None


def _kind(leaf) -> tuple[Any, ...]:
    if isinstance(leaf, torch.Tensor):
        return torch.Tensor, type(leaf), leaf.dtype, leaf.dim(), leaf.device.type, leaf.layout
    if isinstance(leaf, (float, complex)):
        return type(leaf), repr(leaf)
    return type(leaf), leaf if isinstance(leaf, CONSTANTS) else None
