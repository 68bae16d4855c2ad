"""``torch.compile(backend="disc")`` for inference while weights change."""

from __future__ import annotations

import disc
import pytest
import torch
from test_torch_compile import compiled, same
from torch import nn

pytestmark = pytest.mark.usefixtures("inference_of_fresh_dynamo")


def test_a_changed_weight_is_seen():
    model = nn.Linear(16, 16).eval()
    fast = compiled(model, dynamic=True)
    x = torch.randn(3, 16)
    same(fast(x), model(x))
    state = {name: torch.randn_like(t) for name, t in model.state_dict().items()}
    model.load_state_dict(state)
    same(fast(x), model(x))
    model.weight.data = torch.randn(16, 16)
    same(fast(x), model(x))


@pytest.mark.parametrize("momentum", [0.5, 0.999])
def test_weights_that_are_averaged_through_data_are_seen(momentum):
    model, other = nn.Linear(64, 64).eval(), nn.Linear(64, 64)
    fast = compiled(model, dynamic=True)
    x = torch.randn(3, 64)
    for _ in range(6):
        for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
            mine.data.mul_(momentum).add_(theirs.data, alpha=1 - momentum)
        same(fast(x), model(x), 1e-6)


def test_evaluation_between_steps_of_training_stops_preparing_weights():
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
    fast = compiled(model, dynamic=True, options={"fallback": "framework"})
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    x = torch.randn(5, 8)
    same(fast(x), model(x))
    assert disc.report(fast).to_dict()["weight_bytes"] > 0
    for _ in range(6):
        with torch.enable_grad():
            optimizer.zero_grad()
            model(x).square().mean().backward()
        optimizer.step()
        same(fast(x), model(x))
    (report,) = disc.report(fast).to_dict()["graphs"]
    assert report["coverage"] == 1.0
    # They are inputs now.
    assert disc.report(fast).to_dict()["weight_bytes"] == 0


@pytest.mark.parametrize("compiles", [False, True], ids=["eager", "compiled"])
def test_steps_of_fused_optimizers_are_seen(compiles):
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    fast = compiled(model, dynamic=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    step = torch.compile(optimizer.step, backend="disc") if compiles else optimizer.step
    x = torch.eye(64)
    for row in range(3):
        same(fast(x), model(x))
        for weight in model.parameters():
            weight.grad = torch.zeros_like(weight)
        # Not one of the elements that are compared.
        model[0].weight.grad[row + 3] = 1.0
        step()
    same(fast(x), model(x))
