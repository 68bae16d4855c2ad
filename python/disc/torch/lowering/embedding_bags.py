"""Bags of embeddings: look-ups whose rows are added up, bag by bag."""

from __future__ import annotations

_MODES = ("sum", "mean", "maximum")


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
    form = {"mode": _MODES[mode], "count": b.shape[0], "padding": padding_idx, "has_end": include_last_offset}
    found = b.compose("embedding_bag", weight, index, offsets, per_sample_weights, **form)
    return [found[0], None, None, found[1]] if mode == 2 else [found, None, None, None]


def padded_embedding_bag(b, weight, index, offsets, scale, mode, sparse, scales, include_last, padding_idx):
    """:func:`embedding_bag`, where a negative ``padding_idx`` counts from the last row."""
    if padding_idx is not None and padding_idx < 0:
        padding_idx = padding_idx + weight.shape[0]
    return embedding_bag(b, weight, index, offsets, scale, mode, sparse, scales, include_last, padding_idx)


TABLE = {
    "aten.embedding_bag.default": embedding_bag,
    "aten.embedding_bag.padding_idx": padded_embedding_bag,
    "aten._embedding_bag.default": embedding_bag,
    "aten._embedding_bag_forward_only.default": embedding_bag,
}
