"""Attention alone over lengths from 1 to 2048: plain, causal, masked, with grouped heads, and one
query on a growing cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from case import Case, Function
from torch.nn import functional as F

LENGTHS = (1, 7, 16, 33, 64, 128, 250, 384, 512, 777, 1024, 2048)


def tensors(heads: int, width: int, key_heads: int | None = None):
    def make(length: int) -> tuple[torch.Tensor, ...]:
        keys = (1, key_heads or heads, length, width)
        return torch.randn(1, heads, length, width), torch.randn(keys), torch.randn(keys)

    return make


def step(heads: int, width: int):
    """One query and a cache of ``length`` keys."""

    def make(length: int) -> tuple[torch.Tensor, ...]:
        cache = (1, heads, length, width)
        return torch.randn(1, heads, 1, width), torch.randn(cache), torch.randn(cache)

    return make


def with_mask(heads: int, width: int):
    def make(length: int) -> tuple[torch.Tensor, ...]:
        mask = torch.zeros(1, 1, 1, length)
        mask[..., length - length // 4 :] = -1e9
        return (*tensors(heads, width)(length), mask)

    return make


def flops(heads: int, width: int, queries: int | None = None):
    return lambda length: 4 * heads * (queries or length) * length * width


def plain(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def masked(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, mask)


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def grouped(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def cases() -> Iterator[Case]:
    sizes = tuple((length,) for length in LENGTHS)
    for name, function, make, count in (
        ("12 heads of 64", plain, tensors(12, 64), flops(12, 64)),
        ("12 heads of 64, mask", masked, with_mask(12, 64), flops(12, 64)),
        ("12 heads of 64, causal", causal, tensors(12, 64), flops(12, 64)),
        ("4 heads of 80", plain, tensors(4, 80), flops(4, 80)),
        ("8 heads of 64 over 2 of keys", grouped, tensors(8, 64, 2), flops(8, 64)),
        ("12 heads of 64, one query", plain, step(12, 64), flops(12, 64, 1)),
    ):
        yield Case(name, Function(function).eval(), sizes, make, count)
