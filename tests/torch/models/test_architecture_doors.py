"""The entry points of ``tests/support/architectures.py`` see differences and count graphs."""

from __future__ import annotations

import architecture_doors
import pytest
import torch
from architecture_doors import Outcome, alike, difference
from architecture_models import Architecture
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)

    def forward(self, x, attention_mask=None):
        y = torch.relu(self.up(x))
        return y if attention_mask is None else y * attention_mask[..., None]


class Counted(Scaled):
    """Dynamo splits it."""

    def forward(self, x):
        y = super().forward(x)
        torch._dynamo.graph_break()
        return y + 1


def _architecture(kind) -> Architecture:
    return Architecture(
        "toy", lambda: kind().eval(), lambda: [{"x": torch.randn(n, 3, 4)} for n in (2, 5, 3)]
    )


@pytest.mark.parametrize(("kind", "graphs"), [(Scaled, 1), (Counted, 2)])
def test_graphs_are_counted_beside_those_of_dynamo(kind, graphs):
    torch._dynamo.reset()
    row = architecture_doors.by_compile(_architecture(kind))
    assert (row["kind"], row["served"], row["coverage"], row["faults"]) == ("whole", 3, 1.0, [])
    assert (row["graphs"], row["graphs_of_dynamo"]) == (graphs, graphs)


def test_gradients_are_compared():
    torch._dynamo.reset()
    row = architecture_doors.DOORS["train"].tried(_architecture(Scaled))
    assert (row["kind"], row["served"], row["coverage"], row["faults"]) == ("whole", 3, 1.0, [])
    module, call = Scaled(), {"x": torch.randn(2, 3, 4)}
    expected = architecture_doors.step(module, call)
    module.up.bias.register_hook(lambda gradient: gradient * 1.1)
    assert difference(architecture_doors.step(module, call), expected)[0] == "wrong"
    module.up.bias.requires_grad_(False)
    assert difference(architecture_doors.step(module, call), expected)[0] == "wrong"


def test_differences_are_seen():
    one = Outcome((torch.ones(2), 3))
    assert difference(Outcome((torch.ones(2), 3)), one) is None
    for other in (
        (torch.ones(2) + 1e-3, 3),
        (torch.ones(2), 4),
        (torch.ones(2).double(), 3),
        (torch.ones(2),),
    ):
        assert difference(Outcome(other), one)[0] == "wrong"
    failed = Outcome(error=ValueError("no"))
    assert difference(failed, one)[0] == "error"
    assert difference(one, failed)[0] == "wrong"
    assert difference(failed, failed) is None


def test_calls_are_made_alike():
    first, second = alike(
        [
            {"input_ids": torch.ones(1, 5)},
            {"input_ids": torch.ones(3, 2), "attention_mask": torch.zeros(3, 2)},
        ]
    )
    assert first["input_ids"].shape == first["attention_mask"].shape == (2, 5)
    assert not second["attention_mask"].any()
