"""Indexing of torch: reading and writing at computed places.

An index out of range fails the call, as in torch.
"""

from __future__ import annotations

import math

from ...lowering.dtypes import neutral
from ...lowering.emitter import Number
from ...lowering.sizes import greatest, is_int, product, same
from .data_movement import axis_of, bound_by_data, bounds, place_by_data
from .elementwise import floor_divide


def wrapped(b, index, size):
    """Negative indices count from the end."""
    index = b.convert(index, "i64")
    return b.select(b.compare("LT", index, b.lift(0, "i64")), b.add(index, b.lift(size, "i64")), index)


def embedding(b, weight, index, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return b.take(weight, 0, b.convert(index, "i64"))


def index_select(b, x, dim, index):
    if not x.shape:
        return x
    axis = axis_of(x, dim)
    index = b.reshape(index, [1]) if not index.shape else index
    return b.take(x, axis, b.convert(index, "i64"))


def take_flat(b, x, index):
    size = product(x.shape)
    return b.take(b.reshape(x, [size]), 0, wrapped(b, index, size))


def gather(b, x, dim, index, sparse_grad=False):
    if not x.shape:
        return b.reshape(b.expand(b.reshape(x, []), b.shape), b.shape)
    index = b.reshape(index, [1]) if not index.shape else index
    return b.reshape(elements_along(b, x, axis_of(x, dim), index), b.shape)


def elements_along(b, x, axis: int, index):
    """The elements of ``x`` whose place on ``axis`` is given by ``index`` of the same rank,
    on other axes by the place in it.
    """
    others = [i for i in range(len(x.shape)) if i != axis]
    shorter = [i for i in others if not same(x.shape[i], index.shape[i])]
    counts = [n for i, n in enumerate(index.shape) if i not in shorter]
    # Lines beyond the index are not read. (An index of no elements may be longer than x, but not
    # along its only unknown axis.)
    if len(shorter) == 1 and all(is_int(n) and n > 0 for n in counts):
        x, shorter = b.slice(x, shorter[0], 0, index.shape[shorter[0]]), []
    if not shorter:
        return b.gather(
            x,
            b.convert(index, "i64"),
            offset_dims=[],
            collapsed=[axis],
            index_map=[axis],
            vector_dim=len(index.shape),
            window=[1] * len(x.shape),
            batching=others,
        )
    coordinates = coordinates_along(b, index, axis)
    return b.gather(
        x,
        coordinates,
        offset_dims=[],
        collapsed=range(len(x.shape)),
        index_map=range(len(x.shape)),
        vector_dim=len(index.shape),
        window=[1] * len(x.shape),
    )


def coordinates_along(b, index, axis):
    """The full place of every element of ``index``: itself on ``axis``,
    its own place on the others; a new last axis.
    """
    rank = len(index.shape)
    parts = [b.convert(index, "i64") if i == axis else b.iota(index.shape, i, "i64") for i in range(rank)]
    return b.concatenate([b.unsqueeze(p, rank) for p in parts], rank)


def take_along_dim(b, x, index, dim=None):
    if dim is None:
        return gather(b, b.reshape(x, [product(x.shape)]), 0, b.reshape(index, [product(index.shape)]))
    axis = axis_of(x, dim)
    rank = len(x.shape)
    shape = [x.shape[i] if same(index.shape[i], 1) else index.shape[i] for i in range(rank)]
    index = b.expand(index, [index.shape[i] if i == axis else shape[i] for i in range(rank)])
    x = b.expand(x, [x.shape[i] if i == axis else shape[i] for i in range(rank)])
    return gather(b, x, dim, wrapped(b, index, x.shape[axis]))


# Advanced indexing.


class _Places:
    """The index tensors of ``x[...]`` as one array of places: ``axes`` of x are addressed;
    the result has them at ``at``.
    """

    def __init__(self, b, x, indices, reads: bool):
        given = [(i, index) for i, index in enumerate(unmasked(b, x, indices, reads)) if index is not None]
        self.axes = [i for i, _ in given]
        parts = [wrapped(b, index, x.shape[i]) for i, index in given]
        shape = b.common_shape(*parts)
        parts = [b.expand(p, shape) for p in parts]
        self.shape = shape
        self.array = b.concatenate([b.unsqueeze(p, len(shape)) for p in parts], len(shape))
        adjacent = self.axes == list(range(self.axes[0], self.axes[0] + len(self.axes)))
        self.at = self.axes[0] if adjacent else 0
        self.kept = [i for i in range(len(x.shape)) if i not in self.axes]

    def result_shape(self, x) -> list:
        rest = [x.shape[i] for i in self.kept]
        return rest[: self.at] + list(self.shape) + rest[self.at :]

    def window_axes(self) -> list[int]:
        """The axes of the result that are whole axes of x."""
        depth = len(self.shape)
        return [i if i < self.at else i + depth for i in range(len(self.kept))]


def unmasked(b, x, indices, reads: bool) -> list:
    """The indices of ``x[...]`` with each mask as the places of its true elements,
    one vector for each of its axes.

    ``reads``: the framework's result is what is read, and says how it calls the number of places.
    """
    masks = [i for i, index in enumerate(indices) if index is not None and index.dtype in ("i1", "u8")]
    if not masks:
        return list(indices)
    ranks = [len(index.shape) if i in masks else 1 for i, index in enumerate(indices)]
    starts = [sum(ranks[:i]) for i in range(len(indices))]
    given = [i for i, index in enumerate(indices) if index is not None]
    axes = [starts[i] + k for i in given for k in range(ranks[i])]
    lead = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    depth = max(1 if i in masks else len(indices[i].shape) for i in given)
    wanted = b.out.shape[lead + depth - 1] if reads else None
    result: list = []
    for i, index in enumerate(indices):
        if i in masks:
            places = b.places(b.convert(index, "i1"), wanted)
            result += b.coordinates(places, x.shape[starts[i] : starts[i] + ranks[i]])
        else:
            result.append(index)
    return result


def index(b, x, indices):
    if all(i is None for i in indices):
        return x
    places = _Places(b, x, indices, reads=True)
    window = [1 if i in places.axes else size for i, size in enumerate(x.shape)]
    return b.gather(
        x,
        places.array,
        offset_dims=places.window_axes(),
        collapsed=places.axes,
        index_map=places.axes,
        vector_dim=len(places.shape),
        window=window,
    )


def index_put(b, x, indices, values, accumulate=False):
    given = [i for i in indices if i is not None]
    one = all(same(size, 1) for size in values.shape)
    if len(given) == 1 and given[0].dtype == "i1" and one:
        return _masked_put(b, x, indices, values, accumulate)
    places = _Places(b, x, indices, reads=False)
    values = b.expand(b.convert(values, x.dtype), places.result_shape(x))
    return b.scatter(
        x,
        places.array,
        values,
        window_dims=places.window_axes(),
        inserted=places.axes,
        index_map=places.axes,
        vector_dim=len(places.shape),
        how="add" if accumulate else "overwrite",
    )


def _masked_put(b, x, indices, values, accumulate):
    """x[mask] = scalar is a selection."""
    lead = next(i for i, index in enumerate(indices) if index is not None)
    mask = indices[lead]
    mask = b.broadcast(mask, x.shape, list(range(lead, lead + len(mask.shape))))
    value = b.reshape(b.convert(values, x.dtype), [])
    return b.select(mask, b.add(x, value) if accumulate else value, x)


def index_fill(b, x, dim, index, value):
    if not x.shape:
        return b.reshape(index_fill(b, b.reshape(x, [1]), 0, index, value), [])
    index = wrapped(b, index, x.shape[axis_of(x, dim)])
    shape = [index.shape[0] if i == axis_of(x, dim) else s for i, s in enumerate(x.shape)]
    return _index_write(b, x, dim, index, b.expand(b.lift(value, x.dtype), shape), "overwrite")


def index_add(b, x, dim, index, source, *, alpha=1):
    source = b.convert(source if alpha == 1 else b.mul(source, alpha), x.dtype)
    return _index_write(b, x, dim, index, source, "add")


def index_copy(b, x, dim, index, source):
    return _index_write(b, x, dim, index, source, "overwrite")


def _index_write(b, x, dim, index, source, how):
    """Writes slices at places from 0 on: torch refuses others."""
    if not x.shape:
        x, source = (b.reshape(y, [1]) for y in (x, source))
        return b.reshape(_index_write(b, x, 0, index, source, how), [])
    axis = axis_of(x, dim)
    index = b.convert(b.reshape(index, [1]) if not index.shape else index, "i64")
    # Before 2.13 torch asks for these equalities when the op runs, not when it is traced.
    for i, size in enumerate(source.shape):
        b.require(size, "==", index.shape[0] if i == axis else x.shape[i])
    dims = {"window_dims": [i for i in range(len(x.shape)) if i != axis], "inserted": [axis]}
    return b.scatter(x, index, source, **dims, index_map=[axis], vector_dim=1, how=how)


# scatter: each element of ``index`` writes one element.

_REDUCE = {
    "sum": "add",
    "add": "add",
    "prod": "multiply",
    "multiply": "multiply",
    "amax": "maximum",
    "amin": "minimum",
}


def scatter(b, x, dim, index, source, how="overwrite"):
    if not x.shape:
        x, index = (b.reshape(y, [1]) for y in (x, index))
        return b.reshape(scatter(b, x, 0, index, _flat(b, source), how), [])
    index = b.reshape(index, [1]) if not index.shape else index
    if hasattr(source, "shape") and source.shape:
        # The source may be larger than the index.
        for axis in range(len(source.shape)):
            source = b.slice(source, axis, 0, index.shape[axis])
    source = b.expand(b.lift(source, x.dtype), index.shape)
    rank, axis = len(x.shape), axis_of(x, dim)
    others = [i for i in range(rank) if i != axis]
    if all(same(x.shape[i], index.shape[i]) for i in others):
        # Each line along the axis by itself.
        return b.scatter(
            x,
            b.convert(index, "i64"),
            source,
            window_dims=[],
            inserted=[axis],
            index_map=[axis],
            vector_dim=rank,
            batching=others,
            how=how,
        )
    places = coordinates_along(b, index, axis)
    return b.scatter(
        x,
        places,
        source,
        window_dims=[],
        inserted=range(rank),
        index_map=range(rank),
        vector_dim=rank,
        how=how,
    )


def _flat(b, source):
    return b.reshape(source, [1]) if hasattr(source, "shape") else source


def scatter_reduced(b, x, dim, index, source, *, reduce):
    return scatter(b, x, dim, index, source, _REDUCE[reduce])


def scatter_reduce(b, x, dim, index, source, reduce, *, include_self=True):
    if reduce == "mean":
        return _scatter_mean(b, x, dim, index, source, include_self)
    if include_self:
        return scatter(b, x, dim, index, source, _REDUCE[reduce])
    neutral = b.lift(_neutral(x.dtype, reduce), x.dtype)
    touched = _touched(b, x, dim, index)
    return scatter(b, b.select(touched, neutral, x), dim, index, source, _REDUCE[reduce])


def _touched(b, x, dim, index):
    zeros = b.full(0, x.shape, "i32")
    return b.convert(scatter(b, zeros, dim, index, 1), "i1")


def _scatter_mean(b, x, dim, index, source, include_self):
    start = x if include_self else b.select(_touched(b, x, dim, index), b.lift(0, x.dtype), x)
    total = scatter(b, start, dim, index, source, "add")
    counts = scatter(b, b.full(int(include_self), x.shape, "i64"), dim, index, 1, "add")
    counts = b.convert(b.maximum(counts, 1), x.dtype)
    return b.div(total, counts) if x.dtype.startswith(("f", "bf")) else floor_divide(b, total, counts)


def _neutral(dtype, reduce):
    return neutral(_REDUCE[reduce], dtype)


# Writing slices.


def select_scatter(b, x, source, dim, index, in_place=False):
    axis = axis_of(x, dim)
    if isinstance(index, Number):
        return _write_by_data(b, x, source, axis, index)
    where = x.shape[axis] + index if is_int(index) and index < 0 else index
    write = _update if in_place else _write
    return write(b, x, b.unsqueeze(source, axis), axis, where, where + 1)


def slice_scatter(b, x, source, dim=0, start=None, end=None, step=1, in_place=False):
    axis = axis_of(x, dim)
    if isinstance(start, Number) and step == 1:
        low = b.bind(bound_by_data(b, x.shape[axis], start))
        return _write(b, x, source, axis, low, low + source.shape[axis])
    if isinstance(end, Number) and step == 1:
        end = None
    low, high = bounds(b, x.shape[axis], start, end)
    if step == 1 and in_place:
        return _update(b, x, source, axis, low, low + source.shape[axis])
    if step == 1:
        return _write(b, x, source, axis, low, low + source.shape[axis])
    return _write_strided(b, x, source, axis, low, greatest(low, high), step)


def _update(b, x, source, axis, start, limit):
    """Replaces a part of x, as one op that the compiler may do in place."""
    if same(start, 0) and same(limit, x.shape[axis]):
        return b.convert(source, x.dtype)
    b.require(limit, "<=", x.shape[axis])
    zero = b.lift(0, "i64")
    starts = [b.lift(start, "i64") if i == axis else zero for i in range(len(x.shape))]
    return b.op("dynamic_update_slice", x, b.convert(source, x.dtype), *starts)


def _write_by_data(b, x, source, axis, index):
    """Writes to the place along an axis that a number out of a tensor names."""
    size = x.shape[axis]
    place = place_by_data(b, size, index)
    is_there = b.map(
        "and", b.compare("GE", place, b.lift(0, "i64")), b.compare("LT", place, b.lift(size, "i64"))
    )
    b.require_true(is_there, "an index is out of range")
    row = [1] * axis + [size] + [1] * (len(x.shape) - 1 - axis)
    hit = b.reshape(b.compare("EQ", b.iota([size], 0, "i64"), place), row)
    return b.select(hit, b.convert(b.unsqueeze(source, axis), x.dtype), x)


def _write(b, x, source, axis, start, limit):
    parts = [b.slice(x, axis, 0, start)] if not same(start, 0) else []
    parts.append(b.convert(source, x.dtype))
    if not same(limit, x.shape[axis]):
        parts.append(b.slice(x, axis, limit, x.shape[axis]))
    return b.concatenate(parts, axis)


def _write_strided(b, x, source, axis, start, limit, step):
    place = b.sub(b.iota([x.shape[axis]], 0, "i64"), b.lift(start, "i64"))
    inside = b.map(
        "and",
        b.compare("GE", place, b.lift(0, "i64")),
        b.compare("LT", place, b.sub(b.lift(limit, "i64"), b.lift(start, "i64"))),
    )
    hit = b.map(
        "and", inside, b.compare("EQ", b.map("remainder", place, b.lift(step, "i64")), b.lift(0, "i64"))
    )
    if is_int(source.shape[axis]) and source.shape[axis] == 0:
        return x
    spread = b.take(b.convert(source, x.dtype), axis, b.div(place, step), bounds="clamp")
    return b.select(b.broadcast(hit, x.shape, [axis]), spread, x)


def masked_scatter(b, x, mask, source):
    """The n-th true element of the mask takes the n-th element of the source."""
    x, mask = b.together(x, mask)
    flat = b.reshape(mask, [product(mask.shape)])
    order = b.sub(b.cumulative(b.convert(flat, "i64"), 0, "add"), 1)
    count = product(source.shape)
    marked = b.sum(b.convert(flat, "i64"), [0])
    enough = b.compare("LE", marked, b.lift(count, "i64"))
    b.require_true(enough, "masked_scatter: expected as many elements of source as ones in mask")
    source = b.reshape(source, [count])
    if not is_int(count) or count == 0:
        # If nothing is marked, there may be nothing to take.
        source = b.pad(source, b.lift(0, source.dtype), [0], [greatest(1 - count, 0)])
    picked = b.take(source, 0, b.select(flat, order, b.lift(0, "i64")), bounds="clamp")
    return b.select(mask, b.reshape(picked, x.shape), x)


def one_hot(b, x, num_classes=-1):
    if num_classes < 0:
        raise b.unsupported("one_hot without num_classes has a size that depends on data")
    whole = list(range(len(x.shape)))
    for holds, bound, message in (
        ("GE", 0, "Class values must be non-negative."),
        ("LT", num_classes, "Class values must be smaller than num_classes."),
    ):
        inside = b.compare(holds, x, b.lift(bound, x.dtype))
        b.require_true(b.reduce(inside, whole, "and"), message)
    classes = b.iota([num_classes], 0, "i64")
    return b.convert(b.compare("EQ", b.unsqueeze(x, -1), classes), "i64")


# Places in sorted elements, by halving.


def _first_place(b, count, element, is_before, shape):
    """For each position of ``shape`` how many of ``count`` sorted elements are before
    what is searched there.
    """
    place = b.full(0, shape, "i64")
    if is_int(count):
        while count > 0:
            half = (count + 1) // 2
            place, count = _step(b, place, half, element, is_before), count - half
        return place
    arguments = [(shape, "i64"), ([], "i64")]

    def halve(place, left):
        half = b.div(b.add(left, 1), 2)
        return [_step(b, place, half, element, is_before), b.sub(left, half)]

    regions = [(arguments, lambda _, left: [b.compare("GT", left, b.lift(0, "i64"))]), (arguments, halve)]
    return b.builder.op("while", [place, b.lift(count, "i64")], regions=regions)[0]


def _step(b, place, half, element, is_before):
    """Passes ``half`` elements where the last of them is before what is searched."""
    further = b.add(place, half)
    return b.select(is_before(element(b.sub(further, 1))), further, place)


def _searched(b, edges, x, right, element):
    is_nan = b.is_nan(x)
    before = "LE" if right else "LT"
    found = _first_place(
        b,
        edges.shape[-1],
        element,
        lambda edge: b.map("or", b.compare(before, edge, x), is_nan),
        x.shape,
    )
    return b.convert(found, b.dtype)


def bucketize(b, x, boundaries, *, out_int32=False, right=False):
    edges = b.convert(boundaries, b.promoted_type(x, boundaries))
    return _searched(b, edges, b.convert(x, edges.dtype), right, lambda at: b.take(edges, 0, at, "clamp"))


def searchsorted(b, edges, x, *, out_int32=False, right=False, side=None, sorter=None):
    if sorter is not None:
        edges = elements_along(b, edges, len(edges.shape) - 1, sorter)
    right = right or side == "right"
    if len(edges.shape) == 1:
        return _searched(b, edges, x, right, lambda at: b.take(edges, 0, at, "clamp"))
    for size, other in zip(edges.shape[:-1], x.shape[:-1], strict=True):
        b.require(size, "==", other)
    last = len(edges.shape) - 1
    return _searched(b, edges, x, right, lambda at: elements_along(b, edges, last, at))


# Bags of rows.


def histc(b, x, bins=100, min=0, max=0):
    """Counts the elements of each of the bins between ``min`` and ``max`` has;
    ``max`` itself belongs to the last one.
    """
    if not (math.isfinite(min) and math.isfinite(max)):
        raise b.unsupported(f"histc over a range that is not finite ({min} to {max})")
    flat = b.reshape(x, [product(x.shape)])
    dtype = flat.dtype if flat.dtype in ("f32", "f64") else "f64"
    flat = b.convert(flat, dtype)
    low, high = (b.lift(float(bound), dtype) for bound in (min, max))
    if min == max:
        low, high = _range_of(b, flat, low)
    place = b.op("floor", b.div(b.mul(b.sub(flat, low), bins), b.sub(high, low)))
    inside = b.op("and", b.compare("GE", flat, low), b.compare("LE", flat, high))
    # Values outside of the range are left out, and so is NaN.
    place = b.select(inside, b.minimum(place, bins - 1), b.lift(bins, dtype))
    return added_rows(
        b, b.full(0, [bins], b.dtype), b.convert(place, "i64"), b.full(1, flat.shape, b.dtype), "add"
    )


def _range_of(b, flat, given):
    """The range of the data, or one around it where all elements are equal; of no data,
    around what was given.
    """
    low, high = (b.reduce(flat, [0], how) for how in ("minimum", "maximum"))
    finite = b.op("and", b.op("is_finite", low), b.op("is_finite", high))
    nothing = b.compare("EQ", b.lift(flat.shape[0], "i64"), b.lift(0, "i64"))
    b.require_true(b.op("or", finite, nothing), "histc: the range of the data is not finite")
    low, high = (b.select(nothing, given, bound) for bound in (low, high))
    equal = b.compare("EQ", low, high)
    return b.select(equal, b.sub(low, 1), low), b.select(equal, b.add(high, 1), high)


def added_rows(b, x, index, rows, how):
    """``x`` with the rows combined into those that ``index`` names;
    a row beyond the last one is left out.
    """
    return b.scatter(
        x,
        b.unsqueeze(index, 1),
        rows,
        window_dims=list(range(1, len(rows.shape))),
        inserted=[0],
        index_map=[0],
        vector_dim=1,
        how=how,
        bounds="skip",
    )


TABLE = {
    "aten.histc.default": histc,
    "aten.embedding.default": embedding,
    "aten.index_select.default": index_select,
    "aten.take.default": take_flat,
    "aten.take_along_dim.default": take_along_dim,
    "aten.gather.default": gather,
    "aten.index.Tensor": index,
    "aten._unsafe_index.Tensor": index,
    "aten.index_put.default": index_put,
    "aten._unsafe_index_put.default": index_put,
    "aten.index_fill.int_Scalar": index_fill,
    "aten.index_fill.int_Tensor": index_fill,
    "aten.index_add.default": index_add,
    "aten.index_copy.default": index_copy,
    "aten.scatter.value": scatter,
    "aten.scatter.src": scatter,
    "aten.scatter.value_reduce": scatter_reduced,
    "aten.scatter.reduce": scatter_reduced,
    "aten.scatter_add.default": lambda b, x, dim, index, source: scatter(b, x, dim, index, source, "add"),
    "aten.scatter_reduce.two": scatter_reduce,
    "aten.select_scatter.default": select_scatter,
    "aten.slice_scatter.default": slice_scatter,
    "aten.masked_scatter.default": masked_scatter,
    "aten.one_hot.default": one_hot,
    "aten.bucketize.Tensor": bucketize,
    "aten.searchsorted.Tensor": searchsorted,
}
