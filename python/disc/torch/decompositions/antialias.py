"""Resampling of images with ``antialias=True``: each result is a weighted sum of the cells under a
filter, which is stretched where the image becomes smaller.

Weights are computed from the sizes, so that these stay open. A cell that is not under the filter is
not read: what is no number there goes nowhere. Eager of torch 2.13 repeats the first row in images
that become one cell wide; here they are resampled as others are.
"""

from __future__ import annotations

import math

import torch

aten = torch.ops.aten
_CUBIC = -0.5


def _linear(x):
    return (1 - x.abs()).clamp(min=0)


def _cubic(x, a=_CUBIC):
    x = x.abs().clamp(max=2)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    return torch.where(x < 1, near, (((x - 5) * x + 8) * x - 4) * a)


#: Each filter, and how far it reaches to either side.
_FILTERS = {"bilinear": (_linear, 1), "bicubic": (_cubic, 2)}


def steps(mode: str):
    """The steps of ``_upsample_<mode>2d_aa``, by sizes."""

    def resampled(x, output_size, align_corners, scales_h=None, scales_w=None):
        torch._check(x.dim() == 4 and len(output_size) == 2, lambda: "expected an image and two sizes")
        if not x.is_floating_point():
            # torch rounds weights to 16 bits for images of bytes.
            raise NotImplementedError("antialias of integers")
        for axis, out, scale in ((3, output_size[1], scales_w), (2, output_size[0], scales_h)):
            x = _resample(x, axis, out, align_corners, scale, *_FILTERS[mode])
        return x

    return resampled


def steps_by_factors(mode: str):
    """The steps of ``_upsample_<mode>2d_aa.vec``, by sizes or factors."""

    def resampled(x, output_size, align_corners, scale_factors):
        torch._check((output_size is None) != (scale_factors is None), lambda: "expected sizes or factors")
        if scale_factors is None:
            return steps(mode)(x, output_size, align_corners)
        pairs = zip(x.shape[2:], scale_factors, strict=True)
        sizes = [n * int(f) if int(f) == f else torch.sym_int(n * f) for n, f in pairs]
        return steps(mode)(x, sizes, align_corners, *scale_factors)

    return resampled


def _resample(x, axis: int, out, align_corners: bool, factor, weight_of, reach: int):
    size = x.shape[axis]
    torch._check(size > 0, lambda: "expected an image with cells")
    torch._check(out > 0, lambda: "expected a size that is not 0")
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    scale, most = _scale(size, out, align_corners, factor, reach, dtype)
    # torch leaves an axis alone that keeps its size, whatever the factor.
    kept = torch.full([], size) == torch.full([], out)
    scale = torch.where(kept, torch.ones_like(scale), scale)
    stretch = scale.clamp(min=1)
    support = stretch * reach
    center = scale * (torch.arange(out, dtype=dtype) + 0.5)
    first = (center - support + 0.5).clamp(min=0).long().unsqueeze(1)
    cells = first + torch.arange(torch.sym_min(most, size))
    inside = cells < (center + support + 0.5).long().unsqueeze(1)
    inside = inside & (cells < size)
    weights = weight_of((cells - center.unsqueeze(1) + 0.5) * (1 / stretch))
    inside = inside & ((weights != 0) | ~kept)
    weights = torch.where(inside, weights, torch.zeros_like(weights))
    total = weights.sum(1)
    total = torch.where(total == 0, torch.ones_like(total), total)
    taps = cells.shape[1]
    behind = [1] * (x.dim() - axis - 1)
    read = aten.index.Tensor(x.to(dtype), [*([None] * axis), cells.clamp(max=size - 1)])
    parts = read * weights.reshape([out, taps, *behind])
    parts = torch.where(inside.reshape([out, taps, *behind]), parts, torch.zeros_like(parts))
    return (parts.sum(axis + 1) / total.reshape([out, *behind])).to(x.dtype)


def _scale(size, out, align_corners: bool, factor, reach: int, dtype: torch.dtype):
    """The number of cells of the image per step of the result,
    and the most that are under a filter.
    """

    def number(n):
        return torch.full([], n, dtype=dtype)

    if align_corners:
        steps = torch.sym_max(out - 1, 1)
        scale = number(size - 1) / number(steps) * number(torch.sym_min(out - 1, 1))
        return scale, 2 * torch.sym_max(reach, (reach * (size - 1) + steps - 1) // steps) + 1
    if factor is not None and factor > 0:
        return number(1 / factor), 2 * max(reach, math.ceil(reach / factor)) + 1
    return number(size) / number(out), 2 * torch.sym_max(reach, (reach * size + out - 1) // out) + 1
