"""Decompositions of the gradients of bags of embeddings.

The bag of each look-up is computed again from the offsets: eager mode's result for it is empty
where its kernel had no use for one.
"""

from __future__ import annotations

import torch

aten = torch.ops.aten
SUM, MEAN, MAX = range(3)


def _backward(
    grad,
    indices,
    offsets,
    offset2bag,
    bag_size,
    maximum_indices,
    num_weights,
    scale_grad_by_freq,
    mode,
    sparse,
    per_sample_weights,
    padding_idx=-1,
):
    """Of the weights [num_weights, features], by ``grad`` [bags, features]."""
    # The kernel of torch 2.13 divides by how often another row is looked up.
    if sparse or scale_grad_by_freq:
        return NotImplemented
    features = grad.shape[1]
    zeros = grad.new_zeros([num_weights, features])
    bag, counted = _bags(indices, offsets, grad.shape[0], padding_idx)
    if mode != SUM:
        held = torch.zeros(grad.shape[0], dtype=torch.int64, device=grad.device)
        held = held.index_add(0, bag, counted.to(torch.int64)).unsqueeze(1)
    if mode == MAX:
        # An empty bag has no greatest row.
        picked = torch.where(held > 0, grad, 0)
        return zeros.scatter_add(0, maximum_indices.to(torch.int64), picked)
    rows = (grad / held.clamp(min=1) if mode == MEAN else grad).index_select(0, bag)
    rows = torch.where(counted.unsqueeze(1), rows, 0)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    return zeros.index_add(0, indices, rows)


def _scales_backward(grad, weight, indices, offsets, offset2bag, mode, padding_idx=-1):
    """Of ``per_sample_weights`` [indices]."""
    bag, counted = _bags(indices, offsets, grad.shape[0], padding_idx)
    of_each = (grad.index_select(0, bag) * weight.index_select(0, indices)).sum(1)
    return torch.where(counted, of_each, 0)


def _bags(indices, offsets, count, padding_idx):
    """The bag of each look-up, and which look-ups count: those that are not ``padding_idx``."""
    begins = offsets[:count].to(torch.int64)
    # A bag at the end, without a look-up, begins after the last one.
    length = indices.shape[0]
    marks = torch.zeros(length + 1, dtype=torch.int64, device=indices.device)
    marks = marks.index_add(0, begins, torch.ones_like(begins))
    return marks.narrow(0, 0, length).cumsum(0) - 1, indices != padding_idx


OWN = {
    aten._embedding_bag_backward.default: _backward,
    aten._embedding_bag_per_sample_weights_backward.default: _scales_backward,
}
