"""Numbers the objects that a walk meets, and keeps a half-read one from being taken for a whole.

Objects that refer to each other in a circle are read together: they are a strongly connected
component, found by the lowest number that each refers to (Tarjan). If one of them was left half
read, whatever refers to any of them is in doubt too.
"""

from __future__ import annotations

from typing import Any

import torch

from .doubts import Unsure

_MOST_OBJECTS = 200_000
_MOST_DEPTH = 400


class Visits:
    """The objects that were met, and those that are being read."""

    def __init__(self):
        #: The number of every object that was met, by identity.
        self.numbers: dict[int, int] = {}
        #: The same objects, kept alive, so that no identity comes twice.
        self._kept: list[Any] = []
        #: The numbers of objects that are being read, from the outside in.
        self._open: list[int] = []
        #: For each object the lowest number of those that it refers to.
        self._low: list[int] = []
        #: Objects that were left half read, and why.
        self._spoilt: dict[int, str] = {}
        #: Numbers of storages of tensors.
        self._storages: dict[int, int] = {}

    def begin(self, x: Any) -> None:
        """Opens an object that was not met before."""
        number = len(self._kept)
        self.numbers[id(x)] = number
        self._low.append(number)
        self._kept.append(x)
        if number >= _MOST_OBJECTS:
            raise Unsure("too much is reached from it")
        if len(self._open) >= _MOST_DEPTH:
            raise Unsure("its structure is too deep")
        self._open.append(number)

    def end(self) -> None:
        """Closes the innermost open object, which was read whole."""
        self._tie(self._low[self._open.pop()])

    def spoil(self, reason: str) -> None:
        """Closes the innermost open object, which was left half read."""
        self._spoilt[self._open.pop()] = reason

    def refer(self, number: int) -> None:
        """Notes that the innermost open object refers to one that was met before; raises if that
        one, or one that it is read with, was left half read.
        """
        low, spoilt = self._low, self._spoilt
        while True:
            if number in spoilt:
                raise Unsure(spoilt[number])
            if low[number] == number:
                break
            number = low[number]
        self._tie(number)

    def _tie(self, number: int) -> None:
        if self._open and number < self._low[last := self._open[-1]]:
            self._low[last] = number

    def storage(self, storage: torch.UntypedStorage) -> int:
        """The number of a storage, by which tensors that share one are told."""
        return self._storages.setdefault(storage._cdata, len(self._storages))
