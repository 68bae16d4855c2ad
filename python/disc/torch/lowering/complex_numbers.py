"""Complex tensors, as rotary embeddings and Fourier transforms use them: a pair of values,
the real and the imaginary part.

Ops that only move elements, and linear ones, work on each part separately. What is not named here
is not supported.
"""

from __future__ import annotations

from types import SimpleNamespace

import torch

from ...core.errors import UnsupportedOp
from ...lowering.complex_value import Complex
from . import fft
from .data_movement import constant_pad
from .promotion import name_of

_PARTS = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def joined(b, x) -> Complex:
    """Out of the layout that torch gives complex numbers: the last axis has both parts."""
    axis = len(x.shape) - 1
    return Complex(*(b.squeeze(b.slice(x, axis, i, i + 1), axis) for i in range(2)))


def apart(b, z: Complex):
    """A value with both parts in its last axis."""
    return b.concatenate([b.unsqueeze(z.re, -1), b.unsqueeze(z.im, -1)], len(z.re.shape))


def _polar(b, radius, angle):
    return Complex(b.mul(radius, b.op("cosine", angle)), b.mul(radius, b.op("sine", angle)))


def _mul(b, x, y):
    if not isinstance(x, Complex):
        x, y = y, x
    x = _complex(b, x)
    if not isinstance(y, (Complex, complex)):
        y = b.lift(y, x.re.dtype)
        return x.map(lambda part: b.mul(part, y))
    y = _complex(b, y)
    return Complex(b.sub(b.mul(x.re, y.re), b.mul(x.im, y.im)), b.add(b.mul(x.re, y.im), b.mul(x.im, y.re)))


def _sum_of(how: str):
    def entry(b, x, y, *, alpha=1):
        x, y = (_complex(b, z) for z in (x, y))
        y = y if alpha == 1 else _mul(b, y, alpha)
        return Complex(getattr(b, how)(x.re, y.re), getattr(b, how)(x.im, y.im))

    return entry


def _complex(b, x) -> Complex:
    """A tensor or a number, complex or real, in the type of the result."""
    dtype = name_of(_PARTS[b.out.dtype])
    if isinstance(x, complex):
        x = Complex(x.real, x.imag)
    elif not isinstance(x, Complex):
        x = Complex(x, b.full(0, getattr(x, "shape", ()), dtype))
    return x.map(lambda part: b.lift(part, dtype))


def _converted(b, x, dtype, *_, **__):
    if dtype not in _PARTS:
        raise UnsupportedOp("complex tensors are not converted to real ones: take `.real`")
    return _complex(b, x)


def _padded(b, z: Complex, padding, value=0):
    if value:
        raise UnsupportedOp("complex tensors are padded by 0 alone")
    return z.map(lambda part: constant_pad(b, part, padding, 0))


def _abs(b, z: Complex):
    """Scaled by the greater part, so that no square overflows."""
    re, im = b.op("abs", z.re), b.op("abs", z.im)
    most, least = b.maximum(re, im), b.minimum(re, im)
    ratio = b.div(least, most)
    length = b.mul(most, b.op("sqrt", b.add(b.mul(ratio, ratio), 1.0)))
    plain = b.op("and", b.op("is_finite", most), b.compare("GT", most, b.lift(0, most.dtype)))
    return b.select(plain, length, b.add(most, least))


TABLE = {
    "aten.view_as_complex.default": joined,
    "aten.view_as_real.default": apart,
    "aten.complex.default": lambda b, re, im: Complex(*b.together(re, im)),
    "aten.polar.default": lambda b, radius, angle: _polar(b, *b.together(radius, angle)),
    "aten.real.default": lambda b, z: z.re,
    "aten.imag.default": lambda b, z: z.im,
    "aten.abs.default": _abs,
    "aten.angle.default": lambda b, z: b.map("atan2", z.im, z.re),
    "aten.conj.default": lambda b, z: Complex(z.re, b.neg(z.im)),
    "aten._conj.default": lambda b, z: Complex(z.re, b.neg(z.im)),
    "aten.conj_physical.default": lambda b, z: Complex(z.re, b.neg(z.im)),
    "aten.resolve_conj.default": lambda b, z: z,
    "aten.add.Tensor": _sum_of("add"),
    "aten.sub.Tensor": _sum_of("sub"),
    "aten.constant_pad_nd.default": _padded,
    "aten.to.dtype": _converted,
    "aten._to_copy.default": _converted,
    "aten.mul.Tensor": _mul,
    "aten.mul.Scalar": _mul,
    **fft.TABLE,
}
#: Ops that do to each part what they do to a real tensor.
_BY_PARTS = """
    alias.default cat.default chunk.default clone.default contiguous.default detach.default expand.default flatten.using_ints
    flip.default index.Tensor index_select.default mean.dim movedim.int narrow.default neg.default permute.default repeat.default
    reshape.default roll.default select.int slice.Tensor split.Tensor squeeze.default squeeze.dim stack.default sum.default
    sum.dim_IntList t.default transpose.int transpose_.default unflatten.int unsqueeze.default view.default
"""
BY_PARTS = frozenset(f"aten.{name}" for name in _BY_PARTS.split())


def entry(name: str, node, args, real):
    """The lowering of an op with complex tensors; ``real``, that of real ones,
    if none is among them.
    """
    if not (_holds(args) or _is_complex(node.meta.get("val"))):
        return real
    if name in TABLE:
        return TABLE[name]
    if name in BY_PARTS and real is not None:
        return lambda b, *args, **kwargs: _by_parts(b, real, args, kwargs)
    return _unsupported


def serves(name: str) -> bool:
    """Returns true if there is a lowering for complex tensors."""
    return name in TABLE or name in BY_PARTS


def _unsupported(b, *args, **kwargs):
    raise UnsupportedOp("not supported for complex tensors")


def _holds(x) -> bool:
    return any(map(_holds, x)) if isinstance(x, (list, tuple)) else isinstance(x, Complex)


def _is_complex(val) -> bool:
    if isinstance(val, (list, tuple)):
        return any(map(_is_complex, val))
    return isinstance(val, torch.Tensor) and val.dtype in _PARTS


def _by_parts(b, real, args, kwargs):
    b.meta = _real_meta(b.meta)
    re, im = (real(b, *_part(args, name), **kwargs) for name in ("re", "im"))
    return (
        [Complex(*pair) for pair in zip(re, im, strict=True)]
        if isinstance(re, (list, tuple))
        else Complex(re, im)
    )


def _part(x, name: str):
    if isinstance(x, (list, tuple)):
        return type(x)(_part(y, name) for y in x)
    return getattr(x, name) if isinstance(x, Complex) else x


def _real_meta(val):
    """torch's description of the result, were it real."""
    if isinstance(val, (list, tuple)):
        return [_real_meta(x) for x in val]
    return SimpleNamespace(shape=val.shape, dtype=_PARTS.get(val.dtype, val.dtype))
