"""Ops that torch has only for CUDA devices: what AOTAutograd and exported programs have for
attention and batch norm.

Each gives the results that inference uses; those for a backward pass are not computed.
"""

from __future__ import annotations

from ...lowering.sizes import same
from .matmul import attention
from .normalization import batch_norm

#: Results besides the first that flash attention and that of cuDNN have.
_EXTRAS = (None,) * 8


def flash_attention(
    b, query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None
):
    """A causal mask is aligned to the last query and the last key, where other forms of attention
    begin at the first ones.
    """
    mask, rows, columns = None, query.shape[-2], key.shape[-2]
    if is_causal and not same(rows, columns):
        plane = [rows, columns]
        last = b.add(b.iota(plane, 0, "i64"), b.lift(columns - rows, "i64"))
        mask, is_causal = b.compare("GE", last, b.iota(plane, 1, "i64")), False
    return attention(b, query, key, value, mask, dropout_p, is_causal, scale=scale), *_EXTRAS


def cudnn_attention(
    b, query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False,
    return_debug_mask=False, *, scale=None,
):  # fmt: skip
    return attention(b, query, key, value, attn_bias, dropout_p, is_causal, scale=scale), *_EXTRAS


def cudnn_batch_norm(b, x, weight, bias, mean, var, training, momentum, eps):
    if training:
        raise b.unsupported("batch norm of cuDNN in training mode", help="call module.eval() first")
    return batch_norm(b, x, weight, bias, mean, var, training, momentum, eps), None, None, None


TABLE = {
    "aten._scaled_dot_product_flash_attention.default": flash_attention,
    "aten._scaled_dot_product_cudnn_attention.default": cudnn_attention,
    "aten.cudnn_batch_norm.default": cudnn_batch_norm,
}
