"""Variants that are compiled while calls of the module go on."""

from __future__ import annotations

import disc
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.fallback


class Keeps(nn.Module):
    """Counts its calls, and asks for even sizes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x * 2 if x.shape[0] % 2 == 0 else x * 3


def test_a_variant_is_not_run_to_be_tried():
    model = Keeps()
    fast = disc.optimize(model, torch.randn(4))
    for count, size in enumerate((4, 5, 5, 6, 7), 1):
        fast(torch.randn(size))
        fast._dispatcher.variants.wait()
        assert int(model.calls) == count
    assert disc.report(fast).to_dict()["variants"] == 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for size in (4, 5, 5):
            fast(torch.randn(size))
        fast._dispatcher.variants.wait()


class Transformed(nn.Module):
    """Asks for a size, in a transform that torch.export alone traces."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(20))

    def forward(self, x):
        x = torch.vmap(lambda row: row.relu() + 1)(x)
        for layer in self.layers[:1] if x.shape[0] <= 4 else self.layers:
            x = torch.vmap(lambda row: row.relu() + 1)(layer(x)).softmax(-1)
        return x


def test_calls_beside_a_variant_meet_no_fake_tensor():
    model = Transformed().eval()
    with torch.no_grad():
        fast = disc.optimize(model, torch.randn(3, 8))
        for _ in range(100):
            x = torch.randn(9, 8)
            torch.testing.assert_close(fast(x), model(x))
        fast._dispatcher.variants.wait()
        torch.testing.assert_close(fast(x), model(x))
