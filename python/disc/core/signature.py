"""Describes which calls a compiled function accepts: names and dims of its inputs,
facts about sizes, and checks.

Not here: arguments of a framework, and what its tensors are; each front end has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from . import extension
from .errors import DimError, ShapeError


class Check(NamedTuple):
    """A condition on sizes that the facts of the compiler cannot express."""

    holds: Callable[..., bool]
    #: The input and the axis of each size that ``holds`` takes.
    places: list[tuple[int, int]]
    text: str


@dataclass
class Signature:
    """The inputs of one compiled function.

    >>> signature = Signature(["x", "y"], [["B", "4"], ["B"]], ["B >= 2"])
    >>> signature.explain([(3, 4), (3,)])
    >>> signature.explain([(3, 4), (5,)])
    Traceback (most recent call last):
    ...
    disc.core.errors.DimError: [E0602] B is 5 on axis 0 of y and 3 on axis 0 of x: B names one size
    """

    names: Sequence[str]
    #: One row per input: the text of each axis, a name or a number.
    dims: Sequence[Sequence[str]]
    facts: Sequence[str] = ()
    checks: Sequence[Check] = ()
    #: Axes that the model itself fixes: ``x axis 1 == 4``.
    fixed: Sequence[str] = ()
    #: The lines of the model that ask for facts, checks and fixed sizes.
    asked_at: dict[str, str] = field(default_factory=dict)

    def violated(self, size: Callable[[int, int], int]) -> Check | None:
        """The first check that does not hold; ``size(i, axis)`` gives the sizes of a call."""
        for check in self.checks:
            if not check.holds(*(size(i, axis) for i, axis in check.places)):
                return check
        return None

    def check_error(self, check: Check, size: Callable[[int, int], int]) -> DimError:
        dims = [self.dims[i][axis] for i, axis in check.places]
        met = ", ".join(f"{dim} = {size(i, axis)}" for dim, (i, axis) in zip(dims, check.places, strict=True))
        error = DimError(f"{met}: the module needs {check.text}{self._asked(check.text)}", dims=dims)
        error.fact = check.text
        return error

    def explain(self, shapes: Sequence[Sequence[int]]) -> None:
        """Raises what is wrong with the ranks and sizes of a call; returns if nothing is."""
        for name, shape, dims in zip(self.names, shapes, self.dims, strict=True):
            if len(shape) != len(dims):
                raise ShapeError(
                    f"input {name} has rank {len(shape)} (shape {list(shape)}), expected {len(dims)}: "
                    f"[{', '.join(dims)}]"
                )
        self._explain_facts(self._bound(shapes))

    def _bound(self, shapes: Sequence[Sequence[int]]) -> dict[str, tuple[int, str]]:
        """The size of each named dim, and the place where it was met first."""
        sizes: dict[str, tuple[int, str]] = {}
        for name, shape, dims in zip(self.names, shapes, self.dims, strict=True):
            for axis, (size, dim) in enumerate(zip(shape, dims, strict=True)):
                place = f"axis {axis} of {name}"
                if dim.isdigit():
                    if size != int(dim):
                        why = self._why_fixed(name, axis)
                        raise DimError(f"{place} is {size}, expected {dim}{why}", dims=[place])
                elif sizes.setdefault(dim, (size, place))[0] != size:
                    first, where = sizes[dim]
                    raise DimError(
                        f"{dim} is {size} on {place} and {first} on {where}: {dim} names one size", dims=[dim]
                    )
        return sizes

    def _explain_facts(self, sizes: dict[str, tuple[int, str]]) -> None:
        values = {dim: size for dim, (size, _) in sizes.items()}
        for text in self.facts:
            fact = extension.fact(text)
            # A fact about a dim of the inside of the function has no answer here: the compiled
            # code checks it.
            if fact.holds(values) is not False:
                continue
            named = set(fact.symbols())
            used = [dim for dim in sizes if dim in named]
            met = ", ".join(f"{dim} = {sizes[dim][0]} ({sizes[dim][1]})" for dim in used)
            error = DimError(f"{met}: the module needs {text}{self._asked(text)}", dims=used)
            error.fact = text
            raise error

    def _why_fixed(self, name: str, axis: int) -> str:
        by_model = [text for text in self.fixed if text.startswith(f"{name} axis {axis} ==")]
        if not by_model:
            return ": it was fixed by dims="
        return f": the model itself fixes it{self._asked(by_model[0])}"

    def _asked(self, text: str) -> str:
        return f" ({self.asked_at[text]})" if text in self.asked_at else ""
