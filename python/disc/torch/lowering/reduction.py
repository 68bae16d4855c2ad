"""Reductions, scans, sorting.

Sums of half types accumulate in f32, of integers in i64, as in torch.
"""

from __future__ import annotations

from ...lowering.sizes import is_int, product
from .data_movement import axis_of


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
    return b.compose("mean", x, axes=axes_of(x, dims), keep=keepdim, dtype=b.dtype)


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


def extreme_and_place(which):
    return lambda b, x, dim, keepdim=False: b.compose("arg_reduce", x, axis=dim, which=which, keep=keepdim)


def place(which):
    def entry(b, x, dim=None, keepdim=False):
        return b.compose("arg_extreme", x, axis=dim, which=which, keep=keepdim)

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


def spread(root: bool, with_mean: bool):
    """var, std, var_mean, std_mean in their newer form."""

    def entry(b, x, dims=None, *, correction=None, keepdim=False):
        out = b.dtype
        correction = 1 if correction is None else float(correction)
        value, mean = b.compose("variance", x, axes=axes_of(x, dims), correction=correction, keep=keepdim)
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
    order = 2 if order is None else order
    return b.compose("lp_norm", x, order=order, axes=axes_of(x, dims), keep=keepdim, dtype=b.dtype)


def logsumexp(b, x, dims, keepdim=False):
    (x,) = b.promote(x, floating=True)
    return b.compose("log_sum_exp", x, axes=axes_of(x, dims), keep=keepdim)


def count_nonzero(b, x, dims=None):
    return b.sum(b.convert(b.convert(x, "i1"), "i64"), axes_of(x, dims))


def nansum(b, x, dims=None, keepdim=False, dtype=None):
    return summed(b, b.select(b.is_nan(x), b.lift(0, x.dtype), x), dims, keepdim)


# Scans.


def scan(how):
    return lambda b, x, dim, dtype=None: b.compose("running_total", x, axis=dim, how=how, dtype=b.dtype)


def scan_extreme(which):
    return lambda b, x, dim: b.compose("running_extreme", x, axis=dim, which=which)


def diff(b, x, n=1, dim=-1, prepend=None, append=None):
    parts = [part for part in (prepend, x, append) if part is not None]
    return b.compose("difference", *parts, axis=dim, times=n)


# Order.


def sort(b, x, dim=-1, descending=False, stable=None):
    return b.compose("sort_places", x, axis=dim, descending=descending)


def topk(b, x, k, dim=-1, largest=True, sorted=True):
    return b.compose("top_k_of", x, axis=dim, k=k, largest=largest)


def kthvalue(b, x, k, dim=-1, keepdim=False):
    """``k`` counts from 1."""
    return b.compose("kth_least", x, axis=dim, k=k - 1, keep=keepdim)


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
    "aten.logcumsumexp.default": lambda b, x, dim: b.compose("running_log_sum_exp", x, axis=dim),
    "aten.cummax.default": scan_extreme("maximum"),
    "aten.cummin.default": scan_extreme("minimum"),
    "aten.diff.default": diff,
    "aten.sort.default": sort,
    "aten.sort.stable": lambda b, x, stable, dim=-1, descending=False: sort(b, x, dim, descending),
    "aten.argsort.default": lambda b, x, dim=-1, descending=False: sort(b, x, dim, descending)[1],
    "aten.argsort.stable": lambda b, x, stable, dim=-1, descending=False: sort(b, x, dim, descending)[1],
    "aten.msort.default": lambda b, x: sort(b, x, 0)[0],
    "aten.topk.default": topk,
    "aten.median.dim": lambda b, x, dim=-1, keepdim=False: b.compose("median", x, axis=dim, keep=keepdim),
    "aten.kthvalue.default": kthvalue,
}
