"""Describes which calls a compiled function accepts: names and dims of its inputs,
facts about sizes, and checks.

Not here: arguments of a framework, and what its tensors are; each front end has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from . import extension, fact_words
from .errors import DimError, ShapeError

_ANOTHER = "pass sizes that fit, or compile the module once more with an example of these sizes"
#: Larger multiples are not looked for; and a size that divides by all that models ask for.
_MOST_MULTIPLE = 128
_DIVISIBLE = 2**8 * 3**2 * 5 * 7


_ALWAYS_ONE = 'compile the module with dims={{"{}": {{{}: 1}}}} if that size is always 1, or with an example of these sizes'


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
    help: pass sizes that fit, or compile the module once more with an example of these sizes
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
    #: The words for checks that calls broke.
    _words: dict[str, fact_words.Words | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    #: The inputs that are integers: each is the first size of a tensor without elements.
    integers: frozenset[str] = frozenset()

    def violated(self, size: Callable[[int, int], int]) -> Check | None:
        """The first check that does not hold; ``size(i, axis)`` gives the sizes of a call."""
        for check in self.checks:
            if not check.holds(*(size(i, axis) for i, axis in check.places)):
                return check
        return None

    def check_error(self, check: Check, size: Callable[[int, int], int]) -> DimError:
        dims = [self.dims[i][axis] for i, axis in check.places]
        met = ", ".join(f"{dim} = {size(i, axis)}" for dim, (i, axis) in zip(dims, check.places, strict=True))
        error = DimError(
            f"{met}: the module needs {self._check_in_words(check, dims)}{self._asked(check.text)}",
            dims=dims,
            help=_ANOTHER,
        )
        error.fact = check.text
        return error

    def _check_in_words(self, check: Check, dims: Sequence[str]) -> str:
        if check.text not in self._words:
            computed = fact_words.is_computed(check.text)
            self._words[check.text] = (
                fact_words.of_condition(dims, check.holds, check.text) if computed else None
            )
        words = self._words[check.text]
        return check.text if words is None else words.needed()

    def rows(self) -> dict[str, list[str]]:
        """The dims of each input, as users see them."""
        rows = zip(self.names, self.dims, strict=True)
        return {name: list(row[:1] if name in self.integers else row) for name, row in rows}

    def is_fixed(self, place: str) -> bool:
        """Returns true if ``axis 1 of x`` has one size."""
        rows = zip(self.names, self.dims, strict=True)
        fixed = (f"axis {i} of {name}" for name, row in rows for i, dim in enumerate(row) if dim.isdigit())
        return place in fixed

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
        places: dict[str, tuple[str, int]] = {}
        for name, shape, dims in zip(self.names, shapes, self.dims, strict=True):
            for axis, (size, dim) in enumerate(zip(shape, dims, strict=True)):
                place = "an argument" if name in self.integers else f"axis {axis} of {name}"
                if dim.isdigit():
                    if size != int(dim):
                        why = self._why_fixed(name, axis)
                        error = DimError(
                            f"{place} is {size}, expected {dim}{why}", dims=[place], help=_ANOTHER
                        )
                        error.size = size
                        raise error
                    continue
                places.setdefault(dim, (name, axis))
                if sizes.setdefault(dim, (size, place))[0] != size:
                    first, where = sizes[dim]
                    stays = {size: (name, axis), first: places[dim]}.get(1)
                    raise DimError(
                        f"{dim} is {size} on {place} and {first} on {where}: {dim} names one size",
                        dims=[dim],
                        help=_ANOTHER if stays is None else _ALWAYS_ONE.format(*stays),
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
            # A declared fact is named as it was declared.
            needed = None
            if fact_words.is_computed(text) and named <= set(used):
                words = fact_words.of_fact(text, self.facts)
                needed = self._in_words(used, values) or (words and words.needed())
            error = DimError(
                f"{met}: the module needs {needed or text}{self._asked(text)}", dims=used, help=_ANOTHER
            )
            error.fact = text
            raise error

    def _in_words(self, used: list[str], values: dict[str, int]) -> str | None:
        """Of what sizes have to be multiples, if that is all that the facts say about them."""
        about = [fact for fact in map(extension.fact, self.facts) if set(fact.symbols()) <= set(used)]
        steps: dict[str, int] = {}
        for dim in used:
            others = dict.fromkeys(used, _DIVISIBLE)
            most = 2 * _MOST_MULTIPLE
            held = [n for n in range(1, most + 1) if all(fact.holds(others | {dim: n}) for fact in about)]
            step = held[0] if held else 0
            if not 0 < step <= _MOST_MULTIPLE or held != list(range(step, most + 1, step)):
                return None
            steps[dim] = step
        wrong = [dim for dim in used if values[dim] % steps[dim]]
        return " and ".join(f"{dim} to be a multiple of {steps[dim]}" for dim in wrong) or None

    def _why_fixed(self, name: str, axis: int) -> str:
        by_model = [text for text in self.fixed if text.startswith(f"{name} axis {axis} ==")]
        if not by_model:
            return ": it was fixed by dims="
        return f": the model itself fixes it{self._asked(by_model[0])}"

    def _asked(self, text: str) -> str:
        return f" ({self.asked_at[text]})" if text in self.asked_at else ""
