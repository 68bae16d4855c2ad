"""Lowers numbers that depend on sizes or on data: integers,
floats and conditions of torch's shape environment.
"""

from __future__ import annotations

import functools
import math

import sympy
import torch
from torch.utils._sympy import functions as tsf

from ...core.errors import UnsupportedOp
from ...lowering.emitter import Number
from .emitter import TorchEmitter

_COMPARISONS = (
    (sympy.Eq, "EQ"),
    (sympy.Ne, "NE"),
    (sympy.Le, "LE"),
    (sympy.Ge, "GE"),
    (sympy.Lt, "LT"),
    (sympy.Gt, "GT"),
)


def least_value(val: torch.SymInt):
    """The least value of a size or number, as far as capture knows."""
    return val.node.shape_env.bound_sympy(val.node.expr).lower


def integer(b: TorchEmitter, e) -> Number:
    """A number that depends on data and may be negative."""
    if e in b.expressions.numbers:
        return Number(b.expressions.numbers[e])
    if not e.free_symbols & set(b.expressions.numbers):
        return Number(b.lift(b.expressions.size(e), "i64"))
    parts = [integer(b, arg).value for arg in e.args]
    names = ((sympy.Add, "add"), (sympy.Mul, "multiply"), (tsf.Min, "minimum"), (tsf.Max, "maximum"))
    name = next((name for kind, name in names if isinstance(e, kind)), None)
    if name is None:
        raise UnsupportedOp(
            f"the number {e}, which depends on data, is computed in a way that is not supported"
        )
    result = parts[0]
    for part in parts[1:]:
        result = b.op(name, result, part)
    return Number(result)


def floating(b: TorchEmitter, e) -> Number | float:
    """A floating number that depends on sizes, computed in f64."""
    if e.is_number:
        return float(e)
    if e in b.expressions.numbers:
        return Number(b.lift(b.expressions.numbers[e], "f64"))
    if e.is_integer:
        return Number(b.lift(b.expressions.size(e), "f64"))
    parts = [b.lift(floating(b, arg), "f64") for arg in e.args]
    name = type(e).__name__
    if isinstance(e, (tsf.ToFloat, tsf.Identity, tsf.TruncToFloat)):
        return Number(parts[0])
    if isinstance(e, (tsf.IntTrueDiv, tsf.FloatTrueDiv)):
        return Number(b.div(*parts))
    if isinstance(e, (sympy.Add, sympy.Mul)):
        result = parts[0]
        for part in parts[1:]:
            result = (b.add if isinstance(e, sympy.Add) else b.mul)(result, part)
        return Number(result)
    if isinstance(e, (sympy.Pow, tsf.FloatPow)):
        return Number(b.map("power", *parts))
    if name == "OpaqueUnaryFn_log2":
        return Number(b.div(b.op("log", parts[0]), b.lift(math.log(2), "f64")))
    unary = {"OpaqueUnaryFn_sqrt": "sqrt", "OpaqueUnaryFn_log": "log", "OpaqueUnaryFn_exp": "exponential"}
    if name in unary:
        return Number(b.op(unary[name], parts[0]))
    raise UnsupportedOp(f"the number {e} is computed from sizes in a way that is not supported")


def truth(b: TorchEmitter, e) -> Number | bool:
    """A condition on sizes whose outcome is used as a value."""
    if e in (sympy.true, sympy.false):
        return bool(e)
    if isinstance(e, (sympy.And, sympy.Or, sympy.Not)):
        parts = [b.lift(truth(b, arg), "i1") for arg in e.args]
        name = {sympy.And: "and", sympy.Or: "or", sympy.Not: "not"}[e.func]
        return Number(
            b.op("not", *parts) if name == "not" else functools.reduce(functools.partial(b.map, name), parts)
        )
    direction = next((word for kind, word in _COMPARISONS if isinstance(e, kind)), None)
    if direction is None:
        raise UnsupportedOp(f"the condition {e} on sizes is computed in a way that is not supported")
    number = integer if all(arg.is_integer for arg in e.args) else floating
    dtype = "i64" if number is integer else "f64"
    return Number(b.compare(direction, *(b.lift(number(b, arg), dtype) for arg in e.args)))
