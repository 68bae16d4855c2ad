"""Replaces the questions that ``torch.nn.Transformer`` and its parts ask of their data
while they are traced.

Not here: functions that fix sizes (``overrides.patches``).
"""

from __future__ import annotations

import math

import torch
from torch._subclasses import FakeTensor
from torch.nn.modules import transformer

from .registry import Override, register


def _detect_is_causal_mask(mask, is_causal=None, size=None):
    # A hint: without it the mask is applied as it is.
    return False if is_causal is None and isinstance(mask, FakeTensor) else _detect(mask, is_causal, size)


def _encode(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
    # Without gradients eager leaves padding out if it is at the end of each line, and has 0 in its
    # place after the layers.
    padding = src_key_padding_mask
    if mask is not None or not isinstance(padding, FakeTensor) or not _leaves_out(self, src):
        return _forward(self, src, mask, padding, is_causal)
    is_padding = padding != 0
    at_end = (is_padding[:, 1:] | ~is_padding[:, :-1]).all() if self.mask_check else None
    if padding.dtype != torch.bool:
        hidden = torch.zeros_like(padding).masked_fill(is_padding, -math.inf)
        padding = hidden if at_end is None else torch.where(at_end, hidden, padding)
    for layer in self.layers:
        src = layer(src, src_key_padding_mask=padding)
    left_out = is_padding if at_end is None else is_padding & at_end
    src = src.masked_fill(left_out.unsqueeze(-1), 0.0)
    return src if self.norm is None else self.norm(src)


def _leaves_out(encoder, src) -> bool:
    if not torch.backends.mha.get_fastpath_enabled() or src.dim() != 3 or not hasattr(encoder, "mask_check"):
        return False
    return getattr(encoder, "use_nested_tensor", False) and not encoder.layers[0].training


_detect = transformer._detect_is_causal_mask
_forward = torch.nn.TransformerEncoder.forward
_ASKS_DATA = "torch asks the data of the mask"
register(
    (
        Override(transformer, "_detect_is_causal_mask", _detect_is_causal_mask, _ASKS_DATA),
        Override(torch.nn.TransformerEncoder, "forward", _encode, _ASKS_DATA),
    )
)
