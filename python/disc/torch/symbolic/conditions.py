"""Classifies, rewrites and spells conditions on sizes, which are sympy relations.

Not here: which code asked for a condition, and what becomes of it (``capture.guards``).
"""

from __future__ import annotations

import itertools

import sympy
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter
from torch.utils._sympy import functions as tsf

REMAINDERS = (sympy.Mod, tsf.Mod, tsf.PythonMod)


def resolved(expr, replacements: dict):
    """Symbols that were proved equal to others are gone from the graph;
    they go from the facts too.
    """
    for _ in range(len(replacements) + 1):
        after = expr.xreplace(replacements)
        if after == expr:
            break
        expr = after
    return expr


def conjuncts(expr):
    return expr.args if isinstance(expr, sympy.And) else (expr,)


def keeps_small_away(expr) -> bool:
    """``e > 1`` of the size ``e`` of some value: with one element along an axis,
    its stride does not matter.
    """
    if not is_order(expr):
        return False
    low, high, strict = (
        (expr.rhs, expr.lhs, isinstance(expr, sympy.Gt))
        if isinstance(expr, (sympy.Gt, sympy.Ge))
        else (expr.lhs, expr.rhs, isinstance(expr, sympy.Lt))
    )
    return bool(high.free_symbols) and low == (1 if strict else 2)


def min_bound(expr):
    """``Eq(s, Min(c, s))`` as ``(s <= c, Min(c, s), s)``."""
    if not isinstance(expr, sympy.Eq):
        return None
    for a, b in ((expr.lhs, expr.rhs), (expr.rhs, expr.lhs)):
        if isinstance(b, (sympy.Min, tsf.Min)) and a in b.args and len(b.args) == 2:
            other = next(x for x in b.args if x != a)
            return sympy.Le(a, other), b, a
        if isinstance(b, (sympy.Max, tsf.Max)) and a in b.args and len(b.args) == 2:
            other = next(x for x in b.args if x != a)
            return sympy.Ge(a, other), b, a
    return None


def settled(expr):
    """Drops what holds for every size: dims are at least 0."""
    if isinstance(expr, sympy.Ge) and expr.rhs == 0 and expr.lhs.is_nonnegative:
        return sympy.true
    return expr


def is_order(expr) -> bool:
    return isinstance(expr, (sympy.Gt, sympy.Ge, sympy.Lt, sympy.Le))


def excludes_only_small(expr) -> bool:
    """The condition holds for all sizes of at least 2 and fails for some size 0 or 1;
    as far as samples tell.
    """
    if expr.has(*REMAINDERS):
        return False  # remainders come back at ever larger sizes: no sample tells
    symbols = sorted(expr.free_symbols, key=str)
    if isinstance(expr, sympy.Ne):
        small = expr.rhs if expr.rhs.is_number else expr.lhs
        if small not in (0, 1) or not symbols:
            return False
    elif not is_order(expr) or len(symbols) != 1:
        return False
    # Several symbols take all sizes: different ones in both orders, and equal ones.
    turns = [_SAMPLES[n:] + _SAMPLES[:n] for n in range(len(_SAMPLES))]
    turns += [turn[::-1] for turn in turns] + [(size,) for size in _SAMPLES]
    return all(_holds(expr, zip(symbols, itertools.cycle(turn), strict=False)) for turn in turns)


#: Even and odd sizes, multiples of small numbers and primes.
_SAMPLES = (2, 3, 4, 5, 7, 12, 64, 1 << 20)


def _holds(expr, sizes) -> bool:
    return value_at(expr, {symbol: sympy.Integer(size) for symbol, size in sizes}) == sympy.true


def value_at(fact, sizes: dict):
    """``fact`` with sizes put in. One that divides by a size of 0 does not hold."""
    try:
        return fact.xreplace(sizes)
    except ZeroDivisionError:
        return sympy.false


#: Functions of torch's expressions as Python writes them.
_PYTHON = {
    "TruncToInt": "int",
    "FloorToInt": "math.floor",
    "CeilToInt": "math.ceil",
    "RoundToInt": "round",
    "RoundDecimal": "round",
    "RoundsAlike": "rounds_alike",
    "OpaqueUnaryFn_sqrt": "math.sqrt",
    "OpaqueUnaryFn_log": "math.log",
    "OpaqueUnaryFn_log2": "math.log2",
    "OpaqueUnaryFn_exp": "math.exp",
}


class _Infix(StrPrinter):
    """Relations and remainders as Python writes them."""

    def parenthesize(self, item, level, strict=False):
        # A quotient brings its own.
        return (
            self._print(item) if isinstance(item, tsf.FloorDiv) else super().parenthesize(item, level, strict)
        )

    def _print_Relational(self, expr):
        return f"{self._print(expr.lhs)} {expr.rel_op} {self._print(expr.rhs)}"

    def _print_Or(self, expr):
        return " or ".join(sorted(map(self._print, expr.args)))

    def _print_And(self, expr):
        parts = (f"({self._print(x)})" if isinstance(x, sympy.Or) else self._print(x) for x in expr.args)
        return " and ".join(sorted(parts))

    def _print_Mod(self, expr):
        low = PRECEDENCE["Mul"]
        value = self.parenthesize(expr.args[0], low, strict=True)
        by = self.parenthesize(expr.args[1], low)
        return f"{value} % {by}"

    _print_PythonMod = _print_Mod

    def _print_FloatTrueDiv(self, e):
        by = self.parenthesize(e.args[1], PRECEDENCE["Mul"], strict=False)
        return f"({self._print(e.args[0])})/{by}"

    _print_IntTrueDiv = _print_FloatTrueDiv

    def _print_ToFloat(self, e):
        return self._print(e.args[0])

    _print_Identity = _print_ToFloat

    def _print_PowByNatural(self, e):
        base, power = (self.parenthesize(arg, PRECEDENCE["Pow"]) for arg in e.args)
        return f"{base}**{power}"

    _print_FloatPow = _print_PowByNatural

    def _print_Function(self, e):
        name = _PYTHON.get(type(e).__name__, type(e).__name__)
        return f"{name}({', '.join(map(self._print, e.args))})"

    def _print_Min(self, e):
        return f"min({', '.join(sorted(map(self._print, e.args)))})"

    def _print_Max(self, e):
        return f"max({', '.join(sorted(map(self._print, e.args)))})"


def spelled(fact) -> str:
    """A fact as a user would write it: ``s0 % 2 != 0``."""
    return _Infix().doprint(fact)
