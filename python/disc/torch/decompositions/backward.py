"""Decompositions of the backward ops of ATen for which torch has none."""

from __future__ import annotations

import math

import torch

from . import embedding_bags, grid_sample
from .triangles import triu_indices

aten = torch.ops.aten

# Attention.


def _flash_attention_backward(
    grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None
):
    """The weights are computed again from queries and keys. The queries of heads that share their
    keys are rows of one matrix.

    Reference: Dao et al., "FlashAttention", 2022, section 3.1.
    """
    if dropout_p != 0.0:
        raise NotImplementedError("gradients of attention with dropout")
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    dtype = query.dtype
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    shared = query.shape[1] != key.shape[1]
    groups = [key.shape[1], query.shape[1] // key.shape[1]]
    k, v = key.to(wide), value.to(wide)
    q, grad, result = (
        t.unflatten(1, groups).flatten(2, 3) if shared else t
        for t in (query.to(wide), grad_out.to(wide), out.to(wide))
    )
    scores = (q @ k.mT) * scale
    # The heads are an axis of their own for the masks.
    scores = scores.reshape([*query.shape[:-1], key.shape[-2]]) if shared else scores
    if is_causal:
        rows, columns = (torch.arange(size, device=q.device) for size in scores.shape[-2:])
        scores = scores.masked_fill(columns > rows.unsqueeze(-1), -math.inf)
    if attn_mask is not None:
        scores = scores + attn_mask
    scores = scores.unflatten(1, groups).flatten(2, 3) if shared else scores
    # A row that the mask hides whole has zeros, as forward.
    weights = aten._safe_softmax.default(scores, -1)
    of_value = weights.mT @ grad
    of_weights = grad @ v.mT
    of_scores = weights * (of_weights - (grad * result).sum(-1, keepdim=True)) * scale
    of_query = (of_scores @ k).reshape(query.shape) if shared else of_scores @ k
    return of_query.to(dtype), (of_scores.mT @ q).to(dtype), of_value.to(dtype)


# Pooling.


def _avg_pool_backward(n):
    def steps(grad, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
        kernel, pads = (_spread(v, n) for v in (kernel_size, padding))
        strides = _spread(stride, n) if stride else kernel
        if divisor_override:
            grad = grad / divisor_override
        else:
            grad = grad / _window_sizes(grad, x.shape[-n:], kernel, strides, pads, count_include_pad)
        lead = x.shape[:-n]
        planes = grad.reshape([-1, 1, *grad.shape[-n:]])
        ones = torch.ones([1, 1, *kernel], dtype=grad.dtype, device=grad.device)
        extra = [s - 1 for s in strides]
        # All that a window may reach, cut to what there is.
        wide = aten.convolution.default(planes, ones, None, strides, [0] * n, [1] * n, True, extra, 1)
        for axis, (pad, size) in enumerate(zip(pads, x.shape[-n:], strict=True)):
            missing = torch.sym_max(pad + size - wide.shape[2 + axis], 0)
            edges = [0, 0] * (n - 1 - axis) + [0, missing]
            wide = aten.constant_pad_nd.default(wide, edges).narrow(2 + axis, pad, size)
        return wide.reshape([*lead, *x.shape[-n:]])

    return steps


def _window_sizes(grad, sizes, kernel, strides, pads, counts_pads):
    """The elements that each window divides by."""
    counts = None
    n = len(sizes)
    for axis, (size, k, s, p) in enumerate(zip(sizes, kernel, strides, pads, strict=True)):
        first = torch.arange(grad.shape[grad.dim() - n + axis], device=grad.device) * s - p
        last = (first + k).clamp(max=size + p)
        if not counts_pads:
            first, last = first.clamp(min=0), last.clamp(max=size)
        one = (last - first).to(grad.dtype).reshape([-1] + [1] * (n - 1 - axis))
        counts = one if counts is None else counts * one
    return counts


def _max_pool_backward(n):
    def steps(grad, x, *form_and_indices):
        return _to_places(grad, x, form_and_indices[-1], n)

    return steps


def _to_places(grad, x, indices, n):
    """Adds each element of a gradient to the element of a plane that its index names."""
    lead = x.shape[:-n]
    size = math.prod(x.shape[-n:])
    planes = x.new_zeros([*lead, size])
    flat = [*lead, math.prod(grad.shape[-n:])]
    return planes.scatter_add(-1, indices.reshape(flat), grad.reshape(flat)).reshape(x.shape)


def _adaptive_avg_pool2d_backward(grad, x):
    """Each axis by the matrix of the shares that a window gives to each element."""
    rows, columns = (_shares(grad, grad.shape[axis], x.shape[axis]) for axis in (-2, -1))
    return rows.mT @ grad @ columns


def _shares(like, count, size):
    window = torch.arange(count, device=like.device)
    first, last = window * size // count, ((window + 1) * size + count - 1) // count
    place = torch.arange(size, device=like.device)
    inside = (place >= first.unsqueeze(-1)) & (place < last.unsqueeze(-1))
    return inside.to(like.dtype) / (last - first).to(like.dtype).unsqueeze(-1)


def _replication_pad_backward(grad, x, padding):
    """Adds the copies at each end to the element that they are copies of."""
    for number in range(len(padding) // 2):
        axis = x.dim() - 1 - number
        size = x.shape[axis]
        place = torch.arange(grad.shape[axis], device=grad.device) - padding[2 * number]
        zeros = grad.new_zeros([*grad.shape[:axis], size, *grad.shape[axis + 1 :]])
        grad = zeros.index_add(axis, place.clamp(0, size - 1), grad)
    return grad


# Norms.


def _weight_norm_backward(grad, v, g, norms, dim):
    """Of the directions ``v`` and the lengths ``g``, whose axes but ``dim`` have size 1."""
    norms = norms.view(g.shape).to(v.dtype)
    others = [axis for axis in range(v.dim()) if axis != dim % v.dim()]
    along = (grad * v).sum(others, keepdim=True) / norms
    return (grad - v * (along / norms)) * (g / norms), along


# Distances.


def _cdist_backward(grad, x, y, p, distances):
    """Of each pair, the gradient of the distance by the elements of ``x``."""
    difference = x.unsqueeze(-2) - y.unsqueeze(-3)
    return _of_differences(grad.unsqueeze(-1), difference, distances.unsqueeze(-1), p).sum(-2)


def _pdist_backward(grad, x, p, distances):
    """Of the pairs of rows i < j, row by row: one of the two is moved to, the other away."""
    i, j = triu_indices(x.shape[0], x.shape[0], 1, device=x.device)
    difference = x.index_select(0, i) - x.index_select(0, j)
    parts = _of_differences(grad.unsqueeze(-1), difference, distances.unsqueeze(-1), p)
    return torch.zeros_like(x).index_add(0, i, parts).index_add(0, j, -parts)


def _of_differences(grad, difference, distance, p):
    """The gradient by the elements of a difference, whose p-norm is ``distance``."""
    if p == 0:
        return torch.zeros_like(difference)
    scaled = grad * difference.sign()
    if p == 1:
        return scaled
    size = difference.abs()
    if p == math.inf:
        return scaled * (size == distance)
    return torch.where((distance == 0) | (size == 0), 0.0, scaled * (size / distance).pow(p - 1))


# Products.


def _trilinear(a, b, c, expand1, expand2, expand3, sumdim, unroll_dim=1):
    """The product of three tensors that miss the axes of ``expand1``, ``expand2`` and ``expand3``,
    added up over ``sumdim``: two matmuls.
    """
    rank = a.dim() + len(expand1)
    axes = [[axis for axis in range(rank) if axis not in absent] for absent in (expand1, expand2, expand3)]
    kept = [axis for axis in range(rank) if axis not in sumdim]
    # What the third factor and the result lack is added up first.
    first = [axis for axis in sorted({*axes[0], *axes[1]}) if axis in kept or axis in axes[2]]
    pair = torch.functional.einsum(a, axes[0], b, axes[1], first)
    return torch.functional.einsum(pair, first, c, axes[2], kept)


def _spread(value, n):
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * n if len(values) == 1 else values


OWN = {
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _flash_attention_backward,
    aten.avg_pool2d_backward.default: _avg_pool_backward(2),
    aten.avg_pool3d_backward.default: _avg_pool_backward(3),
    aten.max_pool3d_with_indices_backward.default: _max_pool_backward(3),
    aten.adaptive_max_pool2d_backward.default: _max_pool_backward(2),
    aten.adaptive_max_pool3d_backward.default: _max_pool_backward(3),
    aten._adaptive_avg_pool2d_backward.default: _adaptive_avg_pool2d_backward,
    aten.replication_pad1d_backward.default: _replication_pad_backward,
    aten.replication_pad2d_backward.default: _replication_pad_backward,
    aten.replication_pad3d_backward.default: _replication_pad_backward,
    aten._cdist_backward.default: _cdist_backward,
    aten._pdist_backward.default: _pdist_backward,
    aten._trilinear.default: _trilinear,
    aten._weight_norm_interface_backward.default: _weight_norm_backward,
    **embedding_bags.OWN,
    **grid_sample.OWN,
}
