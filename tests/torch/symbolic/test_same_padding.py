"""Convolutions that are padded as TensorFlow does it: the padding depends on the size,
and is a remainder of it.
"""

from __future__ import annotations

import itertools
import math

import disc
import pytest
import sympy
import torch
from disc.torch.symbolic.remainders import largest
from model_check import Function
from torch import nn
from torch.utils._sympy import functions as tsf

SIZES = [(40, 52), (39, 41), (33, 64), (64, 33), (47, 38), (1, 1), (2, 5), (31, 3)]


def by_ceil(size, kernel: int, stride: int, dilation: int):
    return max((math.ceil(size / stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)


def by_division(size, kernel: int, stride: int, dilation: int):
    parts = (size + stride - 1) // stride
    return max(0, (parts - 1) * stride + (kernel - 1) * dilation + 1 - size)


def by_remainder(size, kernel: int, stride: int, dilation: int):
    return max(kernel * dilation - dilation - (size - 1) % stride, 0)


class Same(nn.Module):
    """Convolutions one after the other, each padded to give a result of ceil(size / stride)."""

    def __init__(self, layers, padding):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(2, 2, k, s, dilation=d) for k, s, d in layers)
        self.padding = padding

    def forward(self, x):
        for layer in self.layers:
            amounts = []
            for size, k, s, d in zip(
                x.shape[:1:-1], layer.kernel_size[::-1], layer.stride[::-1], layer.dilation[::-1], strict=True
            ):
                amount = self.padding(size, k, s, d)
                amounts += [amount // 2, amount - amount // 2]
            x = layer(nn.functional.pad(x, amounts)).relu()
        return x


STACKS = {
    "five times 3 by 3": [(3, 2, 1)] * 5,
    "kernels of all kinds": [(3, 2, 1), (5, 2, 1), (1, 2, 1), (7, (2, 1), 1), (2, 2, 1)],
    "strides of 3 and 4": [(3, 3, 1), (5, 4, 1)],
    "dilated": [(3, 2, 2), (3, 1, 3), (3, 2, 1)],
    "kernels smaller than their strides": [(1, 3, 1), (2, 4, 1)],
}


@pytest.mark.parametrize(
    ("name", "padding"),
    [
        *((name, by_ceil) for name in STACKS),
        ("dilated", by_division),
        ("strides of 3 and 4", by_remainder),
    ],
)
def test_all_sizes_are_served_by_one_compilation(name, padding, compile_module):
    torch.manual_seed(0)
    model = Same(STACKS[name], padding).eval()
    with torch.no_grad():
        compiled = compile_module(model, (torch.randn(2, 2, *SIZES[0]),))
        for batch, size in enumerate(SIZES):
            x = torch.randn(batch % 3 + 1, 2, *size)
            expected = model(x)
            assert compiled(x).shape == expected.shape
            torch.testing.assert_close(compiled(x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("padding", [by_ceil, by_division, by_remainder])
def test_sizes_behind_many_layers_are_short(padding):
    model = Same([(3, 2, 1)] * 6, padding).eval()
    with torch.no_grad():
        compiled = disc.optimize(model, (torch.randn(2, 2, 200, 264),))
        listing = str(disc.report(compiled))
    assert "max(" not in listing, listing
    assert len(listing) < 3000, listing


def test_what_decides_a_maximum_holds_for_all_integers():
    x, y = sympy.symbols("x y", integer=True)
    pair = tsf.CeilToInt(tsf.IntTrueDiv(x, sympy.Integer(2)))
    sums = [
        2 * pair - x,
        -tsf.Mod(x, 8),
        3 * tsf.FloorDiv(x + 2, 3) - x,
        2 * tsf.FloorDiv(tsf.FloorDiv(x + 1, 2) + 1, 2) - tsf.FloorDiv(x + 1, 2),
        tsf.FloorDiv(x, 4) - tsf.FloorDiv(x + 3, 4),
        tsf.FloorDiv(x, 2) - tsf.FloorDiv(y, 2),
        tsf.Mod(x, 3) - 2 * tsf.Mod(y, 5),
    ]
    decided = [0] * len(sums)
    for (i, term), shift in itertools.product(enumerate(sums), range(-4, 12)):
        expr = term + shift
        found = largest([sympy.Integer(0), expr])
        decided[i] += not isinstance(found, tsf.Max)
        for values in itertools.product(range(25), (0, 3, 7, 12)):
            named = dict(zip((x, y), map(sympy.Integer, values), strict=True))
            assert found.xreplace(named) == max(0, expr.xreplace(named)), (found, expr)
    assert decided == [16, 10, 15, 16, 16, 0, 7]


def test_a_maximum_that_neither_decides_stays(compile_module):
    """A window that is cut off where it is larger than what is there."""
    model = Function(lambda x: x[:, max(0, x.shape[1] % 8 - 3) :] * max(x.shape[1] // 2, 3))
    compiled = compile_module(model, (torch.randn(2, 13),))
    for size in (13, 1, 0, 7, 8, 20):
        x = torch.randn(3, size)
        torch.testing.assert_close(compiled(x), model(x))
