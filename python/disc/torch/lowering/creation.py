"""Ops of torch that make tensors out of sizes and numbers."""

from __future__ import annotations

from ...lowering import dtypes


def filled(value):
    """zeros, ones, empty and their kin: the framework knows shape and type.

    ``empty`` gives zeros.
    """
    return lambda b, *args, **kwargs: b.full(value, b.shape, b.dtype)


def full(b, _, value, **kwargs):
    """full, full_like, new_full, fill."""
    dtype = b.dtype
    return b.expand(b.lift(value, dtype), b.shape)


def scalar_tensor(b, value, **kwargs):
    return b.lift(value, b.dtype)


def arange(b, *bounds, **kwargs):
    """arange(end), arange(start, end), arange(start, end, step);
    floats are computed in f64, as torch does.
    """
    start, step = (0, 1) if len(bounds) == 1 else (bounds[0], bounds[2] if len(bounds) == 3 else 1)
    wide = "f64" if b.dtype in dtypes.FLOATS else "i64"
    count = b.iota(b.shape, 0, wide)
    if not _is(step, 1):
        count = b.mul(count, b.lift(step, wide))
    # A zero that a negative step makes negative is positive in the sum.
    if not _is(start, 0) or (wide == "f64" and not _is(step, 1)):
        count = b.add(count, b.lift(start, wide))
    return b.convert(count, b.dtype)


def _is(value, number) -> bool:
    return isinstance(value, (int, float)) and value == number


def linspace(b, start, end, steps, **kwargs):
    """Counts from both ends, as torch does, so that the last element is exact."""
    n = b.shape[0]
    index = b.iota([n], 0, "f64")
    last = b.lift(n - 1, "f64")
    first, final = b.lift(start, "f64"), b.lift(end, "f64")
    step = b.div(
        b.sub(final, first), b.select(b.compare("EQ", last, b.lift(0, "f64")), b.lift(1, "f64"), last)
    )
    up = b.add(first, b.mul(index, step))
    down = b.sub(final, b.mul(b.sub(last, index), step))
    half = b.compare("LT", b.mul(index, 2.0), b.add(last, 1.0))
    return b.convert(b.select(half, up, down), b.dtype)


def eye(b, *args, **kwargs):
    shape = b.shape
    return b.convert(b.compare("EQ", b.iota(shape, 0, "i64"), b.iota(shape, 1, "i64")), b.dtype)


TABLE = {
    **{
        f"aten.{name}": filled(0)
        for name in (
            "zeros.default",
            "zeros_like.default",
            "new_zeros.default",
            "empty.memory_format",
            "empty_like.default",
            "new_empty.default",
            "empty_strided.default",
            "new_empty_strided.default",
            "empty_permuted.default",
            "zero.default",
        )
    },
    **{f"aten.{name}": filled(1) for name in ("ones.default", "ones_like.default", "new_ones.default")},
    "aten.full.default": full,
    "aten.full_like.default": full,
    "aten.fill.Scalar": full,
    "aten.fill.Tensor": full,
    "aten.new_full.default": lambda b, x, shape, value, **kwargs: full(b, shape, value),
    "aten.scalar_tensor.default": scalar_tensor,
    "aten.arange.default": arange,
    "aten.arange.start": arange,
    "aten.arange.start_step": arange,
    "aten.linspace.default": linspace,
    "aten.eye.default": eye,
    "aten.eye.m": eye,
    "aten.copy.default": lambda b, x, y, non_blocking=False: b.expand(b.convert(y, x.dtype), x.shape),
}
