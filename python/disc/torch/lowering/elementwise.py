"""Element-wise ops of torch. An entry takes the emitter and the arguments of the overload.

Where torch on CPU rounds f16 and bf16 once per op, compositions here are computed in f32
(``b.widened``).
"""

from __future__ import annotations

import math

import torch

from ...core.errors import Error
from ...lowering import dtypes
from ...lowering.emitter import Number, is_value
from .promotion import DTYPES

INF = math.inf


def floating(name):
    """An op on floats; integers become torch's default float."""
    return lambda b, x: b.op(name, *b.promote(x, floating=True))


def floating_by(f):
    """A composition on floats, computed in f32 for half types."""

    def entry(b, x, *args, **kwargs):
        (x,) = b.promote(x, floating=True)
        return b.widened(lambda v: f(b, v, *args, **kwargs), x)

    return entry


def rounding(name):
    """Integers are round already."""
    return lambda b, x: b.op(name, x) if x.dtype in dtypes.FLOATS else x


def binary(name):
    return lambda b, x, y: b.map(name, *b.promote(x, y))


def binary_floating(name):
    return lambda b, x, y: b.map(name, *b.promote(x, y, floating=True))


def comparison(direction):
    return lambda b, x, y: b.compare(direction, *b.promote(x, y))


def logical(name):
    return lambda b, x, y: b.map(name, truth(b, x), truth(b, y))


def truth(b, x):
    return b.convert(b.lift(x), "i1")


# Arithmetic.


def add(b, x, y, alpha=1):
    return _scaled(b, b.add, x, y, alpha)


def sub(b, x, y, alpha=1):
    return _scaled(b, b.sub, x, y, alpha)


def _scaled(b, combine, x, y, alpha):
    x, y = b.promote(x, y)
    if alpha == 1:
        return combine(x, y)
    # Of half types, alpha is one, but the product is not.
    return b.widened(lambda u, v, w: combine(u, b.mul(v, w)), x, y, b.lift(alpha, x.dtype))


def mul(b, x, y):
    return _by_number(b, b.mul, x, y)


def div(b, x, y, rounding_mode=None):
    if rounding_mode is None:
        return _by_number(b, b.div, x, y, floating=True)
    return floor_divide(b, x, y) if rounding_mode == "floor" else trunc_divide(b, x, y)


def _by_number(b, combine, x, y, floating=False):
    """Of half types: torch does not round a factor or divisor that is a number,
    or a tensor without axes.
    """
    operands = b.promote(x, y, floating=floating)
    dtype = operands[0].dtype
    inexact = [_is_inexact(v, dtype) for v in (x, y)]
    if not any(inexact):
        return combine(*operands)
    pairs = zip(inexact, (x, y), operands, strict=True)
    wide = [b.lift(v, "f32") if is_inexact else b.wide(operand) for is_inexact, v, operand in pairs]
    return b.convert(combine(*wide), dtype)


def _is_inexact(x, dtype: str) -> bool:
    """A number that a half type has to round."""
    if dtype not in dtypes.HALVES:
        return False
    if isinstance(x, bool):
        return False
    if isinstance(x, (int, float)):
        return not math.isnan(x) and torch.tensor(float(x), dtype=DTYPES[dtype]).item() != x
    x = x.value if isinstance(x, Number) else x
    # What is no value is a size.
    return not is_value(x) or (not x.shape and x.dtype in ("f32", "f64", "i32", "i64"))


def trunc_divide(b, x, y):
    x, y = b.promote(x, y)
    # torch rounds the quotient of half types before it cuts.
    return trunc(b, b.widened(lambda p, q: b.div(p, q), x, y))


def floor_divide(b, x, y):
    return b.compose("floor_divide", *b.promote(x, y))


def remainder(b, x, y):
    """The sign of the divisor, as in Python."""
    return b.compose("floor_remainder", *b.promote(x, y))


def fmod(b, x, y):
    return b.map("remainder", *b.promote(x, y))


def power(b, x, y):
    if isinstance(y, (int, float)) and is_value(x):
        return _power_of_constant(b, x, y)
    is_number = isinstance(y, Number)
    x, y = b.promote(x, y)
    result = b.map("power", x, y)
    if is_number and x.dtype in dtypes.FLOATS and x.dtype != "f16":
        for exponent, root in _ROOTS.items():
            is_root = b.compare("EQ", y, b.lift(exponent, y.dtype))
            result = b.select(is_root, b.widened(lambda v, root=root: b.op(root, v), x), result)
    return result


#: They differ from a power at -inf and -0.0, and torch takes them for all but f16.
_ROOTS = {0.5: "sqrt", -0.5: "rsqrt"}


def _power_of_constant(b, x, y):
    (x, exponent) = b.promote(x, y)
    if x.dtype in dtypes.INTS and y < 0:
        raise Error("integers to negative integer powers are not allowed", op="aten.pow")
    steps = {1: lambda v: v, 2: lambda v: b.mul(v, v), 3: lambda v: b.mul(b.mul(v, v), v)}
    if x.dtype in dtypes.FLOATS:
        if x.dtype != "f16":
            steps |= {exponent: lambda v, root=root: b.op(root, v) for exponent, root in _ROOTS.items()}
        steps |= {
            -1: lambda v: reciprocal(b, v),
            -2: lambda v: reciprocal(b, b.mul(v, v)),
        }
    return b.widened(steps[y], x) if y in steps else b.map("power", x, exponent)


def reciprocal(b, x):
    (x,) = b.promote(x, floating=True)
    return b.div(b.lift(1, x.dtype), x)


def trunc(b, x):
    if x.dtype not in dtypes.FLOATS:
        return x
    return b.select(b.compare("LT", x, b.lift(0, x.dtype)), b.op("ceil", x), b.op("floor", x))


def absolute(b, x):
    return x if x.dtype in ("i1", "u8") else b.op("abs", x)


def sign(b, x):
    """torch gives 0 for NaN."""
    if x.dtype in ("i1", "u8"):
        return x if x.dtype == "i1" else b.convert(b.convert(x, "i1"), "u8")
    zero = b.lift(0, x.dtype)
    positive, negative = (b.convert(b.compare(d, x, zero), x.dtype) for d in ("GT", "LT"))
    return b.sub(positive, negative)


def round_decimals(b, x, decimals=0):
    if x.dtype not in dtypes.FLOATS:
        return x
    if decimals == 0:
        return b.op("round_nearest_even", x)
    scale = float(10 ** abs(decimals))

    def scaled(v):
        if decimals > 0:
            return b.div(b.op("round_nearest_even", b.mul(v, scale)), scale)
        return b.mul(b.op("round_nearest_even", b.div(v, scale)), scale)

    return b.widened(scaled, x)


def next_after(b, x, y):
    return b.compose("next_after", *b.promote(x, y))


def frac(b, x):
    return b.sub(x, trunc(b, x))


def bitwise(name):
    return binary(name)


def shift_left(b, x, y):
    return b.map("shift_left", *b.promote(x, y))


def shift_right(b, x, y):
    """Unsigned integers get zeros from the left, others their sign."""
    x, y = b.promote(x, y)
    return b.map("shift_right_logical" if x.dtype.startswith("u") else "shift_right_arithmetic", x, y)


# Choices.


def where(b, pred, x, y):
    x, y = b.promote(x, y)
    return b.select(truth(b, pred), x, y)


def clamp(b, x, low=None, high=None):
    dtype = b.promoted_type(*(v for v in (x, low, high) if v is not None))
    x = b.lift(x, dtype)
    if low is not None:
        x = b.maximum(x, b.lift(low, dtype))
    return x if high is None else b.minimum(x, b.lift(high, dtype))


def ignoring_nan(name):
    """fmax and fmin: a NaN loses against a number."""

    def entry(b, x, y):
        x, y = b.promote(x, y)
        if x.dtype not in dtypes.FLOATS:
            return b.map(name, x, y)
        both = b.map(name, x, y)
        return b.select(b.is_nan(x), y, b.select(b.is_nan(y), x, both))

    return entry


def nan_to_num(b, x, nan=None, posinf=None, neginf=None):
    if x.dtype not in dtypes.FLOATS:
        return x
    greatest = {
        "f16": 65504.0,
        "bf16": 3.3895313892515355e38,
        "f32": 3.4028234663852886e38,
        "f64": 1.7976931348623157e308,
    }[x.dtype]
    low = -greatest if neginf is None else neginf
    y = b.select(
        b.compare("EQ", x, b.lift(INF, x.dtype)), b.lift(greatest if posinf is None else posinf, x.dtype), x
    )
    y = b.select(b.compare("EQ", x, b.lift(-INF, x.dtype)), b.lift(low, x.dtype), y)
    return b.select(b.is_nan(x), b.lift(nan or 0.0, x.dtype), y)


def masked_fill(b, x, mask, value):
    return b.select(mask, b.lift(value, x.dtype), x)


def predicate(name):
    return lambda b, x: (
        b.op(name, x) if x.dtype in dtypes.FLOATS else b.full(name == "is_finite", x.shape, "i1")
    )


def equals(value):
    return lambda b, x: (
        b.compare("EQ", x, b.lift(value, x.dtype))
        if x.dtype in dtypes.FLOATS
        else b.full(False, x.shape, "i1")
    )


# Two-argument mathematics.


def composed_binary(name: str):
    """A composition of two floats; integers become torch's default float."""
    return lambda b, x, y: b.compose(name, *b.promote(x, y, floating=True))


def lerp(b, x, end, weight):
    # A weight without axes decides the type of numbers of a lower kind.
    x, end = b.convert(x, b.dtype), b.convert(end, b.dtype)

    def f(u, v, w):
        w = b.lift(w, u.dtype)
        distance = b.sub(v, u)
        far = b.sub(v, b.mul(distance, b.sub(b.lift(1, u.dtype), w)))
        return b.select(
            b.compare("LT", b.op("abs", w), b.lift(0.5, u.dtype)), b.add(u, b.mul(w, distance)), far
        )

    # A number is not rounded to a half type: torch takes it as it is.
    return (
        b.widened(f, x, end, weight) if is_value(weight) else b.widened(lambda u, v: f(u, v, weight), x, end)
    )


def addcmul(b, x, u, v, value=1):
    dtype = b.promoted_type(x, u, v)
    x, u, v = (b.lift(t, dtype) for t in (x, u, v))
    return b.widened(lambda x, u, v: b.add(x, b.mul(b.mul(u, v), value)), x, u, v)


def addcdiv(b, x, u, v, value=1):
    dtype = b.promoted_type(x, u, v)
    x, u, v = (b.lift(t, dtype) for t in (x, u, v))
    return b.widened(lambda x, u, v: b.add(x, b.div(b.mul(u, value), v)), x, u, v)


def sinc(b, x):
    return b.compose("sinc", *b.promote(x, floating=True))


def logit(b, x, eps=None):
    return b.compose("logit", *b.promote(x, floating=True), epsilon=eps)


def scaled_log(factor):
    return floating_by(lambda b, x: b.mul(b.op("log", x), factor))


def isclose(b, x, y, rtol=1e-05, atol=1e-08, equal_nan=False):
    x, y = b.promote(x, y)
    equal = b.compare("EQ", x, y)
    if equal_nan:
        equal = b.map("or", equal, b.map("and", b.is_nan(x), b.is_nan(y)))
    if rtol == 0 and atol == 0:
        return equal
    x, y = b.promote(x, y, floating=True)
    allowed = b.add(mul(b, b.op("abs", y), rtol), atol)
    error = b.op("abs", b.sub(x, y))
    near = b.map("and", b.op("is_finite", error), b.compare("LE", error, allowed))
    return b.map("or", equal, near)


def rsub(b, x, y, alpha=1):
    return sub(b, y, x, alpha) if is_value(y) or alpha == 1 else b.sub(b.lift(y, x.dtype), b.mul(x, alpha))


_UNARY = {
    "acos": "acos",
    "acosh": "acosh",
    "asin": "asin",
    "asinh": "asinh",
    "atan": "atan",
    "atanh": "atanh",
    "cos": "cosine",
    "cosh": "cosh",
    "digamma": "digamma",
    "erf": "erf",
    "erfc": "erfc",
    "erfinv": "erf_inv",
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "lgamma": "lgamma",
    "log": "log",
    "log1p": "log_plus_one",
    "rsqrt": "rsqrt",
    "special_i1e": "bessel_i1e",
    "sigmoid": "logistic",
    "sin": "sine",
    "sinh": "sinh",
    "sqrt": "sqrt",
    "tan": "tan",
    "tanh": "tanh",
}
_BINARY = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "remainder": remainder,
    "fmod": fmod,
    "bitwise_and": bitwise("and"),
    "bitwise_or": bitwise("or"),
    "bitwise_xor": bitwise("xor"),
    "eq": comparison("EQ"),
    "ne": comparison("NE"),
    "lt": comparison("LT"),
    "le": comparison("LE"),
    "gt": comparison("GT"),
    "ge": comparison("GE"),
}

TABLE = {
    **{f"aten.{name}.default": floating(op) for name, op in _UNARY.items()},
    **{f"aten.{name}.{kind}": f for name, f in _BINARY.items() for kind in ("Tensor", "Scalar")},
    "aten.pow.Tensor_Tensor": power,
    "aten.pow.Tensor_Scalar": power,
    "aten.pow.Scalar": power,
    "aten.remainder.Scalar_Tensor": remainder,
    "aten.floor_divide.default": floor_divide,
    "aten.bitwise_left_shift.Tensor": shift_left,
    "aten.bitwise_right_shift.Tensor": shift_right,
    "aten.bitwise_left_shift.Tensor_Scalar": shift_left,
    "aten.bitwise_right_shift.Tensor_Scalar": shift_right,
    "aten.__lshift__.Tensor": shift_left,
    "aten.__rshift__.Tensor": shift_right,
    "aten.__lshift__.Scalar": shift_left,
    "aten.__rshift__.Scalar": shift_right,
    "aten.__and__.Scalar": bitwise("and"),
    "aten.__or__.Scalar": bitwise("or"),
    "aten.__xor__.Scalar": bitwise("xor"),
    "aten.__and__.Tensor": bitwise("and"),
    "aten.__or__.Tensor": bitwise("or"),
    "aten.__xor__.Tensor": bitwise("xor"),
    "aten.div.Tensor": div,
    "aten.div.Scalar": div,
    "aten.div.Tensor_mode": div,
    "aten.div.Scalar_mode": div,
    "aten.true_divide.Tensor": div,
    "aten.true_divide.Scalar": div,
    "aten.rsub.Tensor": rsub,
    "aten.rsub.Scalar": rsub,
    "aten.multiply.Tensor": mul,
    "aten.subtract.Tensor": sub,
    "aten.reciprocal.default": reciprocal,
    "aten.square.default": lambda b, x: power(b, x, 2),
    "aten.neg.default": lambda b, x: b.neg(x),
    "aten.abs.default": absolute,
    "aten.sign.default": sign,
    "aten.sgn.default": sign,
    "aten.ceil.default": rounding("ceil"),
    "aten.floor.default": rounding("floor"),
    "aten.round.default": rounding("round_nearest_even"),
    "aten.round.decimals": round_decimals,
    "aten.trunc.default": trunc,
    "aten.fix.default": trunc,
    "aten.frac.default": frac,
    # Not exp(x ln 2), whose error grows with x.
    "aten.exp2.default": floating_by(lambda b, x: b.map("power", b.lift(2, x.dtype), x)),
    "aten.log2.default": scaled_log(1 / math.log(2)),
    "aten.log10.default": scaled_log(1 / math.log(10)),
    "aten.special_expit.default": floating("logistic"),
    "aten.special_erf.default": floating("erf"),
    "aten.deg2rad.default": floating_by(lambda b, x: b.mul(x, math.pi / 180)),
    "aten.rad2deg.default": floating_by(lambda b, x: b.mul(x, 180 / math.pi)),
    "aten.sinc.default": sinc,
    "aten.logit.default": logit,
    "aten.positive.default": lambda b, x: x,
    # comparisons and logic
    "aten.isnan.default": predicate("is_nan"),
    "aten.isinf.default": predicate("is_inf"),
    "aten.isfinite.default": predicate("is_finite"),
    "aten.isposinf.default": equals(INF),
    "aten.isneginf.default": equals(-INF),
    "aten.isclose.default": isclose,
    "aten.bitwise_not.default": lambda b, x: b.op("not", x),
    "aten.logical_not.default": lambda b, x: b.op("not", truth(b, x)),
    "aten.logical_and.default": logical("and"),
    "aten.logical_or.default": logical("or"),
    "aten.logical_xor.default": logical("xor"),
    # choices
    "aten.where.self": where,
    "aten.where.ScalarOther": where,
    "aten.where.ScalarSelf": where,
    "aten.where.Scalar": where,
    "aten.clamp.default": clamp,
    "aten.clamp.Tensor": clamp,
    "aten.clip.default": clamp,
    "aten.clamp_min.default": lambda b, x, low: clamp(b, x, low),
    "aten.clamp_min.Tensor": lambda b, x, low: clamp(b, x, low),
    "aten.clamp_max.default": lambda b, x, high: clamp(b, x, None, high),
    "aten.clamp_max.Tensor": lambda b, x, high: clamp(b, x, None, high),
    "aten.maximum.default": binary("maximum"),
    "aten.minimum.default": binary("minimum"),
    "aten.max.other": binary("maximum"),
    "aten.min.other": binary("minimum"),
    "aten.fmax.default": ignoring_nan("maximum"),
    "aten.fmin.default": ignoring_nan("minimum"),
    "aten.masked_fill.Scalar": masked_fill,
    "aten.masked_fill.Tensor": masked_fill,
    "aten.nan_to_num.default": nan_to_num,
    # two arguments
    "aten.atan2.default": binary_floating("atan2"),
    "aten.arctan2.default": binary_floating("atan2"),
    "aten.logaddexp.default": composed_binary("log_add_exp"),
    "aten.xlogy.Tensor": composed_binary("x_log_y"),
    "aten.xlogy.Scalar_Other": composed_binary("x_log_y"),
    "aten.xlogy.Scalar_Self": composed_binary("x_log_y"),
    "aten.hypot.default": composed_binary("hypot"),
    "aten.nextafter.default": next_after,
    "aten.lerp.Scalar": lerp,
    "aten.lerp.Tensor": lerp,
    "aten.addcmul.default": addcmul,
    "aten.addcdiv.default": addcdiv,
}
