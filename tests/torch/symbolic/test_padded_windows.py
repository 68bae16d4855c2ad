"""Images that are padded to whole windows, cut into them and put together again, layer after layer,
as Swin does it: every size is a multiple of the window, and torch is asked for nothing that takes
long.
"""

from __future__ import annotations

import disc
import disc.torch.overrides.division
import pytest
import sympy
import torch
from disc.torch.overrides import registry
from disc.torch.symbolic.remainders import in_windows, smallest
from torch import nn
from torch.nn import functional as F
from torch.utils._sympy import functions as tsf


def windows(x, size: int):
    batch, height, width, features = x.shape
    x = x.view(batch, height // size, size, width // size, size, features)
    return x.transpose(2, 3).contiguous().view(-1, size, size, features)


def image(x, size: int, height, width):
    features = x.shape[-1]
    x = x.view(-1, height // size, width // size, size, size, features)
    return x.transpose(2, 3).contiguous().view(-1, height, width, features)


class Layer(nn.Module):
    def __init__(self, features: int, size: int, missing, shift: int):
        super().__init__()
        self.mix, self.size, self.missing, self.shift = nn.Linear(features, features), size, missing, shift

    def forward(self, x):
        _, height, width, _ = x.shape
        below, right = self.missing(height, self.size), self.missing(width, self.size)
        padded = F.pad(x, (0, 0, 0, right, 0, below))
        _, high, wide, _ = padded.shape
        padded = torch.roll(padded, (-self.shift, -self.shift), (1, 2))
        parts = windows(padded, self.size).flatten(1, 2)
        parts = F.scaled_dot_product_attention(self.mix(parts), parts, parts)
        parts = parts.unflatten(1, (self.size, self.size))
        whole = torch.roll(image(parts, self.size, high, wide), (self.shift, self.shift), (1, 2))
        return x + whole[:, :height, :width]


class Merge(nn.Module):
    """Joins two by two places, after a row and a column are added where there is an odd number."""

    def __init__(self, features: int):
        super().__init__()
        self.mix = nn.Linear(4 * features, 2 * features)

    def forward(self, x):
        x = F.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
        return self.mix(torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1))


def by_remainders(size, window: int):
    return (window - size % window) % window


def by_negation(size, window: int):
    return -size % window


@pytest.mark.parametrize("missing", [by_remainders, by_negation])
def test_padded_windows_are_compiled_whole_for_all_sizes(missing, monkeypatch):
    def simplify(*args, **kwargs):
        raise AssertionError("sympy rewrites a size")

    monkeypatch.setattr(sympy, "simplify", simplify)
    layers = []
    for i, features in enumerate((4, 8, 16)):
        layers += [Merge(features // 2)] * (i > 0)
        layers += [Layer(features, 3, missing, shift) for shift in (0, 1)]
    model = nn.Sequential(*layers).eval()
    with torch.no_grad():
        compiled = disc.optimize(model, torch.randn(1, 22, 26, 4))
        for batch, height, width in ((1, 22, 26), (2, 24, 24), (3, 13, 40), (1, 12, 36), (2, 47, 19)):
            x = torch.randn(batch, height, width, 4)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    report = disc.report(compiled).to_dict()
    assert (report["captured_by"], report["fallbacks"], report["coverage"]) == ("disc", [], 1.0)


@pytest.mark.parametrize("window", [2, 7, 8])
def test_a_size_that_is_padded_is_a_multiple(window):
    x, y = sympy.symbols("x y", integer=True, nonnegative=True)
    padding = tsf.Mod(window - tsf.Mod(x, window), window)
    for expr in (x + padding, 3 * x + 3 * padding + y, x * 2 + y + 2 * tsf.PythonMod(-x, window)):
        written = in_windows(expr)
        assert not written.has(tsf.Mod, tsf.PythonMod)
        for size in range(20):
            assert written.subs({x: size, y: 5}) == expr.subs({x: size, y: 5})
    assert smallest([x, in_windows(x + padding)]) == x


def test_what_is_no_padding_is_left():
    x, y = sympy.symbols("x y", integer=True, nonnegative=True)
    for expr in (y + tsf.Mod(7 - tsf.Mod(x, 7), 7), x + tsf.Mod(6 - tsf.Mod(x, 7), 7), x + tsf.Mod(x, 7)):
        assert in_windows(expr) == expr


def test_a_divisor_that_is_a_sum_cancels_as_a_whole():
    n, m = sympy.symbols("n m", integer=True, positive=True)
    half = tsf.FloorDiv(m, 2) + 1
    with registry.overridden("capture"):
        assert tsf.FloorDiv(n * half, half) == n
        assert tsf.FloorDiv(3 * n * half + 3 * half, half) == 3 * n + 3
        assert tsf.FloorDiv(n * half, n) == half
