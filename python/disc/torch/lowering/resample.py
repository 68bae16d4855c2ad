"""Lowers resampling: each cell of the result reads computed places of each axis of the input.

Upsampling by a small whole factor computes the cells that one input cell becomes side by side, so
that nothing is gathered.
"""

from __future__ import annotations

import functools

import numpy as np

from ...lowering.sizes import is_int

#: Factors whose weights are exact and whose vectors can be interleaved.
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
    """Returns true if torch reads each cell this many times, with its rounding."""
    cell = np.arange(CHECKED, dtype=np.float32)
    place = (cell + np.float32(0.5 if exact else 0)) * np.float32(1 / factor)
    return bool((np.floor(place) == np.arange(CHECKED) // factor).all())


def _resampled(b, x, scales, one_axis):
    """``x`` with each spatial axis resampled by ``one_axis``;
    torch refuses to make cells out of none, and none out of cells.
    """
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
    """Input cells per output cell, as torch has it; ``own_ways``: where it copies or doubles cells,
    whatever the scale is.
    """
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
    """The places of the result's cells along an axis of ``size``."""
    cell = b.iota([out], 0, dtype)
    if align_corners:
        spans = b.maximum(b.lift(out - 1, dtype), 1.0)
        many = b.compare("GT", b.lift(out, "i64"), b.lift(1, "i64"))
        return b.mul(cell, b.select(many, b.div(b.lift(size - 1, dtype), spans), b.lift(0, dtype)))
    return b.sub(b.mul(b.add(cell, 0.5), _step(b, size, out, scale, dtype, own_ways)), 0.5)


def _linear_phases(b, x, axis, factor):
    """The last axis with ``factor`` cells for each one;
    before the first cell torch reads two, one with weight 0.
    """
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
    # For cells that torch copies, the next one has weight 0 and is not read: it may be NaN.
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
    """Bicubic: four cells of each axis, by the polynomials of Keys with A = -0.75;
    beyond an end is the last cell.
    """
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


#: Features from which on they are the last axis while an image is sampled: those of a cell are
#: adjacent in memory then, and their place is found once. An open number is taken for a small one,
#: as of an image.
_MANY_FEATURES = 8


def grid_sample(b, x, grid, mode=0, padding=0, align_corners=False):
    """Bilinear (0), nearest (1) and bicubic (2) sampling with zeros (0),
    border (1) or reflection (2), two spatial axes.
    """
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
    """Moves a place beyond the border inside: not at all (0), to the border (1), mirrored at the
    border (2).
    """
    if padding == 0:
        return place
    last = b.lift(size - 1, place.dtype)
    if padding == 2:
        # From the middle of the first cell to that of the last one and back, or from edge to edge.
        # An image of one cell has no span between middles.
        low, span = (0.0, b.maximum(last, 1.0)) if align_corners else (-0.5, b.lift(size, place.dtype))
        both = b.mul(span, 2.0)
        place = b.op("abs", b.sub(place, low))
        turns = b.op("floor", b.div(place, both))
        rest = b.sub(place, b.mul(turns, both))
        place = b.add(b.minimum(rest, b.sub(both, rest)), low)
    # As in torch, NaN is in the first cell, and so is what infinity is mirrored to.
    zero = b.lift(0.0, place.dtype)
    return b.minimum(b.select(b.compare("GT", place, zero), place, zero), last)


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


TABLE = {
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
}
