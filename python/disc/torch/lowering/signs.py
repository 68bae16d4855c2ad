"""Ops of torch about the signs of numbers."""

from __future__ import annotations

import math

from ...lowering import dtypes

#: Signed integers of the width of floats.
_BITS = {"f16": "i16", "bf16": "i16", "f32": "i32", "f64": "i64"}


def sign_bit(b, x):
    if x.dtype in dtypes.FLOATS:
        # -0.0 has it, and so may NaN.
        bits = b.op("bitcast_convert", x, dtype=_BITS[x.dtype])
        return b.compare("LT", bits, b.lift(0, bits.dtype))
    return b.compare("LT", x, b.lift(0, x.dtype)) if x.dtype != "i1" else b.full(False, x.shape, "i1")


def copysign(b, x, y):
    x, y = b.promote(x, y, floating=True)
    size = b.op("abs", x)
    return b.select(sign_bit(b, y), b.neg(size), size)


def heaviside(b, x, values):
    zero = b.lift(0, x.dtype)
    step = b.convert(b.compare("GT", x, zero), x.dtype)
    return b.select(b.compare("EQ", x, zero), values, step)


def angle(b, x):
    """Half a turn for numbers below 0."""
    (x,) = b.promote(x, floating=True)
    is_below = b.compare("LT", x, b.lift(0.0, x.dtype))
    turned = b.select(is_below, b.lift(math.pi, x.dtype), b.lift(0.0, x.dtype))
    return b.select(b.op("is_nan", x), x, turned)


TABLE = {
    "aten.signbit.default": sign_bit,
    "aten.angle.default": angle,
    "aten.heaviside.default": heaviside,
    "aten.copysign.Tensor": copysign,
    "aten.copysign.Scalar": copysign,
}
