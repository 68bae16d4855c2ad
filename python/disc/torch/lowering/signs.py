"""Ops of torch about the signs of numbers."""

from __future__ import annotations

from ...lowering.emitter import composed


def copysign(b, x, y):
    return b.compose("copy_sign", *b.promote(x, y, floating=True))


def angle(b, x):
    return b.compose("angle", *b.promote(x, floating=True))


TABLE = {
    "aten.signbit.default": composed("sign_bit"),
    "aten.angle.default": angle,
    "aten.heaviside.default": composed("heaviside"),
    "aten.copysign.Tensor": copysign,
    "aten.copysign.Scalar": copysign,
}
