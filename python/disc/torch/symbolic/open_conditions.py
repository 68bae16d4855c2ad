"""Finds that a condition on sizes is open: two examples of the sizes for which it has two answers.

torch proves conditions by rewriting them, which takes 5 to 25 milliseconds for one that cannot be
proved; most of those that a trace asks for cannot.

sympy tries to prove each relation that is made.

Invariant: a condition that is open here has no proof, since a proof would be wrong for one of the
examples. Of what is not arithmetic of whole numbers nothing is said.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import sympy
from sympy.logic.boolalg import BooleanAtom
from torch.utils._sympy import functions as tsf
from torch.utils._sympy.numbers import int_oo

#: Sizes that are tried, counted from the least one: each symbol gets another one of a row.
_ROWS = (
    (0, 0, 0, 0),
    (1, 1, 1, 1),
    (2, 2, 2, 2),
    (5, 9, 14, 21),
    (21, 14, 9, 5),
    (0, 3, 7, 4),
    (6, 1, 0, 11),
    (1 << 20, 1 << 21, 1 << 22, 1 << 23),
    (1 << 64, 1 << 65, 1 << 66, 1 << 67),
)


#: Assumptions about symbols that whole numbers from 1 on meet.
_ASSUMED = frozenset(
    (name, True) for name in ("integer", "positive", "nonnegative", "real", "finite", "commutative")
)


#: The greatest exponent that is computed: a power of an example may have more digits than memory.
_MOST_EXPONENT = 16


class _Unknown(Exception):
    """The value of an expression is not known here."""


def is_open(condition: sympy.Basic, ranges: Mapping[sympy.Symbol, Any], known: Iterable[tuple]) -> bool:
    """Returns true if a condition holds for some sizes within ``ranges`` and not for others;
    ``known`` has what is known of conditions, each with its answer.
    """
    if not isinstance(condition, sympy.logic.boolalg.Boolean):
        return False
    here = _symbols(condition)
    if not here:
        return False
    given: list | None = None
    met: set[bool] = set()
    try:
        for values in _examples(sorted(here, key=str), ranges):
            if (found := bool(_value(condition, values))) in met:
                continue
            if given is None:
                # What speaks of other symbols too is no part of this condition.
                given = [(fact, bool(answer)) for fact, answer in known if _symbols(fact) <= here]
            if all(bool(_value(fact, values)) is answer for fact, answer in given):
                met.add(found)
                if len(met) == 2:
                    return True
    except _Unknown:
        pass
    return False


@functools.lru_cache(maxsize=10_000)
def _symbols(x: sympy.Basic) -> frozenset[sympy.Symbol]:
    return frozenset(x.free_symbols)


def may_differ(lhs: sympy.Basic, rhs: sympy.Basic, compare: Callable[[int, int], bool]) -> bool:
    """Returns true if ``compare`` gives both answers for numbers that are as the symbols of ``lhs``
    and ``rhs`` are assumed to be.
    """
    symbols = sorted(_symbols(lhs) | _symbols(rhs), key=str)
    if not symbols:
        return False
    met = None
    try:
        for values in _examples(symbols, None):
            found = compare(_value(lhs, values), _value(rhs, values))
            if met is not None and found is not met:
                return True
            met = found
    except _Unknown:
        pass
    return False


def _examples(symbols: list[sympy.Symbol], ranges: Mapping[sympy.Symbol, Any] | None) -> Iterator[dict]:
    """Numbers for symbols: within ``ranges``, or without any as the symbols are assumed to be."""
    bounds = [(_least(s), None) if ranges is None else _bounds(s, ranges.get(s)) for s in symbols]
    least, most = zip(*bounds, strict=True)
    for row in _ROWS:
        values = {}
        for i, symbol in enumerate(symbols):
            value = least[i] + row[i % len(row)] + i // len(row)
            values[symbol] = value if most[i] is None else min(value, most[i])
        yield values


def _least(symbol: sympy.Symbol) -> int:
    """The least number that a symbol is assumed to be, 0 where nothing is said of that."""
    assumed = getattr(symbol, "_assumptions_orig", None)
    if not assumed or not _ASSUMED.issuperset(assumed.items()) or not assumed.get("integer"):
        raise _Unknown
    return 1 if assumed.get("positive") else 0


def _bounds(symbol: sympy.Symbol, found: Any) -> tuple[int, int | None]:
    """The least and the greatest value of a symbol in a range; None if there is no greatest one."""
    if found is None or not found.is_int or not isinstance(found.lower, sympy.Integer):
        raise _Unknown
    least = max(int(found.lower), _least(symbol))
    if isinstance(found.upper, sympy.Integer):
        return least, int(found.upper)
    if found.upper is not int_oo:
        raise _Unknown
    return least, None


def _value(x: sympy.Basic, values: Mapping[sympy.Symbol, int]) -> int | bool:
    kind = type(x)
    if kind is sympy.Symbol:
        return values[x]
    if isinstance(x, sympy.Integer):
        return int(x)
    if isinstance(x, BooleanAtom):
        return bool(x)
    if (compute := _COMPUTED.get(kind)) is None:
        raise _Unknown
    return compute([_value(arg, values) for arg in x.args])


def _power(args: list) -> int:
    base, exponent = args
    if not 0 <= exponent <= _MOST_EXPONENT:
        raise _Unknown
    return base**exponent


def _of_two(compute: Callable) -> Callable:
    return lambda args: compute(*args)


def _times(args: list) -> int:
    return functools.reduce(operator.mul, args, 1)


_COMPUTED: dict[type, Callable[[list], Any]] = {
    sympy.Add: sum,
    sympy.Mul: _times,
    sympy.Pow: _power,
    sympy.Max: max,
    sympy.Min: min,
    tsf.Max: max,
    tsf.Min: min,
    sympy.Eq: _of_two(operator.eq),
    sympy.Ne: _of_two(operator.ne),
    sympy.Lt: _of_two(operator.lt),
    sympy.Le: _of_two(operator.le),
    sympy.Gt: _of_two(operator.gt),
    sympy.Ge: _of_two(operator.ge),
    sympy.And: all,
    sympy.Or: any,
    sympy.Not: _of_two(operator.not_),
}
