"""Passes values that a module holds as inputs of each call: numbers and tensors that its user keeps
changing.

They are leaves of the arguments under the keyword ``HELD``, which no parameter has. A trace finds
stand-ins in their places, wherever code reads them from.

Invariant: after a trace each place holds what it held, or what somebody else put there meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ...core.errors import Error
from ..graph.changes import Change
from ..graph.exported import Traced
from .open_numbers import may_be_open, opened

#: The keyword of the arguments that values come by; names of inputs begin with it.
HELD = "self"
_DENSE = frozenset((torch.Tensor, torch.nn.Buffer))


@dataclass(frozen=True)
class Held:
    """A place that values are read from: an attribute or a global, and what messages call it."""

    space: dict
    key: str
    name: str
    #: The class whose attribute it is.
    owner: type | None = None

    @property
    def identity(self) -> tuple[int, str]:
        return id(self.space), self.key

    def put(self, value: Any) -> None:
        """Puts a value there."""
        if self.owner is None:
            self.space[self.key] = value
        else:
            # Python keeps what it looked up in a class, until somebody says that it changed.
            type.__setattr__(self.owner, self.key, value)


class HeldValues:
    """The places of a module from which each call reads its values."""

    def __init__(self, places: list[Held]):
        self.places = tuple(places)
        #: The places by names that tell them apart: objects of one set, and classes that one
        #: function makes, have one name for messages.
        self._named: dict[str, Held] = {}
        for place in places:
            of_name = sum(other.name == place.name for other in self._named.values())
            self._named[f"{place.name} ({of_name + 1})" if of_name else place.name] = place

    def __str__(self) -> str:
        return ", ".join(place.name for place in self.places)

    def values(self) -> dict[str, Any]:
        """The values now, by name."""
        return {name: place.space.get(place.key) for name, place in self._named.items()}

    def example(self) -> dict[str, Any]:
        """The values now, with numbers marked as open."""
        return {name: value if _is_tensor(value) else opened(value) for name, value in self.values().items()}

    def kinds(self) -> list[Any]:
        """All that a program knows of the values: their types, dtypes, ranks and devices."""
        return [kind_of(value) for value in self.values().values()]

    def refuse_others(self, traced: Traced, changes: list[Change]) -> None:
        """Raises for a trace that has a tensor of the values under another name too, as a constant,
        and for calls that change attributes, which may be the values.
        """
        if changes:
            raise Error("calls change attributes of the module", code="E0404")
        read = {value.untyped_storage()._cdata for value in self.values().values() if _is_tensor(value)}
        known = [t for _, t in traced.constants] + [t for *_, t in traced.weights]
        if any(t.untyped_storage()._cdata in read for t in known):
            raise Error("a tensor that each call reads has another name too", code="E0404")

    @contextlib.contextmanager
    def replaced(self, values: dict[str, Any]) -> Iterator[None]:
        """Puts other values in the places for a trace."""
        before = self.values()
        try:
            for name, place in self._named.items():
                place.put(values[name])
            yield
        finally:
            for name, place in self._named.items():
                # What another thread has put there meanwhile stays.
                if place.space.get(place.key) is values[name]:
                    place.put(before[name])


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def kind_of(value: Any) -> Any:
    """All that a program for every such value knows of it; None where there is no such program."""
    if type(value) in _DENSE:
        if value.requires_grad or value.layout is not torch.strided:
            return None
        return torch.Tensor, value.dtype, value.dim(), value.device
    return type(value) if may_be_open(value) else None
