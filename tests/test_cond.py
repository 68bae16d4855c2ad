"""``torch.cond`` in modules: both ways of one compile, at several sizes, against eager."""

from __future__ import annotations

import disc
import pytest
import torch
from torch import nn


class Sides(nn.Module):
    """Sides with weights of their own, several results and sizes; the condition may lie within another."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        def small(x):
            return torch.cond(x.max() > 2, lambda x: x - 1, lambda x: x + 1, (x,)), x.sum()

        def large(x):
            return self.second(x).relu(), x.mean() * 2

        y, z = torch.cond(self.first(x).mean() > 0, large, small, (x,))
        return y + 1, z


def expected(model, x):
    """What ``Sides`` computes, in plain Python: eager ``torch.cond`` compiles."""
    if model.first(x).mean() > 0:
        y, z = model.second(x).relu(), x.mean() * 2
    else:
        y, z = (x - 1 if x.max() > 2 else x + 1), x.sum()
    return y + 1, z


def test_both_ways(compile_module):
    torch.manual_seed(0)
    model = Sides()
    inputs = [torch.randn(n, 4) * scale for n in (3, 1, 7, 20) for scale in (1, -1, 0.1, 5)]
    compiled = compile_module(model, (inputs[0],))
    with torch.no_grad():
        ways = {(bool(model.first(x).mean() > 0), bool(x.max() > 2)) for x in inputs}
        for x in inputs:
            torch.testing.assert_close(compiled(x), expected(model, x))
    assert {way for way, _ in ways} == {True, False}
    assert (False, True) in ways
    assert (False, False) in ways


def test_a_condition_on_sizes(compile_module):
    class Model(nn.Module):
        def forward(self, x):
            return torch.cond(x.shape[0] > 3, lambda x: x + 1, lambda x: x - 1, (x,))

    compiled = compile_module(Model(), (torch.zeros(3, 2),))
    for size in (2, 3, 4, 9):
        assert torch.equal(compiled(torch.zeros(size, 2)), torch.full((size, 2), 1.0 if size > 3 else -1.0))


def test_what_a_side_does_not_take_is_not_seen(compile_module):
    """A NaN of the other side stays there."""

    class Model(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, torch.log, torch.exp, (x,))

    compiled = compile_module(Model(), (torch.ones(3),))
    x = torch.tensor([-1.0, -2.0])
    torch.testing.assert_close(compiled(x), x.exp())
    torch.testing.assert_close(compiled(-x), (-x).log())


def test_an_op_within_that_has_no_entry_is_named():
    class Model(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, torch.linalg.eigvalsh, lambda x: x.sum(0), (x,))

    with pytest.raises(disc.UnsupportedOp, match=r"eigvalsh.*test_cond.py:\d+"):
        disc.optimize(Model(), torch.eye(3))
