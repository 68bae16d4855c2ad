"""Convolution, pooling and resampling of torch."""

from __future__ import annotations

import functools
import math

import numpy as np

from . import types
from .emit import lowest, neutral
from .sizes import is_int, least, product, same, spread

INF = math.inf


def convolution(b, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    n = len(weight.shape) - 2
    if not transposed:
        edges = [(p, p) for p in spread(padding, n)]
        return _convolved(b, x, weight, bias, stride, edges, dilation, groups)
    forms = (spread(v, n) for v in (stride, padding, dilation, output_padding))
    return _batched(b, x, n, bias, groups, lambda x: _transposed(b, x, weight, *forms, groups))


def _convolved(b, x, weight, bias, stride, edges, dilation, groups):
    """``edges``: the low and the high padding of each spatial axis."""
    n = len(edges)
    forms = {"strides": spread(stride, n), "lhs_dilation": [1] * n, "rhs_dilation": spread(dilation, n)}

    def of_batch(x):
        return b.convolution(x, weight, padding=edges, groups=groups, **forms)

    return _batched(b, x, n, bias, groups, of_batch)


def _batched(b, x, n: int, bias, groups, of_batch):
    """What ``of_batch`` makes of a batch, or of one image as a batch of one; plus the bias of each feature."""
    if not is_int(groups):
        raise b.unsupported(f"a convolution in as many groups as a size says ({groups})")
    single = len(x.shape) == n + 1
    y = of_batch(b.unsqueeze(x, 0) if single else x)
    y = y if bias is None else b.add(y, b.broadcast(bias, y.shape, [1]))
    return b.squeeze(y, 0) if single else y


def _transposed(b, x, weight, stride, padding, dilation, output_padding, groups):
    """A convolution of the input, spread by ``stride``, with the weight turned round."""
    for size in x.shape[2:]:
        # torch refuses an empty input too, and what a window leaves of it has no simple form.
        b.require(size, ">=", 1)
    channels, out, *kernel = weight.shape
    w = b.reshape(weight, [groups, channels // groups, out, *kernel])
    w = b.reshape(
        b.transpose(w, [0, 2, 1, *range(3, 3 + len(kernel))]), [groups * out, channels // groups, *kernel]
    )
    w = b.reverse(w, list(range(2, 2 + len(kernel))))
    edges = [
        (d * (k - 1) - p, d * (k - 1) - p + extra)
        for d, k, p, extra in zip(dilation, kernel, padding, output_padding, strict=True)
    ]
    ones = [1] * len(kernel)
    return b.convolution(
        x, w, strides=ones, padding=edges, lhs_dilation=stride, rhs_dilation=dilation, groups=groups
    )


def conv(n: int, transposed: bool = False):
    def forward(b, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        return convolution(b, x, weight, bias, stride, padding, dilation, False, [0] * n, groups)

    def backward(b, x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        return convolution(b, x, weight, bias, stride, padding, dilation, True, output_padding, groups)

    return backward if transposed else forward


def conv_named_padding(n: int):
    """padding = "same" or "valid"; torch puts the odd one on the high side."""

    def entry(b, x, weight, bias=None, stride=1, padding="valid", dilation=1, groups=1):
        totals = [
            d * (k - 1) if padding == "same" else 0
            for d, k in zip(spread(dilation, n), weight.shape[2:], strict=True)
        ]
        edges = [(total // 2, total - total // 2) for total in totals]
        return _convolved(b, x, weight, bias, stride, edges, dilation, groups)

    return entry


# Pooling. ``out`` are the spatial sizes of the framework's result.

#: Overlapping windows of more elements are pooled axis by axis.
MOST_TAPS = 64
#: Longer windows, which may end behind the input, are cut to it: some models pool all they have by a window of a thousand.
LONG = 16


def _windows(b, x, n, kernel, stride, padding, dilation, ceil_mode, cut=True):
    """Window, strides, (low, high) padding and dilation for all axes; with ceil_mode the high edge is what the result needs.

    ``cut``: windows may be cut to what the input has, and are sizes then.
    """
    kernel, padding, dilation = (spread(v, n) for v in (kernel, padding, dilation))
    stride = (
        spread(stride, n)
        if not (isinstance(stride, (list, tuple)) and not stride) and stride is not None
        else kernel
    )
    lead = len(x.shape) - n
    edges = [(0, 0)] * lead
    kernel = list(kernel)
    for i in range(n):
        if cut and ceil_mode and is_int(kernel[i]) and kernel[i] > LONG and dilation[i] == 1:
            kernel[i] = least(kernel[i], x.shape[lead + i] + 2 * padding[i])
        form = kernel[i], stride[i], padding[i], dilation[i]
        high = _high_edge(x.shape[lead + i], b.shape[lead + i], *form) if ceil_mode else padding[i]
        edges.append((padding[i], high))
    ones = [1] * lead
    return ones + kernel, ones + stride, edges, ones + dilation


def _high_edge(size, count, kernel, stride, padding, dilation):
    """The padding at the end that ``count`` windows reach into; the most that may be, where it depends on the size."""
    reach = dilation * (kernel - 1) + 1
    needed = (count - 1) * stride + reach - size - padding
    most = padding + stride - 1
    windows = (size + padding + most - reach) // stride + 1
    return most if not is_int(needed) and is_int(kernel) and same(windows, count) else needed


def _pool(b, x, how, window, strides, edges, dilation):
    """Windows that lie side by side are reductions; others are taken as a whole, or axis after axis where they are large."""
    known = all(is_int(size) for size in window)
    is_plain = all(same(e, 0) for pair in edges for e in pair) and all(d == 1 for d in dilation)
    if known and is_plain and list(window) == list(strides):
        return _pool_tiles(b, x, how, window)
    if known and product(window) <= MOST_TAPS:
        return _pool_at_once(b, x, how, window, strides, edges, dilation)
    for axis, size in enumerate(window):
        if not (is_int(size) and size == strides[axis] == 1):
            forms = ((window, 1), (strides, 1), (edges, (0, 0)), (dilation, 1))
            x = _pool_at_once(b, x, how, *(_at_axis(values, axis, rest) for values, rest in forms))
    return x


def _at_axis(values, axis: int, rest) -> list:
    """The value of one axis, and ``rest`` for the others."""
    return [value if i == axis else rest for i, value in enumerate(values)]


def _pool_tiles(b, x, how, window):
    """Windows that are side by side: each axis becomes one of windows and one of their elements."""
    shape, elements = [], []
    for axis, size in enumerate(window):
        count = x.shape[axis] if size == 1 else b.shape[axis]
        shape.append(count)
        if size != 1:
            x = b.slice(x, axis, 0, count * size, 1)
            elements.append(len(shape))
            shape.append(size)
    return b.reduce(b.reshape(x, shape), elements, how)


def _pool_at_once(b, x, how, window, strides, edges, dilation):
    """An edge that crops, or may, is a padding of its own."""
    if all(is_int(e) and e >= 0 for pair in edges for e in pair):
        return b.reduce_window(x, how, window, strides, edges, dilation)
    low, high = [e[0] for e in edges], [e[1] for e in edges]
    padded = b.pad(x, b.lift(neutral(how, x.dtype), x.dtype), low, high)
    return b.reduce_window(padded, how, window, strides, [(0, 0)] * len(window), dilation)


def max_pool(n: int):
    def entry(b, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
        form = _windows(b, x, n, kernel, stride, padding, dilation, ceil_mode)
        return _pool(b, x, "maximum", *form)

    return entry


def max_pool_with_indices(n: int):
    """Values and flat places in the plane: the places come from comparing each offset of the window in turn."""

    def entry(b, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
        out = b.shape[-n:]
        # Each offset of a window is written out: their number is known.
        window, strides, edges, dilation = _windows(
            b, x, n, kernel, stride, padding, dilation, ceil_mode, cut=False
        )
        values = _pool(b, x, "maximum", window, strides, edges, dilation)
        places = _place_in_window(b, x, window, strides, edges, dilation, out, n)
        return values, places

    return entry


def _place_in_window(b, x, window, strides, edges, dilation, out, n):
    """Large windows axis after axis: in each row the place of its first largest element, then the first row that has it."""
    lead = len(x.shape) - n
    plane = [1] * lead + list(x.shape[lead:])
    place = b.full(0, plane, "i64")
    for axis in range(lead, lead + n):
        place = b.add(b.mul(place, b.lift(x.shape[axis], "i64")), b.iota(plane, axis, "i64"))
    axes = list(range(lead, lead + n))
    for some in [axes] if product(window) <= MOST_TAPS else [[axis] for axis in reversed(axes)]:
        low, high = ([e[side] if i in some else 0 for i, e in enumerate(edges)] for side in (0, 1))
        padded = b.pad(x, b.lift(lowest(x.dtype), x.dtype), low, high)
        places = b.pad(place, b.lift(-1, "i64"), low, high)
        x = place = None
        for offset in _offsets([window[axis] for axis in some]):
            form = some[0], offset, strides, dilation, out[some[0] - lead :]
            value, at = (_strided(b, t, *form) for t in (padded, places))
            at = b.expand(at, value.shape)
            x, place = (value, at) if x is None else _larger(b, x, place, value, at)
    return place


def _larger(b, best, where, value, at):
    """Of two elements the larger one, the last NaN, and where it lies; a place below 0 is none."""
    better = b.map("or", b.compare("GT", value, best), b.compare("LT", where, b.lift(0, "i64")))
    if value.dtype in types.FLOATS:
        better = b.map("or", better, b.is_nan(value))
    better = b.map("and", better, b.compare("GE", at, b.lift(0, "i64")))
    return b.select(better, value, best), b.select(better, at, where)


def _offsets(kernel):
    offsets = [()]
    for k in kernel:
        offsets = [(*o, i) for o in offsets for i in range(k)]
    return offsets


def _strided(b, x, lead, offset, strides, dilation, out):
    """The element at ``offset`` of every window."""
    for i, place in enumerate(offset):
        axis = lead + i
        start = place * dilation[axis]
        x = b.slice(x, axis, start, start + (out[i] - 1) * strides[axis] + 1, strides[axis])
    return x


def avg_pool(n: int):
    def entry(
        b, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
    ):
        result = x.dtype
        wide = b.wide(x)
        window, strides, edges, dilation = _windows(b, x, n, kernel, stride, padding, 1, ceil_mode)
        total = _pool(b, wide, "add", window, strides, edges, dilation)
        if divisor_override:
            return b.convert(b.div(total, divisor_override), result)
        if not ceil_mode and (count_include_pad or all(e[0] == 0 for e in edges)):
            return b.convert(b.div(total, float(product(window))), result)
        counts = _counts(b, wide, window, strides, edges, n, padding if count_include_pad else None)
        return b.convert(b.div(total, counts), result)

    return entry


def _counts(b, x, window, strides, edges, n, padding):
    """How many elements each window has: those of the input, and its stated padding where that counts."""
    lead = len(x.shape) - n
    ones = b.full(1, [1] * lead + list(x.shape[lead:]), x.dtype)
    if padding is not None:
        stated = [0] * lead + spread(padding, n)
        ones = b.pad(ones, b.lift(1, x.dtype), stated, stated)
        edges = [(low - p, high - p) for (low, high), p in zip(edges, stated, strict=True)]
    return _pool(b, ones, "add", window, strides, edges, [1] * len(window))


def adaptive_pool(n: int, how: str):
    """Windows of sizes that differ by one: each output cell masks its part, axis after axis; axes of one cell at once."""

    def entry(b, x, size):
        lead, result = len(x.shape) - n, x.dtype
        y = b.wide(x) if how == "add" else x
        cells = dict(enumerate(b.shape[-n:], lead))
        whole = [axis for axis, out in cells.items() if is_int(out) and out == 1]
        y = _whole_axes(b, y, whole, how) if whole else y
        for axis in (axis for axis in cells if axis not in whole):
            y = _adaptive_axis(b, y, axis, cells[axis], how)
        return b.convert(y, result)

    return entry


def _adaptive_axis(b, x, axis, out, how):
    size = x.shape[axis]
    if is_int(out) and out == 1:
        return _whole_axes(b, x, [axis], how)
    pick, inside, _ = _adaptive_parts(b, x, axis, out)
    rest = b.lift(0 if how == "add" else lowest(x.dtype), x.dtype)
    whole = b.reduce(b.select(inside, pick(x), rest), [axis + 1], how)
    if how != "add":
        return whole
    start, end = _adaptive_bounds(b, out, size)
    return b.div(whole, b.broadcast(b.convert(b.sub(end, start), x.dtype), whole.shape, [axis]))


def _whole_axes(b, x, axes, how):
    """One cell along each of the axes."""
    whole = b.reduce(x, axes, how, True)
    return b.div(whole, b.lift(product(x.shape[axis] for axis in axes), x.dtype)) if how == "add" else whole


def _adaptive_parts(b, x, axis, out):
    """Elements of the axis for each cell of the result, in a new axis behind those: how to pick them, which are of the cell, and
    where they lie along the axis.

    Along the last axis these are all elements, which vectors hold; else as many as the longest part has.
    """
    size, last = x.shape[axis], axis == len(x.shape) - 1
    start, end = (b.unsqueeze(bound, -1) for bound in _adaptive_bounds(b, out, size))
    count = size if last else (size + out - 1) // out + 1
    place = b.iota([out, count], 1, "i64")
    place = place if last else b.add(place, start)
    inside = b.compare("LT", place, end)
    if last:
        inside = b.map("and", inside, b.compare("GE", place, start))
    shape = [*x.shape[:axis], out, count, *x.shape[axis + 1 :]]

    def pick(values):
        if last:
            return b.expand(b.unsqueeze(values, axis), shape)
        return b.take(values, axis, place, bounds="clamp")

    return pick, *(b.broadcast(v, shape, [axis, axis + 1]) for v in (inside, place))


def adaptive_max_pool(n: int):
    """Values and flat places in the plane, of the first largest element; of the last NaN, where there are some."""

    def entry(b, x, size):
        out, lead, places = b.shape[-n:], len(x.shape) - n, None
        for i, axis in enumerate(range(lead, lead + n)):
            step = product(x.shape[axis + 1 :])
            here = _adaptive_places(b, x, axis, out[i], places, step)
            x, places = _adaptive_axis(b, x, axis, out[i], "maximum"), here
        return x, places

    return entry


def _adaptive_places(b, x, axis, out, places, step):
    """The flat places of the largest elements of the parts of an axis; ``places``: those of ``x`` along earlier axes."""
    pick, inside, place = _adaptive_parts(b, x, axis, out)
    picked, flat = pick(x), b.mul(place, b.lift(step, "i64"))
    if places is not None:
        flat = b.add(flat, pick(places))
    largest = b.reduce(b.select(inside, picked, b.lift(lowest(x.dtype), x.dtype)), [axis + 1], "maximum")
    chosen = b.map(
        "and", inside, b.compare("EQ", picked, b.expand(b.unsqueeze(largest, axis + 1), picked.shape))
    )
    where = b.reduce(b.select(chosen, flat, b.lift(2**63 - 1, "i64")), [axis + 1], "minimum")
    if x.dtype not in types.FLOATS:
        return where
    odd = b.select(b.map("and", inside, b.is_nan(picked)), flat, b.lift(-1, "i64"))
    odd = b.reduce(odd, [axis + 1], "maximum")
    return b.select(b.compare("GE", odd, b.lift(0, "i64")), odd, where)


def _adaptive_bounds(b, out, size):
    cell = b.iota([out], 0, "i64")
    cells, length = b.lift(out, "i64"), b.lift(size, "i64")
    start = b.div(b.mul(cell, length), cells)
    end = b.div(b.add(b.mul(b.add(cell, 1), length), b.sub(cells, 1)), cells)
    return start, end


# Resampling: every output cell reads at a computed place of each axis. Where a cell of the input becomes some cells of the
# result, these are computed side by side, so that nothing is gathered.

#: How many, where their weights are exact and vectors of them can be interleaved.
PHASES = (2, 4)
#: Cells for which the repetition of cells is compared with the rounding of torch.
CHECKED = 1 << 20


def _factor(b, size, out, scale):
    """Cells of the result for each cell, where that is one number for all sizes; else None."""
    known = [int(scale)] if scale and float(scale).is_integer() else []
    if not known and is_int(size) and is_int(out):
        known = [out // size] if size and out % size == 0 else []
    candidates = known or ([] if scale else [2, 3, 4, 8, 16])
    return next((k for k in candidates if k >= 1 and b.equal(out, size * k)), None)


@functools.cache
def _repeats_cells(factor: int, exact: bool) -> bool:
    """Whether torch reads each cell this many times, with its rounding."""
    cell = np.arange(CHECKED, dtype=np.float32)
    place = (cell + np.float32(0.5 if exact else 0)) * np.float32(1 / factor)
    return bool((np.floor(place) == np.arange(CHECKED) // factor).all())


def _resampled(b, x, scales, one_axis):
    """``x`` with each spatial axis resampled by ``one_axis``; torch refuses to make cells out of none, and none out of cells."""
    lead = len(x.shape) - len(scales)
    for axis, scale in enumerate(scales, lead):
        size, out = x.shape[axis], b.shape[axis]
        factor = _factor(b, size, out, scale)
        b.require(size, ">=", 1)
        if factor is None:
            b.require(out, ">=", 1)
        x = one_axis(x, axis, out, scale, factor)
    return x


def _repeat_cells(b, x, axis: int, factor: int):
    shape = list(x.shape)
    wide = b.broadcast(
        x,
        [*shape[: axis + 1], factor, *shape[axis + 1 :]],
        [*range(axis + 1), *range(axis + 2, len(shape) + 1)],
    )
    return b.reshape(wide, [*shape[:axis], shape[axis] * factor, *shape[axis + 1 :]])


def upsample_nearest(n: int, exact: bool = False):
    def entry(b, x, size=None, scales=None, *more):
        own_ways = (1, 2) if n == 2 and not exact else ()
        nearest = functools.partial(_nearest_axis, b, exact=exact, own_ways=own_ways)
        return _resampled(b, x, _scales(scales, more, n), nearest)

    return entry


def _nearest_axis(b, x, axis, out, scale, factor, *, exact, own_ways):
    if factor and _repeats_cells(factor, exact):
        return _repeat_cells(b, x, axis, factor)
    cell = b.iota([out], 0, "f32")
    place = b.mul(b.add(cell, 0.5) if exact else cell, _step(b, x.shape[axis], out, scale, "f32", own_ways))
    index = b.minimum(b.convert(b.op("floor", place), "i64"), b.lift(x.shape[axis] - 1, "i64"))
    return b.take(x, axis, index, bounds="clamp")


def _scales(scales, more, n):
    """The .vec forms give a list, the others one number per axis."""
    if isinstance(scales, (list, tuple)):
        return list(scales)
    return ([scales, *more] + [None] * n)[:n]


def _step(b, size, out, scale, dtype, own_ways):
    """Input cells per output cell, as torch has it; ``own_ways``: where it copies or doubles cells, whatever the scale is."""
    if scale is None or scale <= 0:
        return b.div(b.lift(size, dtype), b.lift(out, dtype))
    step = b.lift(1.0 / scale, dtype)
    for factor in own_ways:
        # So many cells come of a scale between this and the next integer, where there are few.
        if factor < scale < factor + 1:
            is_so = b.compare("EQ", b.lift(out, "i64"), b.lift(size * factor, "i64"))
            step = b.select(is_so, b.lift(1.0 / factor, dtype), step)
    return step


def upsample_linear(n: int):
    def entry(b, x, size, align_corners, scales=None, *more):
        linear = functools.partial(_linear_axis, b, align_corners=align_corners)
        return b.convert(_resampled(b, b.wide(x), _scales(scales, more, n), linear), x.dtype)

    return entry


def _places(b, size, out, align_corners, scale, dtype, own_ways=()):
    """Where along an axis of ``size`` the cells of the result lie."""
    cell = b.iota([out], 0, dtype)
    if align_corners:
        spans = b.maximum(b.lift(out - 1, dtype), 1.0)
        many = b.compare("GT", b.lift(out, "i64"), b.lift(1, "i64"))
        return b.mul(cell, b.select(many, b.div(b.lift(size - 1, dtype), spans), b.lift(0, dtype)))
    return b.sub(b.mul(b.add(cell, 0.5), _step(b, size, out, scale, dtype, own_ways)), 0.5)


def _linear_phases(b, x, axis, factor):
    """The last axis with ``factor`` cells for each one; in front of the first cell torch reads two, one with weight 0."""
    size, parts = x.shape[axis], []
    cell, zero = b.iota([size], 0, "i64"), b.lift(0, x.dtype)
    is_first, is_last = (b.compare("EQ", cell, b.lift(edge, "i64")) for edge in (0, size - 1))
    first, last = (b.broadcast(mask, x.shape, [axis]) for mask in (is_first, is_last))
    before, after = b.select(first, x, _shifted(b, x, axis, -1)), b.select(last, x, _shifted(b, x, axis, 1))
    for phase in range(factor):
        place = (phase + 0.5) / factor - 0.5
        low, high, weight = x, after, b.lift(place, x.dtype)
        if place < 0:
            low, high = before, b.select(first, after, x)
            weight = b.broadcast(b.select(is_first, zero, b.lift(place + 1, x.dtype)), x.shape, [axis])
        part = b.add(b.mul(low, b.sub(b.lift(1, x.dtype), weight)), b.mul(high, weight))
        parts.append(b.unsqueeze(part, axis + 1))
    return b.reshape(b.concatenate(parts, axis + 1), [*x.shape[:axis], size * factor])


def _shifted(b, x, axis, by):
    """The element ``by`` further on; zeros where there is none."""
    low, high = [0] * len(x.shape), [0] * len(x.shape)
    low[axis], high[axis] = -by, by
    return b.pad(x, b.lift(0, x.dtype), low, high)


def _linear_axis(b, x, axis, out, scale, factor, *, align_corners):
    if axis == len(x.shape) - 1 and factor in PHASES and not align_corners:
        return _linear_phases(b, x, axis, factor)
    size, dtype = x.shape[axis], "f64" if x.dtype == "f64" else "f32"
    place = b.maximum(_places(b, size, out, align_corners, scale, dtype, own_ways=(1,)), 0.0)
    low = b.minimum(b.convert(b.op("floor", place), "i64"), b.lift(size - 1, "i64"))
    # Where torch copies cells, the next one is not read, with a weight of 0: it may be no number.
    step = b.select(
        b.compare("EQ", b.lift(out, "i64"), b.lift(size, "i64")), b.lift(0, "i64"), b.lift(1, "i64")
    )
    high = b.minimum(b.add(low, step), b.lift(size - 1, "i64"))
    weight = b.convert(b.minimum(b.sub(place, b.convert(low, dtype)), 1.0), x.dtype)
    shape = [out if i == axis else s for i, s in enumerate(x.shape)]
    weight = b.broadcast(weight, shape, [axis])
    first, second = (b.take(x, axis, place, bounds="clamp") for place in (low, high))
    return b.add(b.mul(first, b.sub(b.lift(1, x.dtype), weight)), b.mul(second, weight))


def upsample_cubic(b, x, size, align_corners, scales=None, *more):
    """Bicubic: four cells of each axis, by the polynomials of Keys with A = -0.75; beyond an end lies the last cell."""
    cubic = functools.partial(_cubic_axis, b, align_corners=align_corners)
    return b.convert(_resampled(b, b.wide(x), _scales(scales, more, 2), cubic), x.dtype)


def _cubic_axis(b, x, axis, out, scale, _, *, align_corners):
    size, dtype = x.shape[axis], "f64" if x.dtype == "f64" else "f32"
    place = _places(b, size, out, align_corners, scale, dtype)
    low = b.op("floor", place)
    t = b.sub(place, low)
    low, last = b.convert(low, "i64"), b.lift(size - 1, "i64")
    shape = [out if i == axis else s for i, s in enumerate(x.shape)]
    total = None
    for tap, weight in zip(range(-1, 3), _cubic_weights(b, t), strict=True):
        cell = b.minimum(b.maximum(b.add(low, tap), 0), last)
        part = b.mul(b.take(x, axis, cell, bounds="clamp"), b.broadcast(weight, shape, [axis]))
        total = part if total is None else b.add(total, part)
    return total


def _cubic_weights(b, t, a=-0.75):
    """Of the cells at distance t + 1, t, 1 - t and 2 - t."""

    def near(x):
        return b.add(b.mul(b.mul(b.sub(b.mul(x, a + 2), a + 3), x), x), 1.0)

    def far(x):
        return b.sub(b.mul(b.add(b.mul(b.sub(b.mul(x, a), 5 * a), x), 8 * a), x), 4 * a)

    one = b.lift(1.0, t.dtype)
    return far(b.add(t, one)), near(t), near(b.sub(one, t)), far(b.sub(b.lift(2.0, t.dtype), t))


def affine_grid(b, theta, size, align_corners):
    """The cells of an image of this size, as coordinates from -1 to 1, under an affine map."""
    spatial, dtype = b.shape[1:-1], theta.dtype

    def coordinates(axis):
        count = spatial[axis]
        place = b.iota(spatial, axis, dtype)
        spans = b.maximum(b.lift(count - 1, dtype), 1.0) if align_corners else b.lift(count, dtype)
        place = b.sub(b.add(place, place), b.lift(count - 1, dtype))
        return b.unsqueeze(b.div(place, spans), -1)

    last = len(spatial)
    cells = b.concatenate([*map(coordinates, reversed(range(last))), b.full(1, [*spatial, 1], dtype)], last)
    return b.move(b.dot(cells, theta, contracting=([last], [2])), last, 0)


#: Features from which on they are the last axis while an image is sampled: those of a cell lie together then, and a place is
#: found once for all. An open number is taken for a small one, as of an image.
_MANY_FEATURES = 8


def grid_sample(b, x, grid, mode=0, padding=0, align_corners=False):
    """Bilinear (0), nearest (1) and bicubic (2) sampling with zeros (0), border (1) or reflection (2), two spatial axes."""
    if len(x.shape) != 4:
        raise b.unsupported("grid_sampler: only images with two spatial axes are supported")
    result, sizes = x.dtype, x.shape[2:]
    features = 3 if is_int(x.shape[1]) and x.shape[1] >= _MANY_FEATURES else 1
    x, grid = b.move(b.wide(x), 1, features), b.wide(grid)

    def inner(place, axis):
        return _inner(b, place, sizes[axis], padding, align_corners)

    def sample(row, column):
        return _sample(b, x, features, row, column)

    y, x0 = (_grid_place(b, grid, 1 - axis, sizes[axis], align_corners) for axis in range(2))
    if mode != 2:
        y, x0 = inner(y, 0), inner(x0, 1)
    if mode == 1:
        rows, columns = (b.op("round_nearest_even", p) for p in (y, x0))
        return b.convert(b.move(sample(rows, columns), features, 1), result)
    low = b.op("floor", y), b.op("floor", x0)
    if mode == 2:
        taps = range(-1, 3)
        weights = [_cubic_weights(b, b.sub(p, corner)) for p, corner in zip((y, x0), low, strict=True)]
    else:
        taps = range(2)
        weights = [
            [_closeness(b, p, b.add(corner, float(tap))) for tap in taps]
            for p, corner in zip((y, x0), low, strict=True)
        ]
    total = None
    for dy, row_weight in zip(taps, weights[0], strict=True):
        for dx, column_weight in zip(taps, weights[1], strict=True):
            row, column = b.add(low[0], float(dy)), b.add(low[1], float(dx))
            if mode == 2:
                row, column = inner(row, 0), inner(column, 1)
            weight = b.unsqueeze(b.mul(row_weight, column_weight), features)
            part = b.mul(sample(row, column), weight)
            total = part if total is None else b.add(total, part)
    return b.convert(b.move(total, features, 1), result)


def _closeness(b, place, corner):
    return b.sub(b.lift(1, place.dtype), b.op("abs", b.sub(place, corner)))


def _grid_place(b, grid, which, size, align_corners):
    part = b.squeeze(b.slice(grid, 3, which, which + 1), 3)
    if align_corners:
        return b.mul(b.add(part, 1.0), b.div(b.lift(size - 1, part.dtype), 2.0))
    return b.div(b.sub(b.mul(b.add(part, 1.0), b.lift(size, part.dtype)), 1.0), 2.0)


def _inner(b, place, size, padding, align_corners):
    """Where a place behind the border is read: as it is (0), at the border (1), mirrored at the border (2)."""
    if padding == 0:
        return place
    last = b.lift(size - 1, place.dtype)
    if padding == 2:
        # From the middle of the first cell to that of the last one, or from edge to edge.
        low, span = (0.0, last) if align_corners else (-0.5, b.lift(size, place.dtype))
        # An image of one cell has no span between middles.
        span = b.maximum(span, 1.0)
        place = b.op("abs", b.sub(place, low))
        rest, turns = b.map("remainder", place, span), b.op("floor", b.div(place, span))
        odd = b.compare("NE", b.map("remainder", turns, b.lift(2.0, turns.dtype)), b.lift(0.0, turns.dtype))
        place = b.add(b.select(odd, b.sub(span, rest), rest), low)
    return b.minimum(b.maximum(place, 0.0), last)


def _sample(b, x, features, rows, columns):
    """The features of x in sample n, row rows[n, i, j] and column columns[n, i, j]; zero outside.

    They are axis ``features`` of x and of the result.
    """
    places = [axis for axis in range(4) if axis != features]
    height, width = (x.shape[axis] for axis in places[1:])
    inside = b.map("and", _within(b, rows, height), _within(b, columns, width))
    rows, columns = (b.convert(b.select(inside, v, b.lift(0, v.dtype)), "i64") for v in (rows, columns))
    sample = b.iota(rows.shape, 0, "i64")
    index = b.concatenate([b.unsqueeze(v, 3) for v in (sample, rows, columns)], 3)
    picked = b.gather(
        x,
        index,
        offset_dims=[features],
        collapsed=places,
        index_map=places,
        vector_dim=3,
        window=[size if axis == features else 1 for axis, size in enumerate(x.shape)],
        bounds="clamp",
    )
    return b.select(b.unsqueeze(inside, features), picked, b.lift(0, x.dtype))


def _within(b, place, size):
    dtype = place.dtype
    return b.map("and", b.compare("GE", place, b.lift(0, dtype)), b.compare("LT", place, b.lift(size, dtype)))


def columns_to_image(b, x, size, kernel, dilation, padding, stride):
    """col2im: every column is a window that is added to its place in the image."""
    kernel, dilation, padding, stride = (spread(v, 2) for v in (kernel, dilation, padding, stride))
    single = len(x.shape) == 2
    x = b.unsqueeze(x, 0) if single else x
    batch, depth = x.shape[0], x.shape[1]
    counts = [
        (s + 2 * p - d * (k - 1) - 1) // st + 1
        for s, p, d, k, st in zip(size, padding, dilation, kernel, stride, strict=True)
    ]
    channels = depth // (kernel[0] * kernel[1])
    x = b.reshape(x, [batch, channels, *kernel, *counts])
    total = None
    full = [s + 2 * p for s, p in zip(size, padding, strict=True)]
    for i, j in _offsets(kernel):
        part = b.squeeze(b.slice(b.slice(x, 2, i, i + 1), 3, j, j + 1), 2, 3)
        low = [0, 0, i * dilation[0], j * dilation[1]]
        inner = [0, 0, stride[0] - 1, stride[1] - 1]
        reach = [lo + (c - 1) * st + 1 for lo, c, st in zip(low[2:], counts, stride, strict=True)]
        high = [0, 0, *(f - r for f, r in zip(full, reach, strict=True))]
        part = b.pad(part, b.lift(0, x.dtype), low, high, inner)
        total = part if total is None else b.add(total, part)
    for axis, (p, s) in enumerate(zip(padding, size, strict=True)):
        total = b.slice(total, 2 + axis, p, p + s)
    return b.squeeze(total, 0) if single else total


def image_to_columns(b, x, kernel, dilation, padding, stride):
    """im2col, the inverse gathering."""
    kernel, dilation, padding, stride = (spread(v, 2) for v in (kernel, dilation, padding, stride))
    single = len(x.shape) == 3
    x = b.unsqueeze(x, 0) if single else x
    batch, channels, *size = x.shape
    counts = [
        (s + 2 * p - d * (k - 1) - 1) // st + 1
        for s, p, d, k, st in zip(size, padding, dilation, kernel, stride, strict=True)
    ]
    x = b.pad(x, b.lift(0, x.dtype), [0, 0, *padding], [0, 0, *padding])
    parts = [
        b.unsqueeze(_strided(b, x, 2, offset, [1, 1, *stride], [1, 1, *dilation], counts), 2)
        for offset in _offsets(kernel)
    ]
    y = b.reshape(b.concatenate(parts, 2), [batch, channels * kernel[0] * kernel[1], product(counts)])
    return b.squeeze(y, 0) if single else y


TABLE = {
    "aten.convolution.default": convolution,
    **{f"aten.conv{n}d.default": conv(n) for n in (1, 2, 3)},
    **{f"aten.conv{n}d.padding": conv_named_padding(n) for n in (1, 2, 3)},
    "aten.conv_transpose1d.default": conv(1, transposed=True),
    "aten.conv_transpose2d.input": conv(2, transposed=True),
    "aten.conv_transpose3d.input": conv(3, transposed=True),
    **{f"aten.max_pool{n}d.default": max_pool(n) for n in (1, 2, 3)},
    **{f"aten.max_pool{n}d_with_indices.default": max_pool_with_indices(n) for n in (1, 2, 3)},
    "aten.avg_pool1d.default": avg_pool(1),
    "aten.avg_pool2d.default": avg_pool(2),
    "aten.avg_pool3d.default": avg_pool(3),
    **{f"aten.adaptive_avg_pool{n}d.default": adaptive_pool(n, "add") for n in (1, 2, 3)},
    "aten._adaptive_avg_pool2d.default": adaptive_pool(2, "add"),
    "aten._adaptive_avg_pool3d.default": adaptive_pool(3, "add"),
    **{f"aten.adaptive_max_pool{n}d.default": adaptive_max_pool(n) for n in (1, 2, 3)},
    "aten.upsample_nearest1d.default": upsample_nearest(1),
    "aten.upsample_nearest1d.vec": upsample_nearest(1),
    "aten.upsample_nearest2d.default": upsample_nearest(2),
    "aten.upsample_nearest2d.vec": upsample_nearest(2),
    "aten.upsample_nearest3d.vec": upsample_nearest(3),
    "aten._upsample_nearest_exact1d.vec": upsample_nearest(1, exact=True),
    "aten._upsample_nearest_exact2d.vec": upsample_nearest(2, exact=True),
    "aten.upsample_linear1d.vec": upsample_linear(1),
    "aten.upsample_bilinear2d.vec": upsample_linear(2),
    "aten.upsample_bilinear2d.default": upsample_linear(2),
    "aten.upsample_trilinear3d.vec": upsample_linear(3),
    "aten.upsample_bicubic2d.vec": upsample_cubic,
    "aten.upsample_bicubic2d.default": upsample_cubic,
    "aten.affine_grid_generator.default": affine_grid,
    "aten.grid_sampler_2d.default": grid_sample,
    "aten.grid_sampler.default": grid_sample,
    "aten.col2im.default": columns_to_image,
    "aten.im2col.default": image_to_columns,
}
