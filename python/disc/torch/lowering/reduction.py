"""Reductions, scans, sorting.

Sums of half types accumulate in f32, of integers in i64, as in torch.
"""

from __future__ import annotations

import math

from ...lowering import dtypes
from ...lowering.sizes import is_int, least, product
from .data_movement import axis_of

INF = math.inf


def axes_of(x, dims) -> list[int]:
    """None and an empty list mean all axes."""
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return list(range(len(x.shape)))
    return [axis_of(x, d) for d in ([dims] if isinstance(dims, int) else dims)] if x.shape else []


def count(b, x, axes, dtype: str):
    """The number of elements that are reduced, as a scalar."""
    return b.lift(product(x.shape[axis] for axis in axes), dtype)


def summed(b, x, dims=None, keepdim=False, dtype=None):
    out = b.dtype
    x = b.wide(b.convert(x, out))
    return b.convert(b.sum(x, axes_of(x, dims), keepdim), out)


def total(b, x, dtype=None):
    return summed(b, x)


def mean(b, x, dims=None, keepdim=False, dtype=None):
    out = b.dtype
    x = b.wide(b.convert(x, out))
    axes = axes_of(x, dims)
    return b.convert(b.div(b.sum(x, axes, keepdim), count(b, x, axes, x.dtype)), out)


def product_of(b, x, dims=None, keepdim=False, dtype=None):
    out = b.dtype
    x = b.wide(b.convert(x, out))
    return b.convert(b.reduce(x, axes_of(x, dims), "multiply", keepdim), out)


def require_elements(b, x, axes) -> None:
    """An error where an axis is empty: nothing has no extreme value."""
    for axis in axes:
        b.require(x.shape[axis], ">=", 1)


def extreme(how):
    def entry(b, x, dims=(), keepdim=False):
        axes = axes_of(x, dims)
        require_elements(b, x, axes)
        return b.reduce(x, axes, how, keepdim)

    return entry


def truth_over(how):
    """any and all; u8 stays u8, as in torch. Of no axes (an empty list) the truth of
    each element.
    """

    def entry(b, x, dims=None, keepdim=False):
        axes = axes_of(x, dims) if is_int(dims) or dims is None or len(dims) else []
        return b.convert(b.reduce(b.convert(x, "i1"), axes, how, keepdim), b.dtype)

    return entry


def first_place(b, x, axis: int, how: str, keepdim: bool = False):
    """The first index of the extreme value; NaN is the most extreme."""
    best = b.reduce(x, [axis], how, keepdim=True)
    hit = b.compare("EQ", x, best)
    if x.dtype in dtypes.FLOATS:
        hit = b.map("or", hit, b.is_nan(x))
    places = b.iota(x.shape, axis, "i64")
    far = b.lift(x.shape[axis], "i64")
    return b.reduce(b.select(hit, places, far), [axis], "minimum", keepdim)


def extreme_and_place(how):
    def entry(b, x, dim, keepdim=False):
        if not x.shape:
            return x, b.full(0, [], "i64")
        axis = axis_of(x, dim)
        require_elements(b, x, [axis])
        return b.reduce(x, [axis], how, keepdim), first_place(b, x, axis, how, keepdim)

    return entry


def place(how):
    def entry(b, x, dim=None, keepdim=False):
        if not x.shape:
            return b.full(0, [], "i64")
        require_elements(b, x, range(len(x.shape)) if dim is None else [axis_of(x, dim)])
        if dim is None:
            flat = first_place(b, b.reshape(x, [product(x.shape)]), 0, how)
            return b.reshape(flat, b.shape)
        return first_place(b, x, axis_of(x, dim), how, keepdim)

    return entry


def aminmax(b, x, dim=None, keepdim=False):
    axes = axes_of(x, dim)
    require_elements(b, x, axes)
    return tuple(b.reduce(x, axes, how, keepdim) for how in ("minimum", "maximum"))


# Moments.


def moments(b, x, axes):
    """Mean, and the sums of squared distances and of distances from it, axes kept;
    computed in two passes.
    """
    mean = b.div(b.sum(x, axes, True), count(b, x, axes, x.dtype))
    distance = b.sub(x, mean)
    return mean, b.sum(b.mul(distance, distance), axes, True), b.sum(distance, axes, True)


def variance(b, x, axes, correction, keepdim):
    """Variance and mean in f64, as torch has them: squares of f32 leave its range, and a mean that
    is rounded to f32 is far from few numbers that are close together. f32 holds those of f16.
    """
    x = b.convert(x, "f64") if x.dtype in ("f32", "bf16") else b.wide(x)
    mean, squares, _ = moments(b, x, axes)
    correction = 1 if correction is None else correction
    freedom = b.maximum(b.sub(count(b, x, axes, x.dtype), float(correction)), 0.0)
    value = b.div(squares, freedom)
    return tuple(v if keepdim or not axes else b.squeeze(v, *axes) for v in (value, mean))


def spread(root: bool, with_mean: bool):
    """var, std, var_mean, std_mean in their newer form."""

    def entry(b, x, dims=None, *, correction=None, keepdim=False):
        out = b.dtype
        value, mean = variance(b, x, axes_of(x, dims), correction, keepdim)
        value = b.convert(b.op("sqrt", value) if root else value, out)
        return (value, b.convert(mean, out)) if with_mean else value

    return entry


def spread_unbiased(root: bool, with_mean: bool = False):
    """The older forms: (unbiased) and (dim, unbiased, keepdim)."""
    newer = spread(root, with_mean)

    def entry(b, x, *args, unbiased=True, keepdim=False):
        dims = None
        if args and not isinstance(args[0], bool):
            dims, *args = args
        flags = [unbiased, keepdim]
        flags[: len(args)] = args
        return newer(b, x, dims, correction=int(flags[0]), keepdim=flags[1])

    return entry


def norm(b, x, order=2, dims=None, keepdim=False, dtype=None):
    out = b.dtype
    x = b.op("abs", b.wide(b.convert(x, out)))
    return b.convert(norm_of(b, x, 2 if order is None else order, axes_of(x, dims), keepdim), out)


def norm_of(b, x, order, axes, keepdim):
    if order == 2:
        return b.op("sqrt", b.sum(b.mul(x, x), axes, keepdim))
    if order == 1:
        return b.sum(x, axes, keepdim)
    if order == 0:
        return b.sum(b.convert(b.convert(x, "i1"), x.dtype), axes, keepdim)
    if order in (INF, -INF):
        return b.reduce(x, axes, "maximum" if order > 0 else "minimum", keepdim)
    powered = b.map("power", x, b.lift(float(order), x.dtype))
    return b.map("power", b.sum(powered, axes, keepdim), b.lift(1.0 / order, x.dtype))


def logsumexp(b, x, dims, keepdim=False):
    (x,) = b.promote(x, floating=True)

    def f(x):
        axes = axes_of(x, dims)
        top = b.reduce(x, axes, "maximum", True)
        top = b.select(b.op("is_inf", top), b.lift(0, x.dtype), top)
        value = b.add(b.op("log", b.sum(b.op("exponential", b.sub(x, top)), axes, True)), top)
        return value if keepdim or not axes else b.squeeze(value, *axes)

    return b.widened(f, x)


def count_nonzero(b, x, dims=None):
    return b.sum(b.convert(b.convert(x, "i1"), "i64"), axes_of(x, dims))


def nansum(b, x, dims=None, keepdim=False, dtype=None):
    return summed(b, b.select(b.is_nan(x), b.lift(0, x.dtype), x), dims, keepdim)


# Scans.


def scan(how):
    """Floats are combined in f64, as in torch: each step would round the running result."""

    def entry(b, x, dim, dtype=None):
        out = b.dtype
        x = b.convert(x, out)
        if not x.shape:
            return x
        wide = b.convert(x, "f64") if out in dtypes.FLOATS else x
        return b.convert(b.cumulative(wide, axis_of(x, dim), how), out)

    return entry


def scan_extreme(how):
    """cummax and cummin: of equal elements the last one counts,
    and a NaN is passed by a NaN alone.
    """

    def entry(b, x, dim):
        if not x.shape:
            return [x, b.lift(0, "i64")]
        axis = axis_of(x, dim)
        top = b.cumulative(x, axis, how)
        here = b.map("or", b.compare("EQ", x, top), b.is_nan(x))
        place = b.select(here, b.iota(x.shape, axis, "i64"), b.lift(0, "i64"))
        return [top, b.cumulative(place, axis, "maximum")]

    return entry


def logcumsumexp(b, x, dim):
    """Relative to the running maximum: when that grows from m to n,
    the sum so far shrinks by exp(m - n).
    """

    def f(x):
        if not x.shape:
            return x
        axis = axis_of(x, dim)
        size = x.shape[axis]
        top = b.cumulative(x, axis, "maximum")
        before = b.concatenate(
            [b.slice(top, axis, 0, least(1, size)), b.slice(top, axis, 0, size - least(1, size))], axis
        )
        # Equal infinities have no difference. What is infinite stays so without a shift.
        same_top = b.compare("EQ", before, top)
        factor = b.select(same_top, b.lift(1, x.dtype), b.op("exponential", b.sub(before, top)))
        shift = b.select(b.op("is_inf", top), b.lift(0, x.dtype), top)
        power = b.op("exponential", b.sub(x, shift))
        total = b.running_sum(b.convert(power, "f64"), b.convert(factor, "f64"), axis)
        return b.add(b.op("log", b.convert(total, x.dtype)), shift)

    return b.widened(f, x)


def diff(b, x, n=1, dim=-1, prepend=None, append=None):
    axis = axis_of(x, dim)
    parts = [part for part in (prepend, x, append) if part is not None]
    x = b.concatenate(parts, axis)
    for _ in range(n):
        size = x.shape[axis]
        upper, lower = b.slice(x, axis, least(1, size), size), b.slice(x, axis, 0, size - least(1, size))
        x = b.map("xor", upper, lower) if x.dtype == "i1" else b.sub(upper, lower)
    return x


# Order.


def sort(b, x, dim=-1, descending=False, stable=None):
    if not x.shape:
        return x, b.full(0, [], "i64")
    axis = axis_of(x, dim)
    return tuple(b.sort([x, b.iota(x.shape, axis, "i64")], axis, descending))


def sort_stable(b, x, stable=None, dim=-1, descending=False):
    return sort(b, x, dim, descending)


def topk(b, x, k, dim=-1, largest=True, sorted=True):
    if not x.shape:
        return x, b.full(0, [], "i64")
    axis = axis_of(x, dim)
    last = len(x.shape) - 1
    found = b.top_k(b.move(x, axis, last), k, largest)
    return tuple(b.move(t, last, axis) for t in found)


def median(b, x, dim=-1, keepdim=False):
    """The lower of two middle elements; NaN if there is one."""
    if not x.shape:
        return x, b.full(0, [], "i64")
    axis = axis_of(x, dim)
    middle = (x.shape[axis] - 1) // 2
    value, place = _ranked(b, x, axis, middle)
    if x.dtype in dtypes.FLOATS:
        value, place = _first_nan(b, x, axis, b.reduce(x, [axis], "maximum", True), value, place)
    return tuple(v if keepdim else b.squeeze(v, axis) for v in (value, place))


#: So many least elements are found in less time than one behind many others.
_FEW = 16


def kthvalue(b, x, k, dim=-1, keepdim=False):
    """The ``k``-th least, counted from 1; NaN is greater than all numbers."""
    if not x.shape:
        return x, b.full(0, [], "i64")
    axis = axis_of(x, dim)
    found = _ranked(b, x, axis, k - 1)
    return tuple(v if keepdim else b.squeeze(v, axis) for v in found)


def _ranked(b, x, axis, rank):
    """The element with ``rank`` others before it, and where it lies."""
    last = axis == len(x.shape) - 1
    if last and not (is_int(rank) and rank < _FEW):
        return b.top_k(x, 1, False, skip=rank)
    found = b.top_k(x, rank + 1, False) if last else sort(b, x, axis)
    return tuple(b.slice(t, axis, rank, rank + 1) for t in found)


def _first_nan(b, x, axis, last, value, place):
    places = b.select(b.is_nan(x), b.iota(x.shape, axis, "i64"), b.lift(x.shape[axis], "i64"))
    first = b.reduce(places, [axis], "minimum", True)
    return b.select(b.is_nan(last), last, value), b.select(b.is_nan(last), first, place)


TABLE = {
    "aten.sum.default": total,
    "aten.sum.dim_IntList": summed,
    "aten.mean.default": lambda b, x, dtype=None: mean(b, x),
    "aten.mean.dim": mean,
    "aten.prod.default": lambda b, x, dtype=None: product_of(b, x),
    "aten.prod.dim_int": product_of,
    "aten.amax.default": extreme("maximum"),
    "aten.amin.default": extreme("minimum"),
    "aten.max.default": extreme("maximum"),
    "aten.min.default": extreme("minimum"),
    "aten.max.dim": extreme_and_place("maximum"),
    "aten.min.dim": extreme_and_place("minimum"),
    "aten.argmax.default": place("maximum"),
    "aten.argmin.default": place("minimum"),
    "aten.aminmax.default": aminmax,
    "aten.any.default": truth_over("or"),
    "aten.any.dim": truth_over("or"),
    "aten.any.dims": truth_over("or"),
    "aten.all.default": truth_over("and"),
    "aten.all.dim": truth_over("and"),
    "aten.all.dims": truth_over("and"),
    "aten.var.correction": spread(False, False),
    "aten.std.correction": spread(True, False),
    "aten.var_mean.correction": spread(False, True),
    "aten.std_mean.correction": spread(True, True),
    "aten.var.default": spread_unbiased(False),
    "aten.var.dim": spread_unbiased(False),
    "aten.std.default": spread_unbiased(True),
    "aten.std.dim": spread_unbiased(True),
    "aten.var_mean.dim": spread_unbiased(False, True),
    "aten.linalg_vector_norm.default": norm,
    "aten.norm.ScalarOpt_dim": norm,
    "aten.norm.Scalar": norm,
    "aten.logsumexp.default": logsumexp,
    "aten.count_nonzero.default": count_nonzero,
    "aten.count_nonzero.dim_IntList": count_nonzero,
    "aten.nansum.default": nansum,
    "aten.cumsum.default": scan("add"),
    "aten.cumprod.default": scan("multiply"),
    "aten.logcumsumexp.default": logcumsumexp,
    "aten.cummax.default": scan_extreme("maximum"),
    "aten.cummin.default": scan_extreme("minimum"),
    "aten.diff.default": diff,
    "aten.sort.default": sort,
    "aten.sort.stable": sort_stable,
    "aten.argsort.default": lambda b, x, dim=-1, descending=False: sort(b, x, dim, descending)[1],
    "aten.argsort.stable": lambda b, x, stable, dim=-1, descending=False: sort(b, x, dim, descending)[1],
    "aten.msort.default": lambda b, x: sort(b, x, 0)[0],
    "aten.topk.default": topk,
    "aten.median.dim": median,
    "aten.kthvalue.default": kthvalue,
}
