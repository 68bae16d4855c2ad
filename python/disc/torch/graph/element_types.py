"""Knows the element types that ops of torch refuse on CPUs, though a trace does not.

What torch refuses is not compiled: torch runs the op, and says so as in eager mode.
"""

from __future__ import annotations

import torch

#: Ops whose first tensor has to be of floats.
_FLOATS = """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d
adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d max_pool1d max_unpool2d max_unpool3d
batch_norm native_batch_norm _native_batch_norm_legit softmax _softmax log_softmax _log_softmax
celu gelu glu hardshrink hardsigmoid hardswish log_sigmoid log_sigmoid_forward mish prelu _prelu_kernel
silu softplus binary_cross_entropy cross_entropy_loss huber_loss mse_loss nll_loss nll_loss_nd
nll_loss_forward nll_loss2d smooth_l1_loss soft_margin_loss multi_margin_loss multilabel_margin_loss
multilabel_margin_loss_forward frac hypot igamma igammac lerp logaddexp logaddexp2 logcumsumexp nextafter
std var im2col grid_sampler grid_sampler_2d grid_sampler_3d
"""
#: Ops that take bytes, too.
_FLOATS_OR_BYTES = """
upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d
_upsample_nearest_exact2d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d
upsample_trilinear3d upsample_bicubic2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa
"""
#: Ops that take any number, and no truth value.
_NUMBERS = """
abs ceil floor round trunc relu threshold argmax argmin median nanmedian kthvalue topk trace
mm bmm mv dot vdot matmul linear addmm addmv addbmm baddbmm convolution conv1d conv2d conv3d
avg_pool1d avg_pool2d avg_pool3d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices
"""
_TAKES = {name: kind for kind in (_FLOATS, _FLOATS_OR_BYTES, _NUMBERS) for name in kind.split()}


def refused(func, dtypes: list[torch.dtype], args, kwargs: dict) -> torch.dtype | None:
    """The type that torch refuses among ``dtypes``, those of the tensors that ``func`` takes."""
    name = getattr(func, "_opname", None)
    if name in ("sub", "rsub"):
        return torch.bool if torch.bool in dtypes else None
    if name == "lerp" and _is_number(args[2] if len(args) > 2 else kwargs.get("weight")):
        # A weight without axes is a number, which any type is multiplied by.
        return None
    takes = _TAKES.get(name)
    if takes is None or not dtypes or dtypes[0].is_floating_point or dtypes[0].is_complex:
        return None
    if takes is _NUMBERS:
        return torch.bool if torch.bool in dtypes[:2] else None
    if takes is _FLOATS_OR_BYTES and dtypes[0] is torch.uint8:
        return None
    converts = any(isinstance(x, torch.dtype) for x in (*args, *kwargs.values()))
    return None if converts else dtypes[0]


def _is_number(weight) -> bool:
    """Returns true for a number, or a tensor without axes, also as a node of a graph."""
    value = getattr(weight, "meta", {}).get("val", weight)
    return not isinstance(value, torch.Tensor) or value.dim() == 0
