"""Ops of torch whose result has a size that only the data says:
it is counted, and bound as a dim.
"""

from __future__ import annotations

from ...lowering.sizes import product, same
from .data_movement import axis_of
from .indexing import scatter_slices


def _mask(b, x):
    return b.convert(x, "i1")


def nonzero(b, x):
    places = b.places(_mask(b, x), b.out.shape[0])
    if not x.shape:
        return b.full(0, [places.shape[0], 0], "i64")
    return b.concatenate([b.unsqueeze(p, 1) for p in b.coordinates(places, x.shape)], 1)


def nonzero_tuple(b, x):
    """torch.where(condition): one vector per axis, and one for a scalar."""
    places = b.places(_mask(b, x), b.out.shape[0])
    return b.coordinates(places, x.shape or [1])


def masked_select(b, x, mask):
    x, mask = b.together(x, mask)
    places = b.places(mask, b.out.shape[0])
    return b.take(b.reshape(x, [product(x.shape)]), 0, places)


# unique: sorted elements, of which each is kept that differs from the one before.


def unique2(b, x, is_sorted=True, return_inverse=False, return_counts=False):
    n = product(x.shape)
    flat = b.reshape(x, [n])
    ordered, order = b.compose("sort_places", flat, axis=0, descending=False)
    kept, inverse, counts = _runs(b, ordered, return_inverse, return_counts)
    if return_inverse:
        inverse = scatter_slices(b, b.full(0, [n], "i64"), 0, order, inverse, "overwrite")
        inverse = b.reshape(inverse, x.shape)
    return [kept, inverse, counts]


def unique_consecutive(b, x, return_inverse=False, return_counts=False, dim=None):
    if dim is not None:
        raise b.unsupported("unique along a dimension is not supported")
    kept, inverse, counts = _runs(b, b.reshape(x, [product(x.shape)]), return_inverse, return_counts)
    return [kept, b.reshape(inverse, x.shape) if return_inverse else inverse, counts]


def _runs(b, x, return_inverse, return_counts):
    """The first element of each run of equal ones, the run of each element, and lengths;
    what is not wanted is empty.
    """
    (n,) = x.shape
    place = b.iota([n], 0, "i64")
    before = b.take(x, 0, b.sub(place, 1), bounds="clamp")
    begins = b.map("or", b.compare("EQ", place, b.lift(0, "i64")), b.compare("NE", x, before))
    starts = b.places(begins, b.out.shape[0])
    empty = b.full(0, [0], "i64")
    inverse = b.sub(b.cumulative(b.convert(begins, "i64"), 0, "add"), 1) if return_inverse else empty
    if not return_counts:
        return b.take(x, 0, starts), inverse, empty
    following = b.add(b.iota(starts.shape, 0, "i64"), 1)
    has_next = b.compare("LT", following, b.lift(starts.shape[0], "i64"))
    ends = b.select(has_next, b.take(starts, 0, following, bounds="clamp"), b.lift(n, "i64"))
    return b.take(x, 0, starts), inverse, b.sub(ends, starts)


# Counts that say how often something is there.


def repeated(b, repeats, output_size=None):
    """repeat_interleave of counts: place ``i``, ``repeats[i]`` times."""
    return _repeat(b, b.convert(repeats, "i64"), b.out.shape[0])


def _repeat(b, repeats, wanted):
    ends = b.cumulative(repeats, 0, "add")
    size = b.bind(b.sum(repeats, [0]), wanted)
    # Every place marks where its run begins; the marks up to an element say which run it is in.
    marks, starts = b.full(0, [size], "i64"), b.sub(ends, repeats)
    ones = b.full(1, repeats.shape, "i64")
    marks = scatter_slices(b, marks, 0, starts, ones, "add", out_of_range="skip")
    return b.sub(b.cumulative(marks, 0, "add"), 1)


def repeat_interleave(b, x, repeats, dim=None, output_size=None):
    if dim is None:
        x, dim = b.reshape(x, [product(x.shape)]), 0
    axis = axis_of(x, dim)
    counts = b.convert(repeats, "i64")
    counts = b.reshape(counts, [1]) if not counts.shape else counts
    if same(counts.shape[0], 1) and not same(x.shape[axis], 1):
        counts = b.expand(counts, [x.shape[axis]])
    b.require(counts.shape[0], "==", x.shape[axis])
    return b.take(x, axis, _repeat(b, counts, b.out.shape[axis]))


def bincount(b, x, weights=None, minlength=0):
    """As many counts as the greatest element says."""
    (n,) = x.shape
    if weights is not None:
        b.require(weights.shape[0], "==", n)
    x = b.convert(x, "i64")
    size = b.maximum(
        b.add(b.maximum(b.reduce(x, [0], "maximum"), b.lift(-1, "i64")), 1), b.lift(minlength, "i64")
    )
    shape = [b.bind(size, b.out.shape[0])]
    ones = b.full(1, [n], "i64") if weights is None else b.convert(weights, b.dtype)
    return scatter_slices(b, b.full(0, shape, b.dtype), 0, x, ones, "add")


TABLE = {
    "aten.nonzero.default": nonzero,
    "aten.argwhere.default": nonzero,
    "aten.nonzero_numpy.default": nonzero_tuple,
    "aten.where.default": nonzero_tuple,
    "aten.masked_select.default": masked_select,
    "aten._unique2.default": unique2,
    "aten.unique_consecutive.default": unique_consecutive,
    "aten.repeat_interleave.Tensor": repeated,
    "aten.repeat_interleave.self_Tensor": repeat_interleave,
    "aten.bincount.default": bincount,
}
