"""Indexing of torch: reading and writing at computed places.

An index out of range fails the call, as in torch.
"""

from __future__ import annotations

import math

from ...lowering.emitter import Number
from ...lowering.sizes import greatest, is_int, product, same
from .data_movement import axis_of, bound_by_data, bounds, place_by_data


def embedding(b, weight, index, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return b.take(weight, 0, b.convert(index, "i64"))


def index_select(b, x, dim, index):
    if not x.shape:
        return x
    axis = axis_of(x, dim)
    index = b.reshape(index, [1]) if not index.shape else index
    return b.take(x, axis, b.convert(index, "i64"))


def take_flat(b, x, index):
    return b.compose("take", b.reshape(x, [product(x.shape)]), index, axis=0)


def gather(b, x, dim, index, sparse_grad=False, from_end=False):
    if not x.shape:
        return b.reshape(b.expand(b.reshape(x, []), b.shape), b.shape)
    index = b.reshape(index, [1]) if not index.shape else index
    return b.reshape(b.compose("gather_elements", x, index, axis=dim, from_end=from_end), b.shape)


def take_along_dim(b, x, index, dim=None):
    if dim is None:
        return gather(b, b.reshape(x, [product(x.shape)]), 0, b.reshape(index, [product(index.shape)]))
    axis = axis_of(x, dim)
    rank = len(x.shape)
    shape = [x.shape[i] if same(index.shape[i], 1) else index.shape[i] for i in range(rank)]
    index = b.expand(index, [index.shape[i] if i == axis else shape[i] for i in range(rank)])
    x = b.expand(x, [x.shape[i] if i == axis else shape[i] for i in range(rank)])
    return gather(b, x, dim, index, from_end=True)


# Advanced indexing.


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


def _given(b, x, indices, reads: bool) -> tuple[list, list[int]]:
    """The index tensors of ``x[...]``, and the axes that they address."""
    given = [(i, index) for i, index in enumerate(unmasked(b, x, indices, reads)) if index is not None]
    return [index for _, index in given], [i for i, _ in given]


def index(b, x, indices):
    if all(i is None for i in indices):
        return x
    given, axes = _given(b, x, indices, reads=True)
    return b.compose("gather_at", x, *given, axes=axes)


def index_put(b, x, indices, values, accumulate=False):
    given = [i for i in indices if i is not None]
    one = all(same(size, 1) for size in values.shape)
    if len(given) == 1 and given[0].dtype == "i1" and one:
        return _masked_put(b, x, indices, values, accumulate)
    given, axes = _given(b, x, indices, reads=False)
    return b.compose("scatter_at", x, values, *given, axes=axes, how="add" if accumulate else "overwrite")


def _masked_put(b, x, indices, values, accumulate):
    """x[mask] = scalar is a selection."""
    lead = next(i for i, index in enumerate(indices) if index is not None)
    mask = indices[lead]
    mask = b.broadcast(mask, x.shape, list(range(lead, lead + len(mask.shape))))
    value = b.reshape(b.convert(values, x.dtype), [])
    return b.select(mask, b.add(x, value) if accumulate else value, x)


def index_fill(b, x, dim, index, value):
    return _index_write(b, x, dim, index, value, "overwrite", from_end=True)


def index_add(b, x, dim, index, source, *, alpha=1):
    source = b.convert(source if alpha == 1 else b.mul(source, alpha), x.dtype)
    return _index_write(b, x, dim, index, source, "add")


def index_copy(b, x, dim, index, source):
    return _index_write(b, x, dim, index, source, "overwrite")


def _index_write(b, x, dim, index, source, how, from_end=False):
    """Writes slices; unless ``from_end``, torch refuses places that count from the end."""
    if not x.shape:
        x, source = b.reshape(x, [1]), _flat(b, source)
        return b.reshape(_index_write(b, x, 0, index, source, how, from_end), [])
    index = b.reshape(index, [1]) if not index.shape else index
    return scatter_slices(b, x, dim, index, source, how, from_end)


def scatter_slices(b, x, axis, index, source, how, from_end=False, out_of_range="check"):
    form = {"axis": axis, "how": how, "from_end": from_end, "out_of_range": out_of_range}
    return b.compose("scatter_slices", x, index, source, **form)


# scatter: each element of ``index`` writes one element.

_REDUCE = {
    "sum": "add",
    "add": "add",
    "prod": "multiply",
    "multiply": "multiply",
    "amax": "maximum",
    "amin": "minimum",
    "mean": "mean",
}


def scatter(b, x, dim, index, source, how="overwrite", name="scatter_elements", **attrs):
    if not x.shape:
        x, index = (b.reshape(y, [1]) for y in (x, index))
        return b.reshape(scatter(b, x, 0, index, _flat(b, source), how, name, **attrs), [])
    index = b.reshape(index, [1]) if not index.shape else index
    return b.compose(name, x, index, source, axis=dim, how=how, **attrs)


def _flat(b, source):
    return b.reshape(source, [1]) if hasattr(source, "shape") else source


def scatter_reduced(b, x, dim, index, source, *, reduce):
    return scatter(b, x, dim, index, source, _REDUCE[reduce])


def scatter_reduce(b, x, dim, index, source, reduce, *, include_self=True):
    how = _REDUCE[reduce]
    return scatter(b, x, dim, index, source, how, "reduce_elements", include_self=include_self)


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
    return _write(b, x, source, axis, low, greatest(low, high), step)


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


def _write(b, x, source, axis, start, limit, step=1):
    return b.compose("replace_slice", x, source, axis=axis, start=start, limit=limit, step=step)


def masked_scatter(b, x, mask, source):
    return b.compose("masked_scatter", x, mask, source)


def one_hot(b, x, num_classes=-1):
    if num_classes < 0:
        raise b.unsupported("one_hot without num_classes has a size that depends on data")
    return b.compose("one_hot", x, classes=num_classes)


def bucketize(b, x, boundaries, *, out_int32=False, right=False):
    edges = b.convert(boundaries, b.promoted_type(x, boundaries))
    return b.compose("search_sorted", edges, b.convert(x, edges.dtype), right=right, dtype=b.dtype)


def searchsorted(b, edges, x, *, out_int32=False, right=False, side=None, sorter=None):
    if sorter is not None:
        edges = b.compose("gather_elements", edges, sorter, axis=-1, from_end=False)
    return b.compose("search_sorted", edges, x, right=right or side == "right", dtype=b.dtype)


def histc(b, x, bins=100, min=0, max=0):
    if not (math.isfinite(min) and math.isfinite(max)):
        raise b.unsupported(f"histc over a range that is not finite ({min} to {max})")
    return b.compose("histogram", x, bins=bins, low=float(min), high=float(max))


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
