"""Fourier transforms of torch.

Tensors are of f32 or f64, complex ones are pairs of such (``Complex``).
"""

from __future__ import annotations

from ...lowering.complex_value import Complex
from ...lowering.sizes import is_int

#: The longest line that is transformed.
LONGEST = 4096

#: Nothing, 1 over the root of the number of elements, 1 over the number.
_NORMALIZATIONS = ("none", "root", "count")


def r2c(b, x, dims, normalization, onesided):
    _check(b, [x.shape[axis] for axis in dims])
    form = {"axes": list(dims), "normalization": _NORMALIZATIONS[normalization]}
    return Complex(*b.compose("fourier_of_real", x, onesided=onesided, **form))


def c2c(b, z, dims, normalization, forward):
    _check(b, [z.re.shape[axis] for axis in dims])
    form = {"axes": list(dims), "normalization": _NORMALIZATIONS[normalization]}
    return Complex(*b.compose("fourier", z.re, z.im, forward=forward, **form))


def c2r(b, z, dims, normalization, n):
    _check(b, [*(z.re.shape[axis] for axis in dims[:-1]), n])
    form = {"axes": list(dims), "normalization": _NORMALIZATIONS[normalization]}
    return b.compose("fourier_to_real", z.re, z.im, size=n, **form)


def _check(b, sizes) -> None:
    for n in sizes:
        if is_int(n) and n > LONGEST:
            raise b.unsupported(f"a transform over {n} elements: at most {LONGEST} are supported")


TABLE = {
    "aten._fft_r2c.default": r2c,
    "aten._fft_c2c.default": c2c,
    "aten._fft_c2r.default": c2r,
}
