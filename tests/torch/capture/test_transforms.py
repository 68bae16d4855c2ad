"""Transforms of ``torch.func`` inside of a module: compiled once, equal to eager at other sizes."""

from __future__ import annotations

import disc
import pytest
import torch
from torch import nn
from torch.nn import functional as F


class Score(nn.Module):
    """The gradient of an energy by its input."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(16, 16), nn.LayerNorm(16)

    def forward(self, x, y):
        def energy(x):
            return (F.gelu(self.norm(self.linear(x))) * y).sum()

        return torch.func.grad(energy)(x)


class Mapped(nn.Module):
    def forward(self, x, y):
        return torch.vmap(lambda a, b: torch.softmax(a * b, 0))(x, y)


class Forward(nn.Module):
    def forward(self, x, y):
        return torch.func.jvp(torch.tanh, (x,), (y,))[1]


class Backward(nn.Module):
    def forward(self, x, y):
        return torch.func.vjp(torch.tanh, x)[1](y)[0]


@pytest.mark.parametrize("module", [Score(), Mapped(), Forward(), Backward()], ids=lambda m: type(m).__name__)
def test_transforms_are_compiled_for_all_sizes(module):
    module = module.eval()
    compiled = disc.optimize(module, (torch.randn(5, 16), torch.randn(5, 16)))
    for rows in (5, 1, 0, 37):
        x, y = torch.randn(rows, 16), torch.randn(rows, 16)
        torch.testing.assert_close(compiled(x, y), module(x, y), rtol=1e-5, atol=1e-5)
    values = disc.report(compiled).to_dict()
    assert values["compiles"] + values["cache_hits"] == 1


def test_a_gradient_that_is_not_compiled_is_named():
    class Filter(nn.Module):
        def forward(self, x, w):
            return torch.func.grad(lambda x: F.grid_sample(x, w, align_corners=False).sum())(x)

    with pytest.raises(disc.UnsupportedOp, match="grid_sampler_3d_backward"):
        disc.optimize(Filter().eval(), (torch.randn(1, 2, 3, 4, 5), torch.rand(1, 2, 2, 2, 3)))


class _Straight(torch.autograd.Function):
    """Rounds, with the gradient of the identity."""

    @staticmethod
    def forward(x):
        return x.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad


class Custom(nn.Module):
    def forward(self, x):
        gradient = torch.func.grad(lambda v: (_Straight.apply(v) * v).sum())(x)
        return gradient + x.exp()


@pytest.mark.fallback
@pytest.mark.parametrize("by_dynamo", [False, True])
def test_the_backward_of_a_custom_function_under_a_transform_runs_in_pytorch(by_dynamo):
    torch._dynamo.reset()
    module, example = Custom().eval(), torch.tensor([0.3, 1.7])
    compiled = (
        torch.compile(module, backend="disc", dynamic=True)
        if by_dynamo
        else disc.optimize(module, (example,))
    )
    for x in (example, torch.tensor([0.3, 1.7, 2.6])):
        torch.testing.assert_close(compiled(x), module(x))
    values = disc.report(compiled).to_dict()
    assert 0 < values["coverage"] < 1
    (broken,) = values["graph_breaks"]
    assert "backward of _Straight" in broken["reason"]
    assert broken["source"].startswith("test_transforms.py:")
    assert broken["reason"] in [row["reason"] for row in values["fallbacks"]]
