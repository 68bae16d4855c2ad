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
    if isinstance(e, tsf.RoundDecimal) and e.args[1].is_Integer and abs(e.args[1]) <= _MOST_DIGITS:
        return Number(_rounded(b, parts[0], int(e.args[1])))
    if isinstance(e, (sympy.Pow, tsf.FloatPow)) and e.args[1] == 0.5:
        # The root of a square is exact.
        return Number(b.op("sqrt", parts[0]))
    if isinstance(e, (sympy.Pow, tsf.FloatPow)):
        return Number(b.map("power", *parts))
    if name == "OpaqueUnaryFn_log2":
        return Number(b.div(b.op("log", parts[0]), b.lift(math.log(2), "f64")))
    unary = {"OpaqueUnaryFn_sqrt": "sqrt", "OpaqueUnaryFn_log": "log", "OpaqueUnaryFn_exp": "exponential"}
    if name in unary:
        return Number(b.op(unary[name], parts[0]))
    raise UnsupportedOp(f"the number {e} is computed from sizes in a way that is not supported")


#: Powers of ten up to this one, and their halves of 26 bits, are exact.
_MOST_DIGITS = 15


def _rounded(b: TorchEmitter, x, digits: int):
    """``round(x, digits)`` as Python has it: of the exact value of ``x``, which is a float."""
    unit = float(10 ** abs(digits))
    if digits <= 0:
        size = b.op("abs", x)
        rest = b.map("remainder", size, b.lift(unit, "f64"))
        count = b.div(b.sub(size, rest), unit)
        near = b.mul(_stepped(b, count, b.sub(rest, unit / 2)), unit)
        return b.select(b.compare("LT", x, b.lift(0.0, "f64")), b.neg(near), near)
    scaled = b.mul(x, unit)
    low = b.op("floor", scaled)
    # What the product lost decides where it seems to be in the middle.
    rest = b.sub(b.sub(scaled, low), 0.5)
    is_middle = b.compare("EQ", rest, b.lift(0.0, "f64"))
    near = _stepped(b, low, b.select(is_middle, _lost(b, x, unit, scaled), rest))
    is_whole = b.compare("GE", b.op("abs", scaled), b.lift(2.0**52, "f64"))
    return b.select(is_whole, x, b.div(near, unit))


def _stepped(b: TorchEmitter, count, beyond):
    """``count``, one more where ``beyond`` is above 0, or the even one of both where it is 0."""
    zero, two = b.lift(0.0, "f64"), b.lift(2.0, "f64")
    is_odd = b.compare("NE", b.map("remainder", count, two), zero)
    is_up = b.map("or", b.compare("GT", beyond, zero), b.map("and", b.compare("EQ", beyond, zero), is_odd))
    return b.select(is_up, b.add(count, 1.0), count)


def _lost(b: TorchEmitter, x, factor: float, product):
    """``x * factor - product``, exactly, for the rounded product (Dekker)."""

    def halves(value):
        scaled = b.mul(value, 134217729.0)
        high = b.sub(scaled, b.sub(scaled, value))
        return high, b.sub(value, high)

    (x_high, x_low), (high, low) = halves(x), halves(b.lift(factor, "f64"))
    lost = b.sub(b.mul(x_high, high), product)
    return b.add(b.add(b.add(lost, b.mul(x_high, low)), b.mul(x_low, high)), b.mul(x_low, low))


def rounded_root(b: TorchEmitter, e):
    """The dim of a root of sizes that is rounded to an integer, which the host computes."""
    value = b.lift(floating(b, e.args[0]), "f64")
    if isinstance(e, tsf.TruncToInt):
        rounded = b.mul(b.op("sign", value), b.op("floor", b.op("abs", value)))
    else:
        names = ((tsf.FloorToInt, "floor"), (tsf.CeilToInt, "ceil"), (tsf.RoundToInt, "round_nearest_even"))
        rounded = b.op(next(name for kind, name in names if isinstance(e, kind)), value)
    return b.bind_dim(b.convert(rounded, "i64"))


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
