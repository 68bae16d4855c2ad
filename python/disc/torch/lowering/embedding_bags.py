"""Bags of embeddings: look-ups whose rows are added up, bag by bag."""

from __future__ import annotations

from ...lowering.dtypes import neutral
from ...lowering.sizes import same
from .indexing import added_rows


def embedding_bag(
    b,
    weight,
    index,
    offsets,
    scale_grad_by_freq=False,
    mode=0,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """The sum (mode 0), mean (1) or greatest (2) of the rows of each bag, and of the greatest the
    row that each element is of: its gradient goes there.

    The other results serve training and are not computed: steps of ours compute them again.
    """
    if isinstance(padding_idx, int) and padding_idx < 0:
        padding_idx = None
    index = b.convert(index, "i64")
    _check_offsets(b, index, offsets)
    bag = _bag_of(b, index, offsets, include_last_offset)
    if padding_idx is not None:
        bag = b.select(b.compare("EQ", index, b.lift(padding_idx, "i64")), b.lift(-1, "i64"), bag)
    result = _bags(b, weight, index, bag, b.shape[0], mode, per_sample_weights)
    if mode != 2:
        return [result, None, None, None]
    rows = b.convert(_greatest_rows(b, weight, index, bag, result), offsets.dtype)
    return [result, None, None, rows]


def padded_embedding_bag(b, weight, index, offsets, scale, mode, sparse, scales, include_last, padding_idx):
    """:func:`embedding_bag`, where a negative ``padding_idx`` counts from the last row."""
    if padding_idx is not None and padding_idx < 0:
        padding_idx = padding_idx + weight.shape[0]
    return embedding_bag(b, weight, index, offsets, scale, mode, sparse, scales, include_last, padding_idx)


def _check_offsets(b, index, offsets):
    """Requires what torch requires, and that no bag begins before the one before it does."""
    offsets = b.convert(offsets, "i64")
    (count,) = offsets.shape
    if same(count, 0):
        return
    place = b.iota([count], 0, "i64")
    before = b.take(offsets, 0, b.sub(place, 1), bounds="clamp")
    is_first = b.compare("EQ", place, b.lift(0, "i64"))
    before = b.select(is_first, b.lift(0, "i64"), before)
    begins = b.map("or", b.compare("NE", place, b.lift(0, "i64")), b.compare("EQ", offsets, b.lift(0, "i64")))
    for holds, message in (
        (begins, "offsets[0] has to be 0"),
        (b.compare("GE", offsets, before), "offsets must not fall"),
        (
            b.compare("LE", offsets, b.lift(index.shape[0], "i64")),
            "offsets can not be greater than input's length",
        ),
    ):
        b.require_true(b.reduce(holds, [0], "and"), message)


def _bag_of(b, index, offsets, include_last_offset):
    """The bag of each look-up: how many begin up to there."""
    offsets = b.convert(offsets, "i64")
    if include_last_offset:
        offsets = b.slice(offsets, 0, 0, offsets.shape[0] - 1)
    marks = added_rows(b, b.full(0, index.shape, "i64"), offsets, b.full(1, offsets.shape, "i64"), "add")
    return b.sub(b.cumulative(marks, 0, "add"), 1)


def _bags(b, weight, index, bag, count, mode, scales):
    rows = b.wide(b.take(weight, 0, index))
    if scales is not None:
        rows = b.mul(rows, b.unsqueeze(b.convert(scales, rows.dtype), 1))
    shape, how = [count, weight.shape[1]], "maximum" if mode == 2 else "add"
    total = added_rows(b, b.full(neutral(how, rows.dtype), shape, rows.dtype), bag, rows, how)
    if mode:
        held = added_rows(b, b.full(0, [count], rows.dtype), bag, b.full(1, bag.shape, rows.dtype), "add")
        held = b.broadcast(b.maximum(held, 1) if mode == 1 else held, shape, [0])
        nothing = b.full(0, shape, rows.dtype)
        total = b.div(total, held) if mode == 1 else b.select(b.compare("GT", held, nothing), total, nothing)
    return b.convert(total, weight.dtype)


def _greatest_rows(b, weight, index, bag, greatest):
    """The row of the first look-up that has the greatest element of its bag; 0 for an empty bag."""
    shape, count = greatest.shape, index.shape[0]
    each = [count, shape[1]]
    look_up = b.broadcast(b.iota([count], 0, "i64"), each, [0])
    none = b.broadcast(b.lift(count, "i64"), each, [])
    is_greatest = b.compare("EQ", b.take(weight, 0, index), b.take(greatest, 0, bag, bounds="clamp"))
    candidates = b.select(is_greatest, look_up, none)
    first = added_rows(b, b.broadcast(b.lift(count, "i64"), shape, []), bag, candidates, "minimum")
    is_first = b.compare("EQ", look_up, b.take(first, 0, bag, bounds="clamp"))
    row = b.select(is_first, b.broadcast(index, each, [0]), b.full(0, each, "i64"))
    return added_rows(b, b.full(0, shape, "i64"), bag, row, "add")


TABLE = {
    "aten.embedding_bag.default": embedding_bag,
    "aten.embedding_bag.padding_idx": padded_embedding_bag,
    "aten._embedding_bag.default": embedding_bag,
    "aten._embedding_bag_forward_only.default": embedding_bag,
}
