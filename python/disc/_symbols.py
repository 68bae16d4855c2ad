"""Numbers of torch that depend on sizes, and the expressions behind them."""

from __future__ import annotations

import sympy
import torch

#: Those that one can compute with as Python does with an int or a float: a condition has no root.
NUMBERS = (torch.SymInt, torch.SymFloat)
SYMBOLIC = (*NUMBERS, torch.SymBool)


def has_symbol(data) -> bool:
    """Whether a nested list holds a number that depends on sizes."""
    if isinstance(data, (list, tuple)):
        return any(has_symbol(x) for x in data)
    return isinstance(data, SYMBOLIC)


def expression(size) -> int | sympy.Expr:
    """The sympy expression of a SymInt, an int if it is constant; what is no SymInt is itself."""
    if not isinstance(size, torch.SymInt):
        return size
    expr = size.node.expr
    return int(expr) if expr.is_number else expr
