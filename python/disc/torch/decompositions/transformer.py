"""Decomposes the fused layer of ``torch.nn.TransformerEncoderLayer``, as torch's kernel computes
it (aten/src/ATen/native/transformers).
"""

from __future__ import annotations

import torch

aten = torch.ops.aten


def encoder_layer(
    src,
    embed_dim,
    num_heads,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    use_gelu,
    norm_first,
    eps,
    norm_weight_1,
    norm_bias_1,
    norm_weight_2,
    norm_bias_2,
    ffn_weight_1,
    ffn_bias_1,
    ffn_weight_2,
    ffn_bias_2,
    mask=None,
    mask_type=None,
):
    """A layer on ``src``, [batch, length, width]; ``mask`` is true for what is not attended to:
    [length, length] (type 0), [batch, length] (type 1) or [batch, heads, length, length] (type 2).
    """

    def norm(x, weight, bias):
        return aten.layer_norm.default(x, [embed_dim], weight, bias, eps)

    x = norm(src, norm_weight_1, norm_bias_1) if norm_first else src
    x = _attention(x, num_heads, qkv_weight, qkv_bias, _spread(mask, mask_type))
    x = src + aten.linear.default(x, proj_weight, proj_bias)
    x = x if norm_first else norm(x, norm_weight_1, norm_bias_1)
    y = norm(x, norm_weight_2, norm_bias_2) if norm_first else x
    y = aten.linear.default(y, ffn_weight_1, ffn_bias_1)
    y = aten.gelu.default(y) if use_gelu else aten.relu.default(y)
    x = x + aten.linear.default(y, ffn_weight_2, ffn_bias_2)
    return x if norm_first else norm(x, norm_weight_2, norm_bias_2)


def _spread(mask, mask_type):
    """The mask over batch, heads, queries and keys."""
    if mask is None:
        return None
    mask = mask.to(torch.bool)
    if mask_type == 1:
        return mask[:, None, None, :]
    return mask


def _attention(x, num_heads, weight, bias, mask):
    batch, length, width = x.shape
    qkv = aten.linear.default(x, weight, bias).view(batch, length, 3, num_heads, width // num_heads)
    query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    if mask is None:
        y = aten.scaled_dot_product_attention.default(query, key, value)
    else:
        # A query that attends to nothing gives NaN, which attention of torch does not.
        scores = (query * (width // num_heads) ** -0.5) @ key.mT
        y = scores.masked_fill(mask, float("-inf")).softmax(-1) @ value
    return y.transpose(1, 2).reshape(batch, length, width)
