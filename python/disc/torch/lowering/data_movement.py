"""Ops of torch that rearrange elements: views, joins, repetition, padding.

All results are new values; what shares memory in torch is the matter of ``torch_alias``.
"""

from __future__ import annotations

from ...core.errors import Error
from ...lowering import dtypes
from ...lowering.emitter import Number
from ...lowering.sizes import greatest, is_int, least, product, same
from ..symbolic.expressions import expression
from .bitcast import reinterpreted

END = 2**63 - 1


def axis_of(x, dim: int) -> int:
    """An axis that counts from the front;
    torch does not look at all of them while a model is captured.
    """
    rank = max(len(x.shape), 1)
    if not -rank <= dim < rank:
        raise Error(f"dim {dim} is out of range of a tensor of rank {rank}", code="E0404")
    return dim % rank


def as_stated(b, x, *args, **kwargs):
    """The framework worked the result's shape out (views and their kin)."""
    return b.reshape(x, b.shape)


def bounds(b, size, start, end):
    """Python's slice bounds on an axis of ``size``:
    negative ones count from the end, all are clipped.
    """
    return _bound(b, size, start, 0), _bound(b, size, end, size)


def _bound(b, size, where, default):
    if where is None:
        return default
    if is_int(where):
        if where >= END:
            return size
        if where < 0:
            return greatest(size + where, 0) if where > -END else 0
        return least(where, size) if where else 0
    if b.builder.less_equal(where, 0):
        if b.builder.less_equal(0, where):
            return 0
        # ``x[-n:]``: for n = 0 this is all of x, which is empty where n is the size.
        if not b.equal(size + where, 0):
            b.require(where, "<=", -1)
        return greatest(size + where, 0)
    where = _from_end(b, size, where)
    return least(where if b.builder.less_equal(0, where) else greatest(where, 0), size)


def _from_end(b, size, where):
    """A place that counts from the end where it is negative, as ``size - 3`` is below 3."""
    if b.builder.less_equal(0, where):
        return where
    # -1 of 1 and -2 of 1 and 0 are 0 or outside: cutting off says the same in fewer words.
    if any(b.equal(where + behind, size) for behind in (1, 2)):
        return greatest(where, 0)
    return where + size * least(greatest(0 - where, 0), 1)


def slice_(b, x, dim=0, start=None, end=None, step=1):
    axis = axis_of(x, dim)
    size = x.shape[axis]
    if isinstance(start, Number) or isinstance(end, Number):
        return _slice_by_data(b, x, axis, start, end, step)
    low, high = bounds(b, size, start, end)
    if not _ordered(low, high, start, end, size):
        high = greatest(low, high)
    wanted = b.out.shape[axis]
    if b.is_unbound(wanted):
        # The place where it ends was a number of the data until it was found to be a size.
        result = b.slice(x, axis, low, high, step)
        b.expressions.bind(expression(wanted), result.shape[axis])
        return result
    if step == 1 and b.equal(high - low, b.shape[axis]):
        high = low + b.shape[axis]
    result = b.slice(x, axis, low, high, step)
    # If this cannot be proved, torch has simplified the length as if no size were 0.
    b.expressions.equate(b.out.shape[axis], result.shape[axis])
    return result


def _slice_by_data(b, x, axis, start, end, step):
    """``x[start:end]`` where the data says where: bounds count from the end where negative,
    and end at the ends.
    """
    if step != 1:
        raise b.unsupported("a slice with a step whose bounds depend on data is not supported")
    zero = b.lift(0, "i64")
    low = zero if start is None else bound_by_data(b, x.shape[axis], start)
    high = b.lift(x.shape[axis], "i64") if end is None else bound_by_data(b, x.shape[axis], end)
    length = b.bind(b.maximum(b.sub(high, low), zero), b.out.shape[axis])
    if start is None or same(start, 0):
        return b.slice(x, axis, 0, length)
    return b.take(x, axis, b.add(b.iota([length], 0, "i64"), low))


def place_by_data(b, size, index):
    """A place that counts from the end where it is negative."""
    place = b.lift(index, "i64")
    below = b.compare("LT", place, b.lift(0, "i64"))
    return b.select(below, b.add(place, b.lift(size, "i64")), place)


def bound_by_data(b, size, bound):
    """A bound of a slice, which ends at the ends."""
    place = b.maximum(place_by_data(b, size, bound), b.lift(0, "i64"))
    return b.minimum(place, b.lift(size, "i64"))


def _ordered(low, high, start, end, size) -> bool:
    """Returns true if ``low <= high`` holds for every size: then no maximum is needed."""
    if same(low, 0) or same(high, size):
        return True
    return is_int(start) and is_int(end) and start <= end and (start < 0) == (end < 0)


def narrow(b, x, dim, start, length):
    axis = axis_of(x, dim)
    if isinstance(start, Number):
        return b.take(x, axis, b.add(b.iota([length], 0, "i64"), b.lift(start, "i64")))
    if not is_int(start):
        start = _from_end(b, x.shape[axis], start)
    if is_int(start) and start < 0:
        start = x.shape[axis] + start
    return b.slice(x, axis, start, start + length)


def select(b, x, dim, index):
    axis = axis_of(x, dim)
    if isinstance(index, Number):
        return b.take(x, axis, place_by_data(b, x.shape[axis], index))
    where, size = index, x.shape[axis]
    if not is_int(index) and not b.equal(index + 1, size):
        where = _from_end(b, size, index)
    if is_int(index) and index < 0:
        where = size + index
    return b.squeeze(b.slice(x, axis, where, where + 1), axis)


def split_at(b, x, lengths, dim):
    axis = axis_of(x, dim)
    parts, start = [], 0
    for length in lengths:
        parts.append(b.slice(x, axis, start, start + length))
        start = start + length
    return parts


def as_split(b, x, _, dim=0):
    """split and chunk: the lengths are those of the framework's results."""
    axis = axis_of(x, dim)
    return split_at(b, x, [b.shape_of(part)[axis] for part in b.meta], dim)


def unbind(b, x, dim=0):
    axis = axis_of(x, dim)
    return [b.squeeze(b.slice(x, axis, i, i + 1), axis) for i in range(len(b.meta))]


def expand(b, x, sizes, implicit=False):
    return b.expand(x, b.shape)


def permute(b, x, dims):
    return b.transpose(x, [axis_of(x, d) for d in dims])


def transpose(b, x, a, c):
    if not x.shape:
        return x
    dims = list(range(len(x.shape)))
    a, c = axis_of(x, a), axis_of(x, c)
    dims[a], dims[c] = dims[c], dims[a]
    return b.transpose(x, dims)


def movedim(b, x, source, target):
    if not x.shape:
        return x
    source, target = ([d] if is_int(d) else list(d) for d in (source, target))
    order: list = [None] * len(x.shape)
    for s, t in zip(source, target, strict=True):
        order[axis_of(x, t)] = axis_of(x, s)
    rest = iter(i for i in range(len(x.shape)) if i not in order)
    return b.transpose(x, [next(rest) if d is None else d for d in order])


def concatenate(b, xs, dim=0):
    # Legacy: empty tensors of rank 1 are skipped.
    kept = [
        x
        for x in xs
        if not (len(x.shape) == 1 and same(x.shape[0], 0) and any(len(y.shape) != 1 for y in xs))
    ]
    dtype = b.promoted_type(*xs)
    kept = [b.convert(x, dtype) for x in kept]
    return b.concatenate(kept, axis_of(kept[0], dim))


def stack(b, xs, dim=0):
    dtype = b.promoted_type(*xs)
    axis = dim % (len(xs[0].shape) + 1)
    return b.concatenate([b.unsqueeze(b.convert(x, dtype), axis) for x in xs], axis)


def joined(axis: int, least_rank: int):
    """hstack and vstack."""

    def entry(b, xs):
        xs = [b.reshape(x, [1] * (least_rank - len(x.shape)) + list(x.shape)) for x in xs]
        return concatenate(b, xs, 0 if len(xs[0].shape) == 1 else axis)

    return entry


def repeat(b, x, repeats):
    return b.compose("tile", x, repeats=list(repeats))


def tile(b, x, repeats):
    return repeat(b, x, [1] * (len(x.shape) - len(repeats)) + list(repeats))


def repeat_interleave(b, x, repeats, dim=None, output_size=None):
    if dim is None or not x.shape:
        x, dim = b.reshape(x, [product(x.shape)]), 0
    return b.compose("repeat_elements", x, axis=dim, times=repeats)


def flip(b, x, dims):
    return b.reverse(x, sorted(axis_of(x, d) for d in dims)) if x.shape else x


def roll(b, x, shifts, dims=()):
    shifts = [shifts] if is_int(shifts) else list(shifts)
    return b.compose("roll", x, shifts=shifts, axes=[dims] if is_int(dims) else list(dims))


def squeeze_all(b, x):
    return b.reshape(x, b.shape)


def diagonal(b, x, offset=0, dim1=0, dim2=1):
    return b.compose("diagonal", x, offset=offset, axes=[dim1, dim2])


def diagonal_scatter(b, x, source, offset=0, dim1=0, dim2=1):
    return b.compose("set_diagonal", x, source, offset=offset, axes=[dim1, dim2])


def fill_diagonal(b, x, value, wrap=False):
    if len(x.shape) != 2 or wrap:
        raise b.unsupported("only matrices without wrap are supported")
    on_diagonal = b.compare("EQ", b.iota(x.shape, 0, "i64"), b.iota(x.shape, 1, "i64"))
    return b.select(on_diagonal, b.lift(value, x.dtype), x)


def meshgrid(b, xs, indexing="ij"):
    shape = b.shape
    order = [1, 0, *range(2, len(xs))] if indexing == "xy" and len(xs) > 1 else range(len(xs))
    return [
        b.broadcast(b.reshape(x, [s]), shape, [axis])
        for x, s, axis in zip(xs, (shape[a] for a in order), order, strict=True)
    ]


def triangle(part: str):
    return lambda b, x, diagonal=0: b.compose("triangle", x, diagonal, part=part)


# Padding: torch lists amounts from the last axis on, (low, high) each.


def pad_amounts(x, pads):
    rank = len(x.shape)
    low, high = [0] * rank, [0] * rank
    for i in range(len(pads) // 2):
        low[rank - 1 - i], high[rank - 1 - i] = pads[2 * i], pads[2 * i + 1]
    return low, high


def constant_pad(b, x, pads, value=0):
    pads = [b.bind(pad.value) if isinstance(pad, Number) else pad for pad in pads]
    low, high = pad_amounts(x, pads)
    return b.pad(x, b.lift(value, x.dtype), low, high)


def pad(b, x, pads, mode="constant", value=None):
    if mode == "constant":
        return constant_pad(b, x, pads, value or 0)
    return edge_pad(mode)(b, x, pads)


def edge_pad(edge: str):
    def entry(b, x, pads):
        low, high = pad_amounts(x, pads)
        return b.compose("pad", x, low=low, high=high, edge=edge)

    return entry


def pixel_shuffle(b, x, factor):
    return b.compose("depth_to_space", x, factor=factor, order="feature_first")


def pixel_unshuffle(b, x, factor):
    return b.compose("space_to_depth", x, factor=factor, order="feature_first")


def unfold(b, x, dim, size, step):
    """Tensor.unfold: windows of one axis become a new last axis."""
    if not x.shape:
        return b.slice(b.reshape(x, [1]), 0, 0, size)
    return b.compose("sliding_windows", x, axis=dim, size=size, step=step)


def to(b, x, *args, **kwargs):
    """All forms of conversion: the framework knows the type of the result."""
    if x.dtype not in dtypes.FLOATS or b.dtype in dtypes.FLOATS or b.dtype == "i1":
        return b.convert(x, b.dtype)
    # As x86 converts: NaN and what does not fit is the least integer, and short ones are the low
    # bits of an i32.
    word = "i64" if b.dtype == "i64" else "i32"
    end = 1 << (63 if word == "i64" else 31)
    x = b.wide(x)
    fits = b.compare("LT", x, b.lift(float(end), x.dtype))
    return b.convert(b.select(fits, b.convert(x, word), b.lift(-end, word)), b.dtype)


def same_value(b, x, *args, **kwargs):
    return x


_REARRANGED = (
    "view.default",
    "reshape.default",
    "_unsafe_view.default",
    "flatten.using_ints",
    "unflatten.int",
    "squeeze.default",
    "squeeze.dim",
    "squeeze.dims",
    "unsqueeze.default",
    "view_as.default",
    "reshape_as.default",
    "ravel.default",
    "view_copy.default",
    "squeeze_copy.dims",
    "unsqueeze_copy.default",
    "_reshape_copy.default",
    "atleast_1d.default",
    "atleast_2d.default",
)
_SAME = (
    "clone.default",
    "contiguous.default",
    "detach.default",
    "detach_.default",
    "alias.default",
    "lift_fresh_copy.default",
    "lift_fresh.default",
    "lift.default",
    "resolve_conj.default",
    "resolve_neg.default",
    "requires_grad_.default",
    "alias_copy.default",
    "_conj.default",
    "positive.default",
)
_CONVERTED = (
    "to.dtype",
    "to.dtype_layout",
    "to.device",
    "to.other",
    "_to_copy.default",
    "type_as.default",
    "_cast_Float.default",
    "prims.convert_element_type.default",
)

TABLE = {
    **{f"aten.{name}": as_stated for name in _REARRANGED},
    "aten.view.dtype": reinterpreted,
    **{f"aten.{name}": same_value for name in _SAME},
    **{f"aten.{name}": to for name in _CONVERTED if not name.startswith("prims")},
    "prims.convert_element_type.default": to,
    "aten.slice.Tensor": slice_,
    "aten.slice_copy.Tensor": slice_,
    "aten.narrow.default": narrow,
    "aten.select.int": select,
    "aten.select_copy.int": select,
    "aten.split.Tensor": as_split,
    "aten.split.sizes": as_split,
    "aten.split_with_sizes.default": as_split,
    "aten.split_with_sizes_copy.default": as_split,
    "aten.chunk.default": as_split,
    "aten.tensor_split.sections": as_split,
    "aten.unsafe_split.Tensor": as_split,
    "aten.unsafe_chunk.default": as_split,
    "aten.unbind.int": unbind,
    "aten.expand.default": expand,
    "aten.expand_copy.default": expand,
    "aten.expand_as.default": expand,
    "aten.broadcast_to.default": expand,
    "aten.broadcast_tensors.default": lambda b, xs: b.together(*xs),
    "aten.permute.default": permute,
    "aten.permute_copy.default": permute,
    "aten.transpose.int": transpose,
    "aten.transpose_copy.int": transpose,
    "aten.swapaxes.default": transpose,
    "aten.t.default": lambda b, x: transpose(b, x, 0, 1) if len(x.shape) == 2 else x,
    "aten.t_copy.default": lambda b, x: transpose(b, x, 0, 1) if len(x.shape) == 2 else x,
    "aten.numpy_T.default": lambda b, x: b.transpose(x, range(len(x.shape))[::-1]),
    "aten.mT.default": lambda b, x: transpose(b, x, -2, -1),
    "aten.movedim.int": movedim,
    "aten.movedim.intlist": movedim,
    "aten.cat.default": concatenate,
    "aten.concat.default": concatenate,
    "aten.concatenate.default": concatenate,
    "aten.stack.default": stack,
    "aten.hstack.default": joined(1, 1),
    "aten.vstack.default": joined(0, 2),
    "aten.repeat.default": repeat,
    "aten.tile.default": tile,
    "aten.repeat_interleave.self_int": repeat_interleave,
    "aten.flip.default": flip,
    "aten.fliplr.default": lambda b, x: flip(b, x, [1]),
    "aten.flipud.default": lambda b, x: flip(b, x, [0]),
    "aten.roll.default": roll,
    "aten.meshgrid.default": meshgrid,
    "aten.meshgrid.indexing": lambda b, xs, *, indexing: meshgrid(b, xs, indexing),
    "aten.diagonal.default": diagonal,
    "aten.diagonal_copy.default": diagonal,
    "aten.diagonal_scatter.default": diagonal_scatter,
    "aten.fill_diagonal_.default": fill_diagonal,
    "aten.tril.default": triangle("lower"),
    "aten.triu.default": triangle("upper"),
    "aten.constant_pad_nd.default": constant_pad,
    "aten.pad.default": pad,
    "aten.reflection_pad1d.default": edge_pad("reflect"),
    "aten.reflection_pad2d.default": edge_pad("reflect"),
    "aten.reflection_pad3d.default": edge_pad("reflect"),
    "aten.replication_pad1d.default": edge_pad("replicate"),
    "aten.replication_pad2d.default": edge_pad("replicate"),
    "aten.replication_pad3d.default": edge_pad("replicate"),
    "aten.pixel_shuffle.default": pixel_shuffle,
    "aten.pixel_unshuffle.default": pixel_unshuffle,
    "aten.unfold.default": unfold,
    "aten.unfold_copy.default": unfold,
}
