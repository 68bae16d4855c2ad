"""Relations of sizes are made without a proof being tried where two examples tell that there is
none: sympy takes some milliseconds for each long one.
"""

from __future__ import annotations

import operator

import sympy
from sympy.core import relational

from ..symbolic.open_conditions import may_differ
from .registry import Override, register

_plain_is_ge, _plain_is_eq = relational.is_ge, relational.is_eq


def _is_ge(lhs, rhs, assumptions=None):
    if assumptions is None and _are_numbers(lhs, rhs) and may_differ(lhs, rhs, operator.ge):
        return None
    return _plain_is_ge(lhs, rhs, assumptions)


def _is_eq(lhs, rhs, assumptions=None):
    if assumptions is None and _are_numbers(lhs, rhs) and may_differ(lhs, rhs, operator.eq):
        return None
    return _plain_is_eq(lhs, rhs, assumptions)


def _are_numbers(lhs, rhs) -> bool:
    return isinstance(lhs, sympy.Expr) and isinstance(rhs, sympy.Expr)


_WHY = "the answer is the same, and sooner there"
register(
    [
        Override(relational, "is_ge", _is_ge, _WHY),
        Override(relational, "is_eq", _is_eq, _WHY),
    ]
)
