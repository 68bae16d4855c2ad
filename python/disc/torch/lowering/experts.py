"""Products by groups of rows, as mixtures of experts use them: the rows are sorted by expert,
and the offsets are data.
"""

from __future__ import annotations

#: Up to so many experts have a product of their own; more take turns in a loop, which copies the
#: weights of each.
_UNROLLED = 16


def grouped_mm(b, x, weight, offs=None, bias=None, out_dtype=None):
    """Rows ``offs[e - 1]`` to ``offs[e]`` of ``x`` times ``weight[e]``; rows that belong to no
    group give zeros. Of two matrices, the columns of ``x`` times these rows of ``weight``, for each
    e.
    """
    if offs is None or len(x.shape) != 2 or len(weight.shape) not in (2, 3):
        raise b.unsupported("only groups of rows are supported: x of rank 2, and offsets")
    if len(weight.shape) == 2:
        return _products_of_rows(b, x, weight, offs, 1)
    return _rows_by_weights(b, x, weight, offs, 0)


def grouped_mm_backward(b, x, weight, offs, grad):
    """The gradients by the rows and by the weights."""
    return [_rows_by_weights(b, grad, weight, offs, 1), _products_of_rows(b, x, grad, offs, 0)]


def _rows_by_weights(b, x, weight, offs, contracted):
    """Each group of rows times its matrix, of which axis ``contracted`` is added up."""
    experts, depth, width = weight.shape[0], weight.shape[1 + contracted], weight.shape[2 - contracted]
    b.require(x.shape[1], "==", depth)

    def product(e, start, rows, out):
        zero = b.lift(0, "i64")
        part = b.op("dynamic_slice", x, start, zero, sizes=[rows, depth])
        part = b.dot(part, _at(b, weight, e), contracting=([1], [contracted]))
        return b.op("dynamic_update_slice", out, part, start, zero)

    return _by_groups(b, experts, offs, x.shape[0], b.full(0, [x.shape[0], width], x.dtype), product)


def _products_of_rows(b, x, y, offs, axis):
    """For each group, its rows of ``y`` by these of ``x``, which are along ``axis``:
    [experts, width of x, width of y].
    """
    experts, depth, width = offs.shape[0], x.shape[1 - axis], y.shape[1]
    b.require(x.shape[axis], "==", y.shape[0])

    def product(e, start, rows, out):
        zero = b.lift(0, "i64")
        starts, sizes = ([start, zero], [rows, depth]) if axis == 0 else ([zero, start], [depth, rows])
        ours = b.op("dynamic_slice", x, *starts, sizes=sizes)
        theirs = b.op("dynamic_slice", y, start, zero, sizes=[rows, width])
        part = b.unsqueeze(b.dot(ours, theirs, contracting=([axis], [0])), 0)
        place = b.lift(e, "i64") if isinstance(e, int) else e
        return b.op("dynamic_update_slice", out, part, place, zero, zero)

    return _by_groups(b, experts, offs, y.shape[0], b.full(0, [experts, depth, width], x.dtype), product)


def _by_groups(b, experts, offs, count, out, update):
    """``out`` after ``update`` with each group: its number, its first row and how many it has."""
    offs, zero = b.convert(offs, "i64"), b.lift(0, "i64")

    def step(e, start, out):
        end = _at(b, offs, e)
        rows = b.bind(b.maximum(b.sub(end, start), zero))
        b.require(rows, "<=", count)
        return [end, update(e, start, rows, out)]

    if not isinstance(experts, int) or experts > _UNROLLED:
        return b.loop(experts, [zero, out], step)[1]
    start = zero
    for e in range(experts):
        start, out = step(e, start, out)
    return out


def _at(b, x, e):
    """Element ``e`` along the first axis."""
    if isinstance(e, int):
        return b.squeeze(b.slice(x, 0, e, e + 1), 0)
    starts = [e, *[b.lift(0, "i64")] * (len(x.shape) - 1)]
    return b.squeeze(b.op("dynamic_slice", x, *starts, sizes=[1, *x.shape[1:]]), 0)


TABLE = {
    "aten._grouped_mm.default": grouped_mm,
    #: The fallback of transformers for types and versions that torch has no kernel for.
    "transformers.grouped_mm_fallback.default": grouped_mm,
    "transformers.grouped_mm_fallback_backward.default": grouped_mm_backward,
}
