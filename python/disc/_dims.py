"""``Dim`` and the ``dims=`` argument: what a user may say about the sizes of the inputs.

Not here: what the model itself implies about sizes (``_guards``).
Invariant: after ``DimPlan.read`` every axis of every tensor input is one of: fixed to an int, a named Dim, or automatic (None).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ._errors import DimError, Error

STATIC = "static"


@dataclass(frozen=True)
class Dim:
    """A named dynamic dimension.

    >>> Dim("S", max=512)
    Dim('S', min=0, max=512, multiple_of=1, likely=())
    """

    name: str
    min: int = field(default=0, kw_only=True)
    max: int | None = field(default=None, kw_only=True)
    multiple_of: int = field(default=1, kw_only=True)
    likely: tuple[int, ...] = field(default=(), kw_only=True)

    def __post_init__(self):
        object.__setattr__(self, "likely", tuple(self.likely))
        if not self.name.isidentifier():
            raise Error(f"Dim name {self.name!r} is not an identifier")
        if self.min < 0 or self.multiple_of < 1 or (self.max is not None and self.max < self.min):
            raise Error(f"{self!r}: expected 0 <= min <= max and multiple_of >= 1", dims=[self.name])

    def __repr__(self) -> str:
        fields = f"min={self.min}, max={self.max}, multiple_of={self.multiple_of}, likely={self.likely}"
        return f"Dim({self.name!r}, {fields})"

    def violation(self, size: int) -> str | None:
        """The fact that ``size`` breaks, as text, or None."""
        if size < self.min:
            return f"{self.name} >= {self.min}"
        if self.max is not None and size > self.max:
            return f"{self.name} <= {self.max}"
        if size % self.multiple_of:
            return f"{self.name} % {self.multiple_of} == 0"
        return None


@dataclass(frozen=True)
class DimPlan:
    """For each tensor input, in order: one entry per axis (int: fixed, Dim: declared, None: automatic)."""

    axes: tuple[tuple[int | Dim | None, ...], ...]

    @classmethod
    def read(cls, dims, names: Sequence[str], shapes: Sequence[Sequence[int]]) -> DimPlan:
        """``names`` and ``shapes`` are those of the tensor inputs; ``dims`` is what the user passed."""
        if dims is None:
            return cls(tuple((None,) * len(shape) for shape in shapes))
        if isinstance(dims, str):
            if dims != STATIC:
                raise Error(f'dims = {dims!r}: expected None, "static" or a mapping')
            return cls(tuple(tuple(int(size) for size in shape) for shape in shapes))
        if not isinstance(dims, Mapping):
            raise Error(f'dims: expected None, "static" or a mapping, got {type(dims).__name__}')
        rows = [[None] * len(shape) for shape in shapes]
        declared: dict[str, Dim] = {}
        for key, entry in dims.items():
            place = _find_input(key, names)
            _read_axes(rows[place], entry, names[place], shapes[place], declared)
        return cls(tuple(tuple(_resolved(axis, declared) for axis in row) for row in rows))

    def declared(self) -> dict[str, Dim]:
        return {axis.name: axis for row in self.axes for axis in row if isinstance(axis, Dim)}


def _find_input(key, names: Sequence[str]) -> int:
    if isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(names):
        return key
    if key in names:
        return list(names).index(key)
    raise Error(f"dims names the input {key!r}; the tensor inputs are: {', '.join(names) or 'none'}")


def _read_axes(row: list, entry, name: str, shape, declared: dict[str, Dim]) -> None:
    pairs = entry.items() if isinstance(entry, Mapping) else enumerate(entry)
    for axis, what in pairs:
        if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
            raise Error(f"dims: input {name} has rank {len(shape)} and no axis {axis!r}")
        row[axis] = _read_axis(what, name, axis % len(shape), int(shape[axis]), declared)


def _read_axis(what, name: str, axis: int, size: int, declared: dict[str, Dim]):
    if what is None:
        return None
    if isinstance(what, bool) or not isinstance(what, (int, str, Dim)):
        raise Error(f"dims: axis {axis} of {name}: expected a str, a disc.Dim, an int or None, got {what!r}")
    if isinstance(what, int):
        if what != size:
            raise DimError(f"dims fixes axis {axis} of {name} to {what}; the example's size is {size}")
        return what
    if isinstance(what, str):
        return declared.setdefault(what, Dim(what))
    known = declared.get(what.name)
    if known is not None and known not in (Dim(what.name), what):
        raise Error(f"dims declares {what.name} twice: {known!r} and {what!r}", dims=[what.name])
    declared[what.name] = what
    if (broken := what.violation(size)) is not None:
        raise DimError(f"axis {axis} of {name} is {size} in the example, against {broken}", dims=[what.name])
    return what


def _resolved(axis, declared: dict[str, Dim]):
    return declared[axis.name] if isinstance(axis, Dim) else axis
