"""Decides which of two sizes is larger where they differ by a constant and
remainders, for all integers, and writes sizes that are padded to whole windows as multiples.

Padding as TensorFlow does it is ``max(0, 2 * ceil(x / 2) - x + 1)``, where ``2 * ceil(x / 2) - x``
is 0 or 1. torch keeps the maximum, and the size after the next such layer holds it three times:
expressions that grow exponentially take minutes. The compiler's dims decide the same
(``crates/disc-ir/src/dim/periodic.rs``), once they are made.

Padding to whole windows as Swin does it is ``x + (w - x % w) % w``: as ``w * ((x + w - 1) // w)``
it is a multiple for everything that divides it again.
"""

from __future__ import annotations

import math

import sympy
from torch.utils._sympy import functions as tsf


def largest(args: list[sympy.Expr]) -> sympy.Expr:
    """The maximum of ``args``; of two, the one that the other is never above,
    where there is such a one.

    >>> x = sympy.Symbol("x", integer=True)
    >>> largest([sympy.Integer(0), 2 * tsf.CeilToInt(tsf.IntTrueDiv(x, sympy.Integer(2))) - x + 1])
    -x + 2*(((x + 1)//2)) + 1
    >>> largest([sympy.Integer(0), -tsf.Mod(x, 8)])
    0
    """
    order = _order(args)
    return tsf.Max(*args) if order is None else order[1]


def smallest(args: list[sympy.Expr]) -> sympy.Expr:
    """The minimum of ``args``; of two, the one that the other is never below, where there is such
    a one.

    >>> x = sympy.Symbol("x", integer=True)
    >>> smallest([x, 7 * tsf.FloorDiv(x + 6, 7)])
    x
    """
    order = _order(args)
    return tsf.Min(*args) if order is None else order[0]


def _order(args: list[sympy.Expr]) -> tuple[sympy.Expr, sympy.Expr] | None:
    """Two sizes, the smaller one first, if their order is known."""
    if len(args) != 2 or not any(arg.has(tsf.FloorDiv, tsf.CeilToInt, tsf.Mod) for arg in args):
        return None
    a, b = (_in_whole_numbers(arg) for arg in args)
    least, most = _bounds(a - b)
    return (b, a) if least >= 0 else (a, b) if most <= 0 else None


def in_windows(expr: sympy.Expr) -> sympy.Expr:
    """``expr`` with ``x + (w - x % w) % w`` as a multiple of ``w``.

    >>> x = sympy.Symbol("x", integer=True)
    >>> in_windows(2 * (x + tsf.Mod(7 - tsf.Mod(x, 7), 7)))
    14*(((x + 6)//7))
    >>> in_windows(x + tsf.PythonMod(-x, 8))
    8*(((x + 7)//8))
    """
    if isinstance(expr, sympy.Mul):
        return expr.func(*map(in_windows, expr.args))
    for term in expr.args if isinstance(expr, sympy.Add) else ():
        times, part = term.as_coeff_Mul()
        if not isinstance(part, _REMAINDERS):
            continue
        minus, window = part.args
        missing = window - minus
        # Of the remainder of a number and of the number itself the same is missing.
        is_remainder = isinstance(missing, _REMAINDERS) and missing.args[1] == window
        x = missing.args[0] if is_remainder else -minus
        padded = [times * summand for summand in sympy.Add.make_args(x)]
        if all(summand in expr.args for summand in padded):
            rest = sympy.Add(*(other for other in expr.args if other is not term and other not in padded))
            return in_windows(rest) + times * window * tsf.FloorDiv(x + window - 1, window)
    return expr


def _in_whole_numbers(expr: sympy.Expr) -> sympy.Expr:
    """``expr`` with ``ceil(e / c)`` as ``(e + c - 1) // c``."""
    return expr.replace(
        lambda e: isinstance(e, tsf.CeilToInt) and _is_quotient(e.args[0], tsf.IntTrueDiv),
        lambda e: _floor(e.args[0].args[0] + e.args[0].args[1] - 1, e.args[0].args[1]),
    )


def _is_quotient(expr: sympy.Basic, kind: type) -> bool:
    return isinstance(expr, kind) and expr.args[1].is_Integer and expr.args[1] > 0


def _floor(e: sympy.Expr, c: sympy.Integer) -> sympy.Expr:
    return tsf.FloorDiv(*(one_division(e, c) or (e, c)))


def one_division(e: sympy.Expr, c: sympy.Integer) -> tuple[sympy.Expr, sympy.Expr] | None:
    """The operands ``a + b * k`` and ``b * c`` of the quotient that ``(a // b + k) // c`` is;
    None for an ``e`` of another form.
    """
    more, part = e.as_coeff_Add()
    if not (more.is_Integer and _is_quotient(part, tsf.FloorDiv)):
        return None
    a, b = part.args
    return a + b * more, b * c


def _bounds(expr: sympy.Expr) -> tuple[float, float]:
    """Between which numbers ``expr`` is for all integers, where it is a constant and remainders."""
    least = most = sympy.Integer(0)
    rest = sympy.expand(expr)
    # The outermost division is expanded first: its operands may cancel with the rest.
    for _ in range(_MOST_REMAINDERS):
        if rest.is_number:
            # It is an integer.
            return math.ceil(least + rest), math.floor(most + rest)
        terms = [term.as_coeff_Mul() for term in sympy.Add.make_args(rest)]
        divided = [
            (times, part) for times, part in terms if any(_is_quotient(part, kind) for kind in _DIVISIONS)
        ]
        if not divided:
            break
        times, part = max(divided, key=lambda term: (term[1].count_ops(), str(term[1])))
        e, c = part.args
        # c * (e // c) is e without its remainder.
        exact, of_rest = (times * e / c, -times / c) if isinstance(part, tsf.FloorDiv) else (0, times)
        least, most = least + min(of_rest * (c - 1), 0), most + max(of_rest * (c - 1), 0)
        rest = sympy.expand(rest - times * part + exact)
    return -math.inf, math.inf


_REMAINDERS = (tsf.Mod, tsf.PythonMod)
_DIVISIONS = (tsf.FloorDiv, *_REMAINDERS)
#: Sums of more are left as they are.
_MOST_REMAINDERS = 8
