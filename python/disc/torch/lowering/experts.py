"""Products by groups of rows, as mixtures of experts use them: the rows are sorted by expert,
and the offsets are data.
"""

from __future__ import annotations

#: Up to so many experts have a product of their own; more take turns in a loop, which copies the
#: weights of each.
_UNROLLED = 16


def grouped_mm(b, x, weight, offs=None, bias=None, out_dtype=None):
    """Rows ``offs[e - 1]`` to ``offs[e]`` of ``x`` times ``weight[e]``;
    rows that belong to no group give zeros.
    """
    if len(x.shape) != 2 or len(weight.shape) != 3 or offs is None:
        raise b.unsupported("only groups of rows are supported: x of rank 2, weights of rank 3, and offsets")
    experts, depth, width = weight.shape
    b.require(x.shape[1], "==", depth)
    offs, zero = b.convert(offs, "i64"), b.lift(0, "i64")

    def product(start, end, matrix, out):
        rows = b.bind(b.maximum(b.sub(end, start), zero))
        b.require(rows, "<=", x.shape[0])
        part = b.op("dynamic_slice", x, start, zero, sizes=[rows, depth])
        part = b.dot(part, matrix, contracting=([1], [0]))
        return b.op("dynamic_update_slice", out, part, start, zero)

    def at(places, e):
        return b.squeeze(b.op("dynamic_slice", places, e, sizes=[1]), 0)

    def step(e, start, out):
        matrix = b.squeeze(b.op("dynamic_slice", weight, e, zero, zero, sizes=[1, depth, width]), 0)
        end = at(offs, e)
        return [end, product(start, end, matrix, out)]

    out = b.full(0, [x.shape[0], width], x.dtype)
    if not isinstance(experts, int) or experts > _UNROLLED:
        return b.loop(experts, [zero, out], step)[1]
    start = zero
    for e in range(experts):
        end = b.squeeze(b.slice(offs, 0, e, e + 1), 0)
        out = product(start, end, b.squeeze(b.slice(weight, 0, e, e + 1), 0), out)
        start = end
    return out


TABLE = {
    "aten._grouped_mm.default": grouped_mm,
    #: The fallback of transformers for types and versions that torch has no kernel for.
    "transformers.grouped_mm_fallback.default": grouped_mm,
}
