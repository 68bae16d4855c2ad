"""Decompositions of ATen ops without a lowering,
where torch's own would specialise a size or there are none.

Each function takes the arguments of the overload, and asks for nothing but equal sizes.
``decompositions.lookup`` finds them; of some, which have a lowering, the sizes alone are taken
(``tracer.fake_overrides``).
"""

from __future__ import annotations

import math

import torch

from . import antialias, backward, bessel, factors, linalg, normal, special, transformer
from .triangles import triu_indices

aten = torch.ops.aten


def kron(x, y):
    rank = max(x.dim(), y.dim())
    sizes = [[1] * (rank - t.dim()) + list(t.shape) for t in (x, y)]
    x = x.reshape([size for n in sizes[0] for size in (n, 1)])
    y = y.reshape([size for n in sizes[1] for size in (1, n)])
    return (x * y).reshape([n * m for n, m in zip(*sizes, strict=True)])


def _multi_dot(tensors):
    result = tensors[0]
    for other in tensors[1:]:
        result = result @ other
    return result


def take_along_dim(x, index, dim=None):
    if dim is None:
        return x.reshape([-1]).gather(0, index.reshape([-1]))
    axis = dim % x.dim()
    torch._check(x.dim() == index.dim(), lambda: "take_along_dim: expected as many axes in both")
    pairs = list(zip(x.shape, index.shape, strict=True))
    shared = [a if isinstance(b, int) and b == 1 else b for a, b in pairs]
    x_sizes, index_sizes = list(shared), list(shared)
    x_sizes[axis], index_sizes[axis] = pairs[axis]
    return x.expand(x_sizes).gather(axis, index.expand(index_sizes))


def _vander(x, N=None, increasing=False):
    torch._check(x.dim() == 1, lambda: f"vander: expected one axis, got {x.dim()}")
    powers = _powers(x, x.shape[0] if N is None else N)
    return powers if increasing else powers.flip(-1)


def _linalg_vander(x, *, N=None):
    x = x.unsqueeze(-1) if x.dim() == 0 else x
    count = x.shape[-1] if N is None else N
    torch._check(count > 1, lambda: "N must be greater than 1.")
    return _powers(x, count)


def _powers(x, count):
    """1, x, x squared and so on, ``count`` of them."""
    x = x.unsqueeze(-1)
    filled = x.expand([*x.shape[:-1], torch.sym_max(count - 1, 0)])
    return torch.cat([torch.ones_like(x), filled.cumprod(-1)], -1).narrow(-1, 0, count)


# Gradients: differences of neighbours.


def _gradient(x, spacing, dims, edge_order):
    results = []
    for axis, h in zip(dims, spacing, strict=True):
        n = x.shape[axis]
        torch._check(n >= edge_order + 1, lambda: f"gradient: expected at least {edge_order + 1} elements")

        def at(i, axis=axis):
            return x.narrow(axis, i, 1)

        inner = (x.narrow(axis, 2, n - 2) - x.narrow(axis, 0, n - 2)) / (2 * h)
        if edge_order == 1:
            first, last = (at(1) - at(0)) / h, (at(n - 1) - at(n - 2)) / h
        else:
            first = (-1.5 * at(0) + 2 * at(1) - 0.5 * at(2)) / h
            last = (1.5 * at(n - 1) - 2 * at(n - 2) + 0.5 * at(n - 3)) / h
        results.append(torch.cat([first, inner, last], axis))
    return results


def _gradient_int(x, *, spacing=None, dim=None, edge_order=1):
    dims = list(range(x.dim())) if dim is None else [dim]
    return _gradient(x, [1 if spacing is None else spacing] * len(dims), dims, edge_order)


def _gradient_one_spacing(x, *, dim, spacing=1, edge_order=1):
    return _gradient(x, [spacing] * len(dim), list(dim), edge_order)


def _gradient_spacings(x, *, spacing, dim=None, edge_order=1):
    dims = range(x.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    return _gradient(x, list(spacing), list(dims), edge_order)


# Distances and covariances, where torch chooses by sizes, and what has no steps of torch.


def _cdist(x, y, p=2.0, compute_mode=None):
    return aten._cdist_forward.default(x, y, p, compute_mode)


def _cov(x, *, correction=1, fweights=None, aweights=None):
    torch._check(x.dtype != torch.bool, lambda: "cov: bool dtype is not supported for input")
    rows = x if x.is_floating_point() or x.is_complex() else x.to(torch.get_default_dtype())
    rows = rows if x.dim() == 2 else rows.unsqueeze(0)
    if fweights is None and aweights is None:
        rows = rows - rows.mean(1, keepdim=True)
        spread = torch.sym_max(rows.shape[1] - correction, 0)
        return ((rows @ rows.mT) / spread).squeeze()
    given = [w for w in (fweights, aweights) if w is not None]
    for w in given:
        torch._check(w.dim() == 1 and w.shape[0] == rows.shape[1], lambda: "cov: expected a weight a column")
        linalg.check(w >= 0, "cov: weights cannot be negative")
    weight = math.prod(given[1:], start=given[0])
    total = weight.sum()
    linalg.check(total != 0, "cov: weights sum to zero, can't be normalized")
    rows = rows - ((rows * weight).sum(1) / total).unsqueeze(1)
    spread = total - correction
    if aweights is not None and correction != 0:
        spread = total - correction * (weight * aweights).sum() / total
    return ((rows @ (rows * weight).mT) / spread.clamp(min=0)).squeeze()


def _corrcoef(x):
    covariance = aten.cov.default(x)
    if covariance.dim() == 0:
        return covariance / covariance
    deviation = covariance.diagonal().sqrt()
    return (covariance / deviation.unsqueeze(1) / deviation.unsqueeze(0)).clamp(-1, 1)


def _addbmm(start, a, b, *, beta=1, alpha=1):
    # The sum over the batch is one more axis of the matmul.
    left = a.permute(1, 0, 2).reshape(a.shape[1], -1)
    return torch.addmm(start, left, b.reshape(-1, b.shape[2]), beta=beta, alpha=alpha)


def _put(x, index, source, accumulate=False):
    flat = x.reshape(-1).index_put((index.reshape(-1),), source.reshape(-1), accumulate)
    return flat.reshape(x.shape)


def _index_reduce(x, dim, index, source, reduce, *, include_self=True):
    if x.dim() == 0:
        return x.scatter_reduce(0, index.reshape([]), source.reshape([]), reduce, include_self=include_self)
    axis = dim % x.dim()
    others = [(x.shape[i], source.shape[i]) for i in range(x.dim()) if i != axis]
    torch._check(all(a == b for a, b in others), lambda: f"index_reduce: {source.shape} into {x.shape}")
    places = index.reshape([-1 if i == axis else 1 for i in range(x.dim())]).expand_as(source)
    return x.scatter_reduce(axis, places, source, reduce, include_self=include_self)


def _multilabel_margin_loss_forward(x, target, reduction):
    # The steps of torch also add the margins of what comes after the first -1.
    torch._check(1 <= x.dim() <= 2, lambda: f"multilabel_margin_loss: expected 1 or 2 axes, got {x.dim()}")
    torch._check(x.shape == target.shape, lambda: f"multilabel_margin_loss: {target.shape} for {x.shape}")
    rows, labels = torch.atleast_2d(x), torch.atleast_2d(target)
    classes = rows.shape[1]
    torch._check(classes > 0, lambda: "multilabel_margin_loss: expected at least one class")
    counts = (labels == -1).cumsum(1) == 0
    found = torch.where(counts, labels, 0)
    is_target = ((found.unsqueeze(-1) == torch.arange(classes)) & counts.unsqueeze(-1)).any(1)
    margin = 1 - rows.gather(1, found).unsqueeze(-1) + rows.unsqueeze(1)
    # A margin that is NaN counts for nothing.
    counted = (margin > 0) & counts.unsqueeze(-1) & ~is_target.unsqueeze(1)
    loss = torch.where(counted, margin, 0).sum([1, 2]) / classes
    loss = loss.mean() if reduction == 1 else loss.sum() if reduction == 2 else loss.reshape(x.shape[:-1])
    return loss, is_target.to(x.dtype).reshape(target.shape)


def _combinations(x, r=2, with_replacement=False):
    torch._check(x.dim() == 1, lambda: f"combinations: expected one axis, got {x.dim()}")
    if r != 2:
        return aten.combinations.default.decompose(x, r, with_replacement)
    n = x.shape[0]
    return x[triu_indices(n, n, 0 if with_replacement else 1)].T


# Order.


def _of_some(op):
    """The steps of torch, which take a quantile of nothing for one of anything."""

    def steps(x, *args, **kwargs):
        torch._check(x.numel() > 0, lambda: "quantile() input tensor must be non-empty")
        return op.decompose(x, *args, **kwargs)

    return steps


def _flat_and_not_empty(x):
    """All elements in a line; NaN where there is none."""
    flat = x.reshape([-1])
    value = math.nan if x.is_floating_point() else 0
    return torch.constant_pad_nd(flat, [0, torch.sym_max(1 - flat.shape[0], 0)], value)


def _median(x):
    return _flat_and_not_empty(x).median(0).values


def _nanmedian_dim(x, dim=-1, keepdim=False):
    if x.dim() == 0:
        return x.clone(), torch.zeros([], dtype=torch.int64)
    ordered, places = x.sort(dim=dim, stable=True)
    # Those that are no number come last.
    numbers = (~x.isnan()).sum(dim, keepdim=True)
    middle = (numbers - 1).clamp(min=0) // 2
    found = (t.gather(dim, middle) for t in (ordered, places))
    return tuple(t if keepdim else t.squeeze(dim) for t in found)


def _nanmedian(x):
    return aten.nanmedian.dim(_flat_and_not_empty(x), 0)[0]


OWN = {
    aten.addbmm.default: _addbmm,
    aten.cdist.default: _cdist,
    aten.combinations.default: _combinations,
    aten.corrcoef.default: _corrcoef,
    aten.cov.default: _cov,
    aten.gradient.array: lambda x, *, dim, edge_order=1: _gradient(x, [1] * len(dim), list(dim), edge_order),
    aten.gradient.scalararray: _gradient_one_spacing,
    aten.gradient.scalarint: _gradient_int,
    aten.gradient.scalarrayarray: _gradient_spacings,
    aten.gradient.scalarrayint: _gradient_spacings,
    aten.index_reduce.default: _index_reduce,
    aten.linalg_multi_dot.default: _multi_dot,
    aten.linalg_vander.default: _linalg_vander,
    aten.median.default: _median,
    aten.multilabel_margin_loss_forward.default: _multilabel_margin_loss_forward,
    aten.nanmedian.default: _nanmedian,
    aten.nanmedian.dim: _nanmedian_dim,
    aten.put.default: _put,
    aten.nanquantile.default: _of_some(aten.nanquantile.default),
    aten.nanquantile.scalar: _of_some(aten.nanquantile.scalar),
    aten.quantile.default: _of_some(aten.quantile.default),
    aten.quantile.scalar: _of_some(aten.quantile.scalar),
    aten.vander.default: _vander,
    **backward.OWN,
    **bessel.OWN,
    **factors.OWN,
    **linalg.OWN,
    aten._transformer_encoder_layer_fwd.default: transformer.encoder_layer,
    **normal.OWN,
    aten.frexp.Tensor: special.frexp,
    aten.i0.default: special.i0,
    aten.isin.Tensor_Tensor: special.isin,
    aten.mode.default: special.mode,
    aten.special_i0e.default: special.i0e,
    aten.special_i1.default: special.i1,
    aten._upsample_bicubic2d_aa.default: antialias.steps("bicubic"),
    aten._upsample_bicubic2d_aa.vec: antialias.steps_by_factors("bicubic"),
    aten._upsample_bilinear2d_aa.default: antialias.steps("bilinear"),
    aten._upsample_bilinear2d_aa.vec: antialias.steps_by_factors("bilinear"),
}
