"""Finds and shortens the expressions of torch's symbolic numbers."""

from __future__ import annotations

import functools

import sympy
import torch
from torch.utils import _pytree as pytree
from torch.utils._sympy import functions as tsf

from .remainders import in_windows, largest, smallest

#: Those that one can compute with as Python does with an int or a float: a condition has no root.
NUMBERS = (torch.SymInt, torch.SymFloat)
SYMBOLIC = (*NUMBERS, torch.SymBool)


@functools.cache
def axis_symbol(tensor: int, axis: int) -> sympy.Symbol:
    """The symbol of an axis of an input, which means the same in every trace."""
    return sympy.Symbol(f"axis_{tensor}_{axis}", integer=True, nonnegative=True)


def has_symbol(data) -> bool:
    """Returns true if a nested list holds a number that depends on sizes."""
    if isinstance(data, (list, tuple)):
        return any(has_symbol(x) for x in data)
    return isinstance(data, SYMBOLIC)


def expression(size) -> int | sympy.Expr:
    """The sympy expression of a SymInt, an int if it is constant; what is no SymInt is itself."""
    if not isinstance(size, torch.SymInt):
        return size
    expr = size.node.expr
    return int(expr) if expr.is_number else expr


def shortened(size):
    """The same size by a shorter expression: those of slices of slices would double with each.

    ``a - min(a, b)`` is ``max(0, a - b)``, with ``min(a, b)`` it is ``a``, and ``max(0, max(0, a) -
    1)`` is ``max(0, a - 1)``. Of ``max(0, b)`` one is left where ``b`` is a constant and
    remainders, and padding to whole windows makes a multiple (``symbolic.remainders``).
    """
    expr = expression(size)
    if not isinstance(expr, sympy.Expr) or not expr.has(tsf.Min, tsf.Max, tsf.Mod, tsf.PythonMod):
        return size
    short = _shortened(expr)
    if short == expr:
        return size
    if short.is_number:
        return int(short)
    return size.node.shape_env.create_symintnode(short, hint=size.node.hint)


def _shortened(expr: sympy.Expr) -> sympy.Expr:
    if isinstance(expr, tsf.Max):
        args = []
        for arg in map(_shortened, expr.args):
            more, part = arg.as_coeff_Add()
            args += [x + more for x in part.args] if isinstance(part, tsf.Max) else [arg]
        return largest(args)
    if isinstance(expr, tsf.Min):
        return smallest(list(expr.args))
    expr = in_windows(expr)
    terms = sympy.Add.make_args(expr)
    for term in terms:
        sign, least = term.as_coeff_Mul()
        if sign not in (1, -1) or not isinstance(least, tsf.Min):
            continue
        for a in least.args:
            rest = expr - term
            behind = _shortened(tsf.Max(0, a - tsf.Min(*(b for b in least.args if b != a))))
            if sign == 1 and behind in terms:
                return _shortened(rest - behind + a)
            if sign == -1 and all(part in terms for part in sympy.Add.make_args(a)):
                return _shortened(rest - a + behind)
    return expr


def symbols_of(data) -> set[sympy.Symbol]:
    """The symbols in a nested structure of numbers, tensors and nodes."""
    found: set[sympy.Symbol] = set()
    for leaf in pytree.tree_leaves(data):
        if isinstance(leaf, SYMBOLIC):
            found |= leaf.node.expr.free_symbols
        elif isinstance(leaf, torch.Tensor):
            found |= symbols_of(tuple(leaf.shape))
        elif isinstance(leaf, torch.fx.Node) and isinstance(leaf.meta.get("val"), SYMBOLIC):
            found |= leaf.meta["val"].node.expr.free_symbols
    return found
