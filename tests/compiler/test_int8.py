"""Rows as int8 beside weights of int8 (``Options(activations=)``), and integer products that a
model writes itself, against integers.
"""

from __future__ import annotations

import dataclasses

import disc
import pytest
import torch
from torch import nn

INT8 = disc.Options(weights="int8", activations="int8")


def bound(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The error of docs/numerics.md for rows ``x`` and weights ``w [columns, sums]``."""
    r, s = x.abs().amax(1, keepdim=True) / 127, w.abs().amax(1) / 127
    return x.abs().sum(1, keepdim=True) * s / 2 + w.abs().sum(1) * r / 2 + w.shape[1] * r * s / 4 + 1e-5


@pytest.mark.parametrize(("sums", "columns"), [(64, 48), (63, 33), (50, 70), (768, 96)])
def test_rows_of_int8_are_within_their_bound(sums, columns):
    layer = nn.Linear(sums, columns).eval()
    fast = disc.optimize(layer, torch.randn(3, sums), options=INT8)
    for rows in (0, 1, 2, 17, 40):
        x = torch.randn(rows, sums)
        with torch.no_grad():
            got, expected = fast(x), layer(x)
        assert ((got - expected).abs() <= bound(x, layer.weight.detach())).all()
    assert (got != expected).any()


def test_a_row_does_not_depend_on_the_others():
    layer = nn.Linear(96, 80).eval()
    fast = disc.optimize(layer, torch.randn(3, 96), options=INT8)
    x = torch.randn(41, 96)
    with torch.no_grad():
        together = fast(x)
        assert all(torch.equal(fast(x[i : i + 1])[0], together[i]) for i in range(41))


def test_a_row_that_is_not_finite_gives_no_finite_result():
    layer = nn.Linear(64, 40).eval()
    fast = disc.optimize(layer, torch.randn(3, 64), options=INT8)
    x = torch.randn(4, 64)
    x[0, 3], x[2, 5], x[3] = float("nan"), float("inf"), 0.0
    with torch.no_grad():
        got = fast(x)
    assert got[0].isnan().all()
    assert not got[2].isfinite().any()
    assert got[1].isfinite().all()
    assert torch.equal(got[3], layer.bias)


def test_a_check_rounds_rows_too():
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 64)).eval()
    fast = disc.optimize(model, torch.randn(5, 64), options=dataclasses.replace(INT8, watch="off"))
    found = disc.check(fast, torch.randn(20, 64))
    assert found.ok, found
    with torch.no_grad():
        model[0].weight.mul_(1.5)
    assert not disc.check(fast, torch.randn(20, 64))


def test_rows_of_int8_need_weights_of_int8():
    with pytest.raises(disc.Error, match="expected `weights` as int8"):
        disc.optimize(nn.Linear(64, 64).eval(), torch.randn(3, 64), options=disc.Options(activations="int8"))
    with pytest.raises(disc.Error, match="activations"):
        disc.Options(weights="int8", activations="int4")
    compiled = torch.compile(nn.Linear(64, 64).eval(), backend="disc", options={"activations": "int8"})
    with torch.no_grad(), pytest.raises(Exception, match="expected `weights` as int8"):
        compiled(torch.randn(3, 64))


class Requantised(nn.Module):
    """A linear layer of integers with zero points, scales by column, and a result of int8."""

    def __init__(self, sums: int, columns: int):
        super().__init__()
        self.register_buffer("weight", torch.randint(-128, 128, (sums, columns)).to(torch.int8))
        self.register_buffer("scale", torch.rand(columns) * 1e-4 + 1e-6)
        self.register_buffer("of_columns", self.weight.to(torch.int32).sum(0, dtype=torch.int32))
        self.zero, self.zero_of_result = -7, 3

    def forward(self, x):
        sums = torch._int_mm(x, self.weight) - self.zero * self.of_columns
        steps = (sums.float() * self.scale).round() + self.zero_of_result
        return sums, steps.clamp(-128, 127).to(torch.int8)


@pytest.mark.parametrize(("sums", "columns"), [(64, 48), (24, 40), (200, 72)])
def test_products_of_integers_are_exact(sums, columns):
    model = Requantised(sums, columns)
    fast = disc.optimize(model, torch.zeros(20, sums, dtype=torch.int8))
    for rows in (17, 33, 100):
        x = torch.randint(-128, 128, (rows, sums)).to(torch.int8)
        exact = (x.long() - model.zero) @ model.weight.long()
        got, steps = fast(x)
        assert torch.equal(got.long(), exact)
        wanted = (exact.float() * model.scale).round() + model.zero_of_result
        assert torch.equal(steps, wanted.clamp(-128, 127).to(torch.int8))
