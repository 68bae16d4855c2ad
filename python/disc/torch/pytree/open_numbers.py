"""Carries numbers of Python that calls change in tensors, so that one program serves all of them.

An integer is the size of a tensor without elements: it has a symbol, facts and checks as sizes of
tensors have them. A float is the element of a tensor without axes, which the program reads as
``.item()`` does: what depends on more than its place in arithmetic (a branch) cannot be captured.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

#: Integers from here on are no sizes.
_TOO_LARGE = 2**62


class OpenNumber:
    """A number of an example of which calls have other values."""

    #: The type of the number.
    kind: ClassVar[type]


class OpenInteger(OpenNumber, int):
    """An integer of an example of which calls have other values."""

    kind = int


class OpenFloat(OpenNumber, float):
    """A float of an example of which calls have other values."""

    kind = float


#: The axes of a carrier, by the type of its number: the user says nothing of their sizes.
AXES: dict[type, tuple] = {int: (None, 0), float: ()}


def may_be_open(leaf) -> bool:
    """Returns true for a float, and for an integer that can be a size; 0 stays a constant, since
    models ask for it (``1 / n``, ``if n``).
    """
    if isinstance(leaf, float):
        return type(leaf) in (float, OpenFloat)
    return type(leaf) in (int, OpenInteger) and 0 < leaf < _TOO_LARGE


def opened(number) -> OpenNumber:
    """The number, marked as one of which calls have other values."""
    return OpenFloat(number) if isinstance(number, float) else OpenInteger(number)


def carrier(number: Any) -> torch.Tensor:
    """The tensor that has an integer for its first size, or a float for its element (f64)."""
    if isinstance(number, float):
        return torch.scalar_tensor(float(number), dtype=torch.float64, device="cpu")
    return torch.empty((number, 0), dtype=torch.int8, device="cpu")


def number_in(tensor: torch.Tensor, kind: type):
    """The number that a carrier has."""
    return tensor.shape[0] if kind is int else tensor.item()
