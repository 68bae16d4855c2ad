"""``Dim`` and the ``dims=`` argument: what a user may say about the sizes of the inputs.

Not here: what the model itself implies about sizes (``capture.guards``).
Invariants:

- after ``DimPlan.read`` every axis of every tensor input is one of: fixed to an int, a named Dim,
  or automatic (None);
- the example has one size for each name, within what is declared for it.
"""

from __future__ import annotations

import keyword
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import DimError, Error

STATIC = "static"
#: Sizes are `i64` in compiled code.
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Dim:
    """A named dynamic dimension, and facts about it that each call has to keep.

    Attributes:
        name: An identifier; one name in two places is an equality.
        min: The least size.
        max: The largest size; None for no bound.
        multiple_of: A number that divides every size.
        likely: Sizes that will come often; their code may be specialised at once.

    >>> Dim("S", max=512)
    Dim('S', min=0, max=512, multiple_of=1, likely=())
    """

    name: str
    min: int = field(default=0, kw_only=True)
    max: int | None = field(default=None, kw_only=True)
    multiple_of: int = field(default=1, kw_only=True)
    likely: tuple[int, ...] = field(default=(), kw_only=True)

    def __post_init__(self):
        _check_name(self.name)
        given = {
            "min": _integer(self.name, "min", self.min),
            "max": None if self.max is None else _integer(self.name, "max", self.max),
            "multiple_of": _integer(self.name, "multiple_of", self.multiple_of),
            "likely": _integers(self.name, "likely", self.likely),
        }
        for field_name, value in given.items():
            object.__setattr__(self, field_name, value)
        if self.min < 0 or self.multiple_of < 1 or (self.max is not None and self.max < self.min):
            raise Error(f"{self!r}: expected 0 <= min <= max and multiple_of >= 1", dims=[self.name])
        least = -(-self.min // self.multiple_of) * self.multiple_of
        if least > (_LARGEST if self.max is None else self.max):
            raise Error(f"{self!r}: no size is all of that", dims=[self.name])
        if max(self.multiple_of, self.max or 0) > _LARGEST:
            raise Error(f"{self!r}: sizes have 63 bits", dims=[self.name])
        for size in self.likely:
            if (broken := self.violation(size)) is not None:
                raise Error(f"Dim {self.name}: likely has {size}, against {broken}", dims=[self.name])

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


def _check_name(name) -> None:
    """Refuses names that the text of programs cannot hold, and keywords of Python."""
    if not isinstance(name, str):
        raise Error(f"a Dim has a name: expected a str such as 'B', got {name!r}")
    if not (name.isidentifier() and name.isascii()):
        raise Error(f"Dim name {name!r} is not an identifier (letters, digits and _)")
    if keyword.iskeyword(name) or name in ("min", "max"):
        raise Error(f"Dim name {name!r} has a meaning of its own", help="choose another name")


def _integer(name: str, what: str, value) -> int:
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise Error(f"Dim {name}: {what} = {value!r}, expected an int", dims=[name])


def _integers(name: str, what: str, values) -> tuple[int, ...]:
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
        raise Error(f"Dim {name}: {what} = {values!r}, expected sizes such as (1, 128)", dims=[name])
    return tuple(_integer(name, what, value) for value in values)


@dataclass(frozen=True)
class DimPlan:
    """For each tensor input, in order: one entry per axis (int: fixed, Dim:
    declared, None: automatic).
    """

    axes: tuple[tuple[int | Dim | None, ...], ...]

    @classmethod
    def read(cls, dims, names: Sequence[str], shapes: Sequence[Sequence[int]]) -> DimPlan:
        """``names`` and ``shapes`` are those of the tensor inputs;
        ``dims`` is what the user passed.
        """
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
        keys: dict[int, Any] = {}
        for key, entry in dims.items():
            place = _find_input(key, names)
            if place in keys:
                raise Error(f"dims names the input {names[place]} twice: as {keys[place]!r} and as {key!r}")
            keys[place] = key
            _read_axes(rows[place], entry, names[place], shapes[place], declared)
        plan = cls(tuple(tuple(_resolved(axis, declared) for axis in row) for row in rows))
        _check_equal(plan, names, shapes)
        return plan

    def declared(self) -> dict[str, Dim]:
        return {axis.name: axis for row in self.axes for axis in row if isinstance(axis, Dim)}


def _find_input(key, names: Sequence[str]) -> int:
    if isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(names):
        return key
    if key in names:
        return list(names).index(key)
    raise Error(f"dims names the input {key!r}; the tensor inputs are: {', '.join(names) or 'none'}")


def _read_axes(row: list, entry, name: str, shape, declared: dict[str, Dim]) -> None:
    if not isinstance(entry, (Mapping, list, tuple)):
        raise Error(
            f"dims: input {name}: expected a mapping from axes, got {entry!r}",
            help=f'for example dims={{"{name}": {{0: "B"}}}}',
        )
    pairs = entry.items() if isinstance(entry, Mapping) else enumerate(entry)
    keys: dict[int, int] = {}
    for key, what in pairs:
        if not isinstance(key, int) or isinstance(key, bool) or not -len(shape) <= key < len(shape):
            raise Error(f"dims: input {name} has rank {len(shape)} and no axis {key!r}")
        axis = key % len(shape)
        if axis in keys:
            raise Error(f"dims: input {name} has rank {len(shape)}: {keys[axis]} and {key} are one axis")
        keys[axis] = key
        row[axis] = _read_axis(what, name, axis, int(shape[axis]), declared)


_FITS = "give an example that fits what dims= says, or change dims="


def _read_axis(what, name: str, axis: int, size: int, declared: dict[str, Dim]):
    if what is None:
        return None
    if isinstance(what, bool) or not isinstance(what, (int, str, Dim)):
        raise Error(f"dims: axis {axis} of {name}: expected a str, a disc.Dim, an int or None, got {what!r}")
    if isinstance(what, int):
        if what != size:
            raise DimError(
                f"dims fixes axis {axis} of {name} to {what}; the example's size is {size}", help=_FITS
            )
        return what
    if isinstance(what, str):
        return declared.setdefault(what, Dim(what))
    known = declared.get(what.name)
    if known is not None and known not in (Dim(what.name), what):
        raise Error(f"dims declares {what.name} twice: {known!r} and {what!r}", dims=[what.name])
    declared[what.name] = what
    if (broken := what.violation(size)) is not None:
        raise DimError(
            f"axis {axis} of {name} is {size} in the example, against {broken}", dims=[what.name], help=_FITS
        )
    return what


def _resolved(axis, declared: dict[str, Dim]):
    return declared[axis.name] if isinstance(axis, Dim) else axis


def _check_equal(plan: DimPlan, names: Sequence[str], shapes: Sequence[Sequence[int]]) -> None:
    """One name in two places is an equality, which the example must satisfy as calls must."""
    first: dict[str, tuple[str, int]] = {}
    for i, row in enumerate(plan.axes):
        for axis, what in enumerate(row):
            if not isinstance(what, Dim):
                continue
            place, size = f"axis {axis} of {names[i]}", int(shapes[i][axis])
            where, before = first.setdefault(what.name, (place, size))
            if size != before:
                raise DimError(
                    f"{what.name} is {before} on {where} and {size} on {place} in the example: one name is one size",
                    dims=[what.name],
                    help="give the two axes names of their own, or an example with equal sizes",
                )
