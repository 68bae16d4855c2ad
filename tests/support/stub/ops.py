"""The ops of the stub: shape rule and value, by torch.

One function per op: ``(operands, result_types, **attributes) -> results``, each result ``(dims,
dtype, data)``.
"""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from disc.lowering.dtypes import FLOATS, INTS
from disc.torch.lowering.promotion import DTYPES

from .dims import concrete

OPS: dict = {}


def op(name):
    def register(f):
        OPS[name] = f
        return f

    return register


def sizes(dims) -> list[int]:
    return [concrete(d) for d in dims]


def same_type(*xs):
    for x in xs[1:]:
        assert x.dtype == xs[0].dtype, f"types {x.dtype} and {xs[0].dtype}"
        assert all(a == b for a, b in zip(x.dims, xs[0].dims, strict=True)), (
            f"shapes {x.dims} and {xs[0].dims}"
        )


def elementwise(name, f, allowed):
    def rule(xs, result, **attrs):
        same_type(*xs)
        assert xs[0].dtype in allowed, f"{name} on {xs[0].dtype}"
        data = f(*(x.data for x in xs), **attrs)
        return [(xs[0].dims, xs[0].dtype, data.to(DTYPES[xs[0].dtype]))]

    OPS[name] = rule


NUMBERS, BITS = (*FLOATS, *INTS), (*INTS, "i1")
for _name, _f in {
    "acos": torch.acos,
    "acosh": torch.acosh,
    "asin": torch.asin,
    "asinh": torch.asinh,
    "atan": torch.atan,
    "atanh": torch.atanh,
    "ceil": torch.ceil,
    "cosh": torch.cosh,
    "cosine": torch.cos,
    "digamma": torch.digamma,
    "erf": torch.erf,
    "erf_inv": torch.erfinv,
    "erfc": torch.erfc,
    "exponential": torch.exp,
    "exponential_minus_one": torch.expm1,
    "floor": torch.floor,
    "lgamma": torch.lgamma,
    "log": torch.log,
    "log_plus_one": torch.log1p,
    "logistic": torch.sigmoid,
    "round_nearest_even": torch.round,
    "rsqrt": torch.rsqrt,
    "sine": torch.sin,
    "sinh": torch.sinh,
    "sqrt": torch.sqrt,
    "tan": torch.tan,
    "tanh": torch.tanh,
    "atan2": torch.atan2,
    "next_after": torch.nextafter,
}.items():
    elementwise(_name, _f, FLOATS)
for _name, _f in {
    "negate": torch.neg,
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
}.items():
    elementwise(_name, _f, NUMBERS)
elementwise("abs", torch.abs, ("i8", "i16", "i32", "i64", *FLOATS))
elementwise("maximum", torch.maximum, (*NUMBERS, "i1"))
elementwise("minimum", torch.minimum, (*NUMBERS, "i1"))
elementwise("and", torch.bitwise_and, BITS)
elementwise("or", torch.bitwise_or, BITS)
elementwise("xor", torch.bitwise_xor, BITS)
elementwise("not", torch.bitwise_not, BITS)
elementwise("shift_left", torch.bitwise_left_shift, INTS)
elementwise("shift_right_arithmetic", torch.bitwise_right_shift, INTS)


def _divide(x, y):
    if x.dtype.is_floating_point:
        return x / y
    safe = torch.where(y == 0, torch.ones_like(y), y)
    return torch.where(y == 0, torch.zeros_like(x), torch.div(x, safe, rounding_mode="trunc"))


def _remainder(x, y):
    if x.dtype.is_floating_point:
        return torch.fmod(x, y)
    return torch.where(y == 0, x, torch.fmod(x, torch.where(y == 0, torch.ones_like(y), y)))


def _power(x, y):
    if x.dtype.is_floating_point:
        return torch.pow(x, y)
    assert (y >= 0).all()
    return torch.pow(x, y)


elementwise("divide", _divide, NUMBERS)
elementwise("remainder", _remainder, NUMBERS)
elementwise("power", _power, NUMBERS)


@op("is_nan")
def _(xs, result):
    return [(xs[0].dims, "i1", torch.isnan(xs[0].data))]


@op("is_inf")
def _(xs, result):
    return [(xs[0].dims, "i1", torch.isinf(xs[0].data))]


@op("is_finite")
def _(xs, result):
    return [(xs[0].dims, "i1", torch.isfinite(xs[0].data))]


@op("compare")
def _(xs, result, direction):
    same_type(*xs)
    f = {"EQ": torch.eq, "NE": torch.ne, "LT": torch.lt, "LE": torch.le, "GT": torch.gt, "GE": torch.ge}[
        direction
    ]
    return [(xs[0].dims, "i1", f(xs[0].data, xs[1].data))]


@op("select")
def _(xs, result):
    pred, x, y = xs
    same_type(x, y)
    assert pred.dtype == "i1"
    assert all(a == b for a, b in zip(pred.dims, x.dims, strict=True))
    return [(x.dims, x.dtype, torch.where(pred.data, x.data, y.data))]


@op("convert")
def _(xs, result, dtype):
    assert dtype != "i1", "convert to i1 is a comparison"
    return [(xs[0].dims, dtype, xs[0].data.to(DTYPES[dtype]))]


@op("broadcast_in_dim")
def _(xs, result, dims):
    (x,), ((shape, dtype),) = xs, result
    assert len(dims) == len(x.dims)
    assert len(set(dims)) == len(dims)
    for i, axis in enumerate(dims):
        assert x.dims[i] == 1 or x.dims[i] == shape[axis], f"axis {i} of {x.dims} is not {shape[axis]}"
    view = x.data.permute(sorted(range(len(dims)), key=lambda i: dims[i]))
    for axis in range(len(shape)):
        if axis not in dims:
            view = view.unsqueeze(axis)
    return [(shape, dtype, view.expand(sizes(shape)).clone())]


@op("reshape")
def _(xs, result):
    ((shape, dtype),) = result
    return [(shape, dtype, xs[0].data.reshape(sizes(shape)))]


@op("transpose")
def _(xs, result, dims):
    return [([xs[0].dims[d] for d in dims], xs[0].dtype, xs[0].data.permute(dims).contiguous())]


@op("iota")
def _(xs, result, dim):
    ((shape, dtype),) = result
    n = sizes(shape)
    data = torch.arange(n[dim]).reshape([-1 if i == dim else 1 for i in range(len(n))]).expand(n)
    return [(shape, dtype, data.to(DTYPES[dtype]))]


@op("slice")
def _(xs, result, start, limit, strides):
    x = xs[0]
    dims, where = [], []
    for i, (s, e, k) in enumerate(zip(start, limit, strides, strict=True)):
        assert 0 <= concrete(s) <= concrete(e) <= concrete(x.dims[i]), (
            f"bounds {s}:{e} of axis {i} of {x.dims}"
        )
        dims.append((e - s + k - 1) // k if k > 1 else e - s)
        where.append(slice(concrete(s), concrete(e), k))
    return [(dims, x.dtype, x.data[tuple(where)].clone())]


@op("concatenate")
def _(xs, result, dim):
    dims = list(xs[0].dims)
    for x in xs[1:]:
        assert x.dtype == xs[0].dtype
        assert all(a == b for i, (a, b) in enumerate(zip(x.dims, xs[0].dims, strict=True)) if i != dim), (
            f"{x.dims} {xs[0].dims}"
        )
        dims[dim] = dims[dim] + x.dims[dim]
    shaped = [x.data for x in xs]
    return [(dims, xs[0].dtype, torch.cat(shaped, dim))]


@op("reverse")
def _(xs, result, dims):
    return [(xs[0].dims, xs[0].dtype, xs[0].data.flip(dims))]


@op("pad")
def _(xs, result, low, high, interior):
    x, value = xs
    assert value.dims == []
    assert value.dtype == x.dtype
    data, dims = x.data, []
    for axis, (a, b, k) in enumerate(zip(low, high, interior, strict=True)):
        size = data.shape[axis]
        wide = list(data.shape)
        wide[axis] = max(size + (size - 1) * k, 0)
        spread = value.data.expand(wide).clone()
        spread.narrow(axis, 0, wide[axis])[(slice(None),) * axis + (slice(None, None, k + 1),)] = data
        data = _edge(spread, value.data, axis, concrete(a), concrete(b))
        own = x.dims[axis]
        dims.append(own + a + b + (own - 1) * k if k else own + a + b)
    return [(dims, x.dtype, data)]


def _edge(data, value, axis, low, high):
    data = data.narrow(axis, max(-low, 0), data.shape[axis] - max(-low, 0) - max(-high, 0))
    parts = []
    for count in (low, high):
        shape = list(data.shape)
        shape[axis] = max(count, 0)
        parts.append(value.expand(shape))
    return torch.cat([parts[0], data, parts[1]], axis)


_WHOLE = {
    "add": torch.sum,
    "multiply": torch.prod,
    "maximum": torch.amax,
    "minimum": torch.amin,
    "and": torch.all,
    "or": torch.any,
}


def neutral(how, dtype):
    if how in ("add", "or"):
        return 0
    if how in ("multiply", "and"):
        return 1
    if dtype in FLOATS:
        return -float("inf") if how == "maximum" else float("inf")
    if dtype == "i1":
        return how == "minimum"
    info = torch.iinfo(DTYPES[dtype])
    return info.min if how == "maximum" else info.max


@op("reduce")
def _(xs, result, dims, applies):
    x, init = xs
    assert init.data == neutral(applies, x.dtype)
    kept = [d for i, d in enumerate(x.dims) if i not in dims]
    if any(concrete(x.dims[d]) == 0 for d in dims):
        return [(kept, x.dtype, torch.full(sizes(kept), neutral(applies, x.dtype), dtype=DTYPES[x.dtype]))]
    data = x.data
    if applies in ("multiply", "and", "or"):
        for d in sorted(dims, reverse=True):
            data = _WHOLE[applies](data, d)
    else:
        data = _WHOLE[applies](data, dims)
    return [(kept, x.dtype, data.to(DTYPES[x.dtype]))]


@op("cumulative")
def _(xs, result, dim, applies):
    x, init = xs
    assert init.data == neutral(applies, x.dtype)
    f = {"add": torch.cumsum, "multiply": torch.cumprod}.get(applies)
    data = (
        f(x.data, dim)
        if f
        else {"maximum": torch.cummax, "minimum": torch.cummin}[applies](x.data, dim).values
    )
    return [(x.dims, x.dtype, data.to(DTYPES[x.dtype]))]


@op("dot_general")
def _(
    xs,
    result,
    lhs_contracting_dims,
    rhs_contracting_dims,
    lhs_batching_dims=(),
    rhs_batching_dims=(),
    dtype=None,
):
    lhs_batching, rhs_batching, lhs_contracting, rhs_contracting = (
        lhs_batching_dims,
        rhs_batching_dims,
        lhs_contracting_dims,
        rhs_contracting_dims,
    )
    x, y = xs
    assert x.dtype == y.dtype
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left, right = [next(letters) for _ in x.dims], [next(letters) for _ in y.dims]
    for i, j in [
        *zip(lhs_batching, rhs_batching, strict=True),
        *zip(lhs_contracting, rhs_contracting, strict=True),
    ]:
        assert x.dims[i] == y.dims[j], f"{x.dims} axis {i}, {y.dims} axis {j}"
        right[j] = left[i]
    out = [left[i] for i in lhs_batching]
    dims = [x.dims[i] for i in lhs_batching]
    for own, letter, gone in (
        (x.dims, left, (*lhs_batching, *lhs_contracting)),
        (y.dims, right, (*rhs_batching, *rhs_contracting)),
    ):
        out += [c for i, c in enumerate(letter) if i not in gone]
        dims += [d for i, d in enumerate(own) if i not in gone]
    dtype = dtype or x.dtype
    wide = torch.float64 if dtype in ("f64",) else torch.float32 if dtype in FLOATS else torch.int64
    data = torch.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", x.data.to(wide), y.data.to(wide))
    return [(dims, dtype, data.to(DTYPES[dtype]))]


@op("convolution")
def _(
    xs,
    result,
    window_strides,
    padding_low,
    padding_high,
    lhs_dilation,
    rhs_dilation,
    feature_group_count,
    **layout,
):
    x, w = xs
    strides, low, high, groups = window_strides, padding_low, padding_high, feature_group_count
    assert layout["input_batch_dimension"] == 0 == layout["kernel_output_feature_dimension"]
    assert layout["input_feature_dimension"] == 1 == layout["kernel_input_feature_dimension"]
    n = len(w.dims) - 2
    wide = torch.float32 if x.dtype in ("f16", "bf16") else DTYPES[x.dtype]
    data, dims = x.data.to(wide), [x.dims[0], w.dims[0]]
    zero = torch.zeros((), dtype=wide)
    for i in range(n):
        size, k = data.shape[2 + i], lhs_dilation[i]
        shape = list(data.shape)
        shape[2 + i] = max((size - 1) * k + 1, 0)
        spread = torch.zeros(shape, dtype=wide)
        spread[(slice(None),) * (2 + i) + (slice(None, None, k),)] = data
        data = _edge(spread, zero, 2 + i, concrete(low[i]), concrete(high[i]))
        total = (x.dims[2 + i] - 1) * k + 1 + low[i] + high[i]
        dims.append((total - rhs_dilation[i] * (w.dims[2 + i] - 1) - 1) // strides[i] + 1)
    f = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    if 0 in data.shape or 0 in sizes(dims):
        data = torch.zeros(sizes(dims), dtype=wide)
    else:
        data = f(data, w.data.to(wide), None, strides, 0, rhs_dilation, groups)
    return [(dims, x.dtype, data.to(DTYPES[x.dtype]))]


@op("reduce_window")
def _(
    xs,
    result,
    applies,
    window_dimensions,
    window_strides,
    window_dilations=None,
    padding_low=None,
    padding_high=None,
):
    x, init = xs
    fill, window, strides = init.data, window_dimensions, window_strides
    zeros = [0] * len(x.dims)
    dilation, low, high = window_dilations or [1] * len(x.dims), padding_low or zeros, padding_high or zeros
    assert fill == neutral(applies, x.dtype)
    data, dims = x.data, []
    for axis in range(len(x.dims)):
        data = _edge(data, fill, axis, concrete(low[axis]), concrete(high[axis]))
        reach = dilation[axis] * (window[axis] - 1) + 1
        dims.append((x.dims[axis] + low[axis] + high[axis] - reach) // strides[axis] + 1)
    shape = [max(n, 0) for n in sizes(dims)]
    parts = []
    for offset in itertools.product(*(range(k) for k in window)):
        where = tuple(
            slice(o * d, o * d + (n - 1) * s + 1 if n else o * d, s)
            for o, d, n, s in zip(offset, dilation, shape, strides, strict=True)
        )
        parts.append(data[where])
    stacked = torch.stack(parts)
    reduced = _WHOLE[applies](stacked, 0) if stacked.numel() else torch.zeros(shape, dtype=data.dtype)
    return [(dims, x.dtype, reduced.to(DTYPES[x.dtype]))]


@op("gather")
def _(
    xs,
    result,
    offset_dims,
    collapsed_slice_dims,
    start_index_map,
    index_vector_dim,
    slice_sizes,
    bounds,
):
    x, index = xs
    batch = [d for i, d in enumerate(index.dims) if i != index_vector_dim]
    window = [d for i, d in enumerate(slice_sizes) if i not in collapsed_slice_dims]
    rank = len(batch) + len(window)
    batch_axes = [i for i in range(rank) if i not in offset_dims]
    dims = [None] * rank
    for axis, d in [*zip(offset_dims, window, strict=True), *zip(batch_axes, batch, strict=True)]:
        dims[axis] = d
    starts = index.data if index_vector_dim < len(index.dims) else index.data.unsqueeze(-1)
    starts = starts.movedim(min(index_vector_dim, starts.dim() - 1), -1)
    selectors = []
    for axis in range(len(x.dims)):
        span = concrete(slice_sizes[axis])
        place = torch.zeros(starts.shape[:-1], dtype=torch.int64)
        if axis in start_index_map:
            place = starts[..., start_index_map.index(axis)]
            limit = concrete(x.dims[axis]) - span
            if bounds == "check" and place.numel() and (place.min() < 0 or place.max() > limit):
                raise IndexError("out of range")
            place = place.clamp(0, max(limit, 0))
        shape = list(place.shape) + [1] * len(window)
        place = place.reshape(shape)
        if axis not in collapsed_slice_dims:
            at = [a for a in range(len(x.dims)) if a not in collapsed_slice_dims].index(axis)
            span_shape = [1] * len(window)
            span_shape[at] = span
            place = place + torch.arange(span).reshape(span_shape)
        selectors.append(place)
    full = sizes(batch) + sizes(window)
    if 0 in full:
        data = torch.zeros(full, dtype=x.data.dtype)
    else:
        data = x.data[tuple(selectors)].expand(full)
    order = [0] * rank
    for i, axis in enumerate([*batch_axes, *offset_dims]):
        order[axis] = i
    return [(dims, x.dtype, data.permute(order).clone())]


@op("scatter")
def _(
    xs,
    result,
    update_window_dims,
    inserted_window_dims,
    scatter_dims_to_operand_dims,
    index_vector_dim,
    applies,
    bounds,
):
    x, index, updates = xs
    assert updates.dtype == x.dtype
    data = x.data.clone()
    starts = index.data if index_vector_dim < len(index.dims) else index.data.unsqueeze(-1)
    starts = starts.movedim(min(index_vector_dim, starts.dim() - 1), -1)
    batch_axes = [i for i in range(len(updates.dims)) if i not in update_window_dims]
    window_axes = [a for a in range(len(x.dims)) if a not in inserted_window_dims]
    ordered = updates.data.permute([*batch_axes, *update_window_dims])
    assert tuple(ordered.shape[: len(batch_axes)]) == tuple(starts.shape[:-1]), (
        f"{ordered.shape} {starts.shape}"
    )
    for at in itertools.product(*(range(n) for n in starts.shape[:-1])):
        where = [slice(None)] * len(x.dims)
        for k, axis in enumerate(scatter_dims_to_operand_dims):
            place = int(starts[at][k])
            if not 0 <= place < concrete(x.dims[axis]):
                raise IndexError("out of range")
            where[axis] = place
        part = ordered[at]
        assert len(window_axes) == part.dim()
        old = data[tuple(where)]
        f = {"add": torch.add, "multiply": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum}.get(
            applies
        )
        if applies == "add" and x.dtype == "i1":
            f = torch.logical_or
        data[tuple(where)] = f(old, part) if f else part
    return [(x.dims, x.dtype, data)]


@op("sort")
def _(xs, result, dimension, is_stable, applies):
    dim, descending = dimension, applies == "descending"
    values, order = torch.sort(xs[0].data, dim=dim, descending=descending, stable=True)
    rest = [x.data.gather(dim, order) for x in xs[1:]]
    return [(x.dims, x.dtype, d) for x, d in zip(xs, [values, *rest], strict=True)]


@op("top_k")
def _(xs, result, k, largest, index_dtype):
    values, order = torch.sort(xs[0].data, dim=-1, descending=largest, stable=True)
    n = concrete(k)
    dims = [*xs[0].dims[:-1], k]
    return [(dims, xs[0].dtype, values[..., :n]), (dims, index_dtype, order[..., :n].to(DTYPES[index_dtype]))]
