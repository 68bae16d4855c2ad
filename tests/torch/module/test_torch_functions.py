"""Functions of torch that take a module apart run on the original of a compiled one."""

from __future__ import annotations

import disc
import pytest
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(8))
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, x):
        return self.layers(x * self.weight)


def quantised(module):
    return torch.ao.quantization.quantize_dynamic(module, {nn.Linear}, dtype=torch.qint8)


@pytest.mark.fallback
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "function",
    [
        lambda module, x: torch.export.export(module, (x,)).module(),
        torch.jit.trace,
        lambda module, _: quantised(module),
    ],
    ids=["export", "jit.trace", "quantize_dynamic"],
)
def test_functions_of_torch_take_the_original_of_a_compiled_module(function):
    model, x = Gate().eval(), torch.randn(3, 8)
    fast = disc.optimize(model, x)
    with torch.no_grad():
        want, found = function(model, x), function(fast, x)
        torch.testing.assert_close(found(x), want(x))
        names = [name for name, _ in want.named_parameters()]
        assert [name for name, _ in found.named_parameters()] == names
        if isinstance(found, disc.OptimizedModule):
            # Torch runs its ops, and the report says so.
            assert disc.report(found).to_dict()["fallbacks"]
        # It is as it was.
        torch.testing.assert_close(fast(x), model(x))
    assert type(model.layers[0]) is nn.Linear


def test_tables_and_attributes_are_the_originals():
    model = Gate().eval()
    fast = disc.optimize(model)
    fast.register_buffer("scale", torch.ones(2))
    assert "scale" in model.state_dict()
    fast.note = 1
    del fast.note, fast.scale
    assert not hasattr(model, "note")
    assert not hasattr(model, "scale")
    assert fast._modules is model._modules
