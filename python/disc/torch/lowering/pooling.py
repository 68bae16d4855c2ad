"""Lowers pooling. ``out`` are the spatial sizes of torch's result."""

from __future__ import annotations

from ...lowering import dtypes
from ...lowering.dtypes import lowest, neutral
from ...lowering.sizes import is_int, least, product, same, spread

#: Overlapping windows of more elements are pooled axis by axis.
MOST_TAPS = 64


#: Longer windows, which may end behind the input, are cut to it: some models pool all they have by
#: a window of a thousand.
LONG = 16


def _windows(b, x, n, kernel, stride, padding, dilation, ceil_mode, cut=True):
    """Window, strides, (low, high) padding and dilation for all axes;
    with ceil_mode the high edge is what the result needs.

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
    """The padding at the end that ``count`` windows reach into; the most that may be,
    where it depends on the size.
    """
    reach = dilation * (kernel - 1) + 1
    needed = (count - 1) * stride + reach - size - padding
    most = padding + stride - 1
    windows = (size + padding + most - reach) // stride + 1
    return most if not is_int(needed) and is_int(kernel) and same(windows, count) else needed


def _pool(b, x, how, window, strides, edges, dilation):
    """Windows that lie side by side are reductions; others are taken as a whole,
    or axis after axis where they are large.
    """
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
    """Values and flat places in the plane:
    the places come from comparing each offset of the window in turn.
    """

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
    """Large windows axis after axis: in each row the place of its first largest element,
    then the first row that has it.
    """
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
        for offset in window_offsets([window[axis] for axis in some]):
            form = some[0], offset, strides, dilation, out[some[0] - lead :]
            value, at = (elements_at(b, t, *form) for t in (padded, places))
            at = b.expand(at, value.shape)
            x, place = (value, at) if x is None else _larger(b, x, place, value, at)
    return place


def _larger(b, best, where, value, at):
    """Of two elements the larger one, the last NaN, and where it lies; a place below 0 is none."""
    better = b.map("or", b.compare("GT", value, best), b.compare("LT", where, b.lift(0, "i64")))
    if value.dtype in dtypes.FLOATS:
        better = b.map("or", better, b.is_nan(value))
    better = b.map("and", better, b.compare("GE", at, b.lift(0, "i64")))
    return b.select(better, value, best), b.select(better, at, where)


def window_offsets(kernel):
    offsets = [()]
    for k in kernel:
        offsets = [(*o, i) for o in offsets for i in range(k)]
    return offsets


def elements_at(b, x, lead, offset, strides, dilation, out):
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
    """Counts the elements of each window: those of the input,
    and its stated padding where that counts.
    """
    lead = len(x.shape) - n
    ones = b.full(1, [1] * lead + list(x.shape[lead:]), x.dtype)
    if padding is not None:
        stated = [0] * lead + spread(padding, n)
        ones = b.pad(ones, b.lift(1, x.dtype), stated, stated)
        edges = [(low - p, high - p) for (low, high), p in zip(edges, stated, strict=True)]
    return _pool(b, ones, "add", window, strides, edges, [1] * len(window))


def adaptive_pool(n: int, how: str):
    """Windows of sizes that differ by one: each output cell masks its part, axis after axis;
    axes of one cell at once.
    """

    def entry(b, x, size):
        lead, result = len(x.shape) - n, x.dtype
        if _has_no_cells(b):
            return b.full(0, b.shape, result)
        y = b.wide(x) if how == "add" else x
        cells = dict(enumerate(b.shape[-n:], lead))
        whole = [axis for axis, out in cells.items() if is_int(out) and out == 1]
        y = _whole_axes(b, y, whole, how) if whole else y
        for axis in (axis for axis in cells if axis not in whole):
            y = _adaptive_axis(b, y, axis, cells[axis], how)
        return b.convert(y, result)

    return entry


def _has_no_cells(b) -> bool:
    """Returns true for a result of no elements: there are no parts to divide an axis into."""
    return any(same(size, 0) for size in b.shape)


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
    """Elements of the axis for each cell of the result, in a new axis behind those:
    how to pick them, which are of the cell, and where they lie along the axis.

    Along the last axis these are all elements, which vectors hold; else as many as the longest part
    has.
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
    """Values and flat places in the plane, of the first largest element; of the last NaN,
    where there are some.
    """

    def entry(b, x, size):
        if _has_no_cells(b):
            return b.full(0, b.shape, x.dtype), b.full(0, b.shape, "i64")
        out, lead, places = b.shape[-n:], len(x.shape) - n, None
        for i, axis in enumerate(range(lead, lead + n)):
            step = product(x.shape[axis + 1 :])
            here = _adaptive_places(b, x, axis, out[i], places, step)
            x, places = _adaptive_axis(b, x, axis, out[i], "maximum"), here
        return x, places

    return entry


def _adaptive_places(b, x, axis, out, places, step):
    """The flat places of the largest elements of the parts of an axis; ``places``:
    those of ``x`` along earlier axes.
    """
    pick, inside, place = _adaptive_parts(b, x, axis, out)
    picked, flat = pick(x), b.mul(place, b.lift(step, "i64"))
    if places is not None:
        flat = b.add(flat, pick(places))
    largest = b.reduce(b.select(inside, picked, b.lift(lowest(x.dtype), x.dtype)), [axis + 1], "maximum")
    chosen = b.map(
        "and", inside, b.compare("EQ", picked, b.expand(b.unsqueeze(largest, axis + 1), picked.shape))
    )
    where = b.reduce(b.select(chosen, flat, b.lift(2**63 - 1, "i64")), [axis + 1], "minimum")
    if x.dtype not in dtypes.FLOATS:
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


TABLE = {
    **{f"aten.max_pool{n}d.default": max_pool(n) for n in (1, 2, 3)},
    **{f"aten.max_pool{n}d_with_indices.default": max_pool_with_indices(n) for n in (1, 2, 3)},
    "aten.avg_pool1d.default": avg_pool(1),
    "aten.avg_pool2d.default": avg_pool(2),
    "aten.avg_pool3d.default": avg_pool(3),
    **{f"aten.adaptive_avg_pool{n}d.default": adaptive_pool(n, "add") for n in (1, 2, 3)},
    "aten._adaptive_avg_pool2d.default": adaptive_pool(2, "add"),
    "aten._adaptive_avg_pool3d.default": adaptive_pool(3, "add"),
    **{f"aten.adaptive_max_pool{n}d.default": adaptive_max_pool(n) for n in (1, 2, 3)},
}
