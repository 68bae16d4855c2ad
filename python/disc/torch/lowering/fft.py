"""Fourier transforms of torch, as products with matrices of sines and cosines,
which a call makes for the sizes at hand.

Not here: fast transforms. A line of n elements takes n squared steps, and its matrix as much
memory: ``LONGEST`` bounds it. Tensors are of f32 or f64, complex ones are pairs of such
(``Complex``).
"""

from __future__ import annotations

import math

from ...lowering.complex_value import Complex
from ...lowering.sizes import is_int, product
from .data_movement import axis_of

#: The longest line that is transformed.
LONGEST = 4096


def r2c(b, x, dims, normalization, onesided):
    """The spectrum of real lines, planes...; ``onesided``: of the last axis n // 2 + 1 elements,
    of which the others follow.
    """
    *others, last = [axis_of(x, d) for d in dims]
    n = x.shape[last]
    scale = _scale(b, x.dtype, [x.shape[axis] for axis in (*others, last)], normalization)
    cosines, sines = _waves(b, n, n // 2 + 1 if onesided else n, n, x.dtype)
    z = Complex(_along(b, x, cosines, last), b.neg(_along(b, x, sines, last)))
    for axis in others:
        z = _turned(b, z, axis, forward=True)
    return _scaled(b, z, scale)


def c2c(b, z, dims, normalization, forward):
    """The spectrum along each of the axes, or back."""
    axes = [axis_of(z.re, d) for d in dims]
    scale = _scale(b, z.re.dtype, [z.re.shape[axis] for axis in axes], normalization)
    for axis in axes:
        z = _turned(b, z, axis, forward)
    return _scaled(b, z, scale)


def c2r(b, z, dims, normalization, n):
    """The real line of ``n`` elements whose spectrum has ``z`` in its first half."""
    *others, last = [axis_of(z.re, d) for d in dims]
    dtype = z.re.dtype
    scale = _scale(b, dtype, [*(z.re.shape[axis] for axis in others), n], normalization)
    for axis in others:
        z = _turned(b, z, axis, forward=False)
    half = z.re.shape[last]
    cosines, sines = _waves(b, half, n, n, dtype)
    # Each frequency is there twice, except the first and the one in the middle.
    row = b.iota([half], 0, "i64")
    single = b.op("or", _equals(b, row, 0), _equals(b, b.mul(row, 2), n))
    times = b.select(single, b.lift(1.0, dtype), b.lift(2.0, dtype))
    cosines, sines = (b.mul(waves, b.broadcast(times, waves.shape, [0])) for waves in (cosines, sines))
    x = b.sub(_along(b, z.re, cosines, last), _along(b, z.im, sines, last))
    return x if scale is None else b.mul(x, scale)


def _equals(b, x, value):
    return b.compare("EQ", x, b.lift(value, "i64"))


def _waves(b, rows, columns, n, dtype):
    """The cosines and sines of row times column in steps of which ``n`` are a turn."""
    if is_int(n) and n > LONGEST:
        raise b.unsupported(f"a transform over {n} elements: at most {LONGEST} are supported")
    # torch refuses lines of no elements too.
    b.require(n, ">=", 1)
    if not is_int(n):
        b.require(n, "<=", LONGEST)
    shape = [rows, columns]
    place = b.mul(b.iota(shape, 0, "i64"), b.iota(shape, 1, "i64"))
    turn = b.lift(n, "i64")
    # Within half a turn of 0, where floats are finest.
    place = b.map("remainder", b.add(place, b.div(turn, 2)), turn)
    place = b.convert(b.sub(place, b.div(turn, 2)), dtype)
    angle = b.mul(place, b.div(b.lift(2 * math.pi, dtype), b.convert(turn, dtype)))
    return b.op("cosine", angle), b.op("sine", angle)


def _along(b, x, matrix, axis: int):
    """Each line of ``x`` along ``axis`` times the matrix."""
    y = b.dot(x, matrix, contracting=([axis], [0]))
    rank = len(x.shape)
    order = list(range(axis)) + [rank - 1] + list(range(axis, rank - 1))
    return y if axis == rank - 1 else b.transpose(y, order)


def _turned(b, z: Complex, axis: int, forward: bool) -> Complex:
    """The transform along one axis, without a scale."""
    n = z.re.shape[axis]
    cosines, sines = _waves(b, n, n, n, z.re.dtype)
    sines = b.neg(sines) if forward else sines
    re = b.sub(_along(b, z.re, cosines, axis), _along(b, z.im, sines, axis))
    return Complex(re, b.add(_along(b, z.re, sines, axis), _along(b, z.im, cosines, axis)))


def _scale(b, dtype, sizes, normalization):
    """1 over the number of elements (``normalization`` 2) or its root (1);
    None for no scale (0).
    """
    if normalization == 0:
        return None
    count = b.convert(b.lift(product(sizes), "i64"), dtype)
    return b.div(b.lift(1.0, dtype), b.op("sqrt", count) if normalization == 1 else count)


def _scaled(b, z: Complex, scale) -> Complex:
    return z if scale is None else z.map(lambda part: b.mul(part, scale))


TABLE = {
    "aten._fft_r2c.default": r2c,
    "aten._fft_c2c.default": c2c,
    "aten._fft_c2r.default": c2r,
}
