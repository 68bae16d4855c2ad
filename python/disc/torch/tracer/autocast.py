"""Converts the arguments of an op as ``torch.autocast`` does on a CPU;
the tracer records the conversions as ops.

Which ops have a rule is asked of torch; here is which rule each has, as torch documents it.
"""

from __future__ import annotations

import torch

_PRODUCTS = """
    addbmm addmm baddbmm bmm conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d linalg_vecdot linear
    matmul mm prelu scaled_dot_product_attention
"""
_LOWER = frozenset(_PRODUCTS.split())
#: Composed of products.
_OF_PRODUCTS = frozenset(("einsum", "tensordot", "bilinear", "linalg_multi_dot", "chain_matmul"))
_WIDEST = frozenset(("stack", "cat", "index_copy"))


def target_of(func, tensors) -> torch.dtype | None:
    """The type that an op computes in under autocast; None: in that of its arguments."""
    name = func._schema.name.removeprefix("aten::")
    if name in _LOWER or name in _OF_PRODUCTS:
        return torch.get_autocast_dtype("cpu")
    ruled = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "AutocastCPU")
    if not ruled:
        return None
    if name in _WIDEST:
        types = {t.dtype for t in tensors if converts(t)}
        return max(types, key=lambda dtype: dtype.itemsize, default=None)
    return torch.float32


def converts(x) -> bool:
    """Returns true if autocast may convert an argument."""
    return isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64
