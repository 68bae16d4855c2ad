"""Attention of one compilation at lengths and widths around half a panel and a whole one,
against float64.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch.nn import functional as F

LENGTHS = (0, 1, 16, 17, 33, 49, 65)
WIDTHS = (1, 16, 17, 48, 80)


class Attention(torch.nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


def tensors(queries: int, keys: int, width: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(2, 1, length, width) for length in (queries, keys, keys))


@pytest.fixture(params=["x86-64-v3", "x86-64-v4"])
def compiled(request, monkeypatch, compile_module):
    if request.param == "x86-64-v4" and not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        pytest.skip("the CPU has no AVX-512")
    monkeypatch.setenv("DISC_TARGET", request.param)
    torch.manual_seed(0)
    return compile_module(Attention(), tensors(5, 7, 16))


def test_half_panels(compiled):
    for queries, keys, width in itertools.product((1, 13), LENGTHS, WIDTHS):
        inputs = tensors(queries, keys, width)
        wanted = Attention()(*(t.double() for t in inputs)).float()
        torch.testing.assert_close(compiled(*inputs), wanted, rtol=1e-4, atol=1e-5)


def test_a_key_that_is_no_number_reaches_all_rows(compiled):
    for keys, value in itertools.product((17, 530), (math.nan, math.inf)):
        q, k, v = tensors(12, keys, 16)
        q, k = q.abs() + 0.1, k.clone()
        k[0, 0, keys - 1, 3] = value
        out = compiled(q, k, v)
        assert out[0].isnan().all()
        assert out[1].isfinite().all()


def test_a_row_of_minus_infinities_is_zero(compiled):
    for queries, keys in itertools.product((3, 13), (1, 17, 530)):
        q, k, v = tensors(queries, keys, 16)
        q, k = q.abs() + 0.1, k.abs() + 0.1
        q[0, 0, 1] = -math.inf
        out = compiled(q, k, v)
        assert (out[0, 0, 1] == 0).all()
        torch.testing.assert_close(out, Attention()(q, k, v), rtol=1e-4, atol=1e-5)
