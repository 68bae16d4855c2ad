"""Quotients of sizes lose what dividend and divisor have in common term by term, and a quotient of
a quotient is one.

torch calls sympy's ``simplify`` on what is left, which takes seconds where a term has divisions
in it, and finds nothing that the terms do not show.
"""

from __future__ import annotations

import sympy
from torch.utils._sympy import functions as tsf

from ..symbolic.remainders import one_division
from .registry import Override, register

_plain_eval = tsf.FloorDiv.eval


def _eval(base, divisor):
    """``FloorDiv.eval`` of one division after the common factor is gone."""
    if isinstance(base, sympy.Add) and divisor.is_Integer and divisor > 0:
        operands = one_division(base, divisor)
        if operands is not None:
            return tsf.FloorDiv(*operands)
    if isinstance(base, (sympy.Add, sympy.Mul)) and base.free_symbols and not divisor.is_zero:
        common = tsf.simple_floordiv_gcd(base, divisor)
        quotients = [_divided(expr, common) for expr in (base, divisor)] if common != 1 else [None]
        if None not in quotients:
            return tsf.FloorDiv(*quotients)
    return _plain_eval(base, divisor)


def _divided(expr: sympy.Expr, factor) -> sympy.Expr | None:
    """``expr / factor``, if the factor is one of ``expr`` itself or of each of its terms."""
    if expr == factor:
        return sympy.S.One
    terms = [term / factor for term in sympy.Add.make_args(expr)]
    return sympy.Add(*terms) if all(sympy.denom(term) == 1 for term in terms) else None


register([Override(tsf.FloorDiv, "eval", _eval, "the answer is the same, and sooner there")])
