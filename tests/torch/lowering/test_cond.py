"""``torch.cond`` and ``while_loop`` in modules: all ways of one compile, at several sizes,
against plain Python.
"""

from __future__ import annotations

import disc
import pytest
import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop


class Sides(nn.Module):
    """Sides with weights of their own, several results and sizes;
    the condition may be within another.
    """

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
    """Computes ``Sides`` in plain Python: eager ``torch.cond`` compiles."""
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


def test_a_side_that_is_not_taken_reads_nothing_and_binds_no_sizes(compile_module):
    class Model(nn.Module):
        def forward(self, x, at):
            def chosen(x, at):
                return x[at].sum() + x[x > 0].sum()

            return torch.cond(at.max() < x.shape[0], chosen, lambda x, at: x[1] * x[x < 0].sum(), (x, at))

    x = torch.tensor([1.0, -2.0, 3.0])
    compiled = compile_module(Model(), (x, torch.tensor([2, 0])))
    for at in ([2, 0], [0, 1], [7, 1], [1, 1]):
        at = torch.tensor(at)
        expected = x[at].sum() + 4 if at.max() < 3 else torch.tensor(4.0)
        torch.testing.assert_close(compiled(x, at), expected)
    with pytest.raises(disc.Error, match="out of range"):
        compiled(x, torch.tensor([0, -9]))
    torch.testing.assert_close(compiled(x, torch.tensor([9, -9])), torch.tensor(4.0))


class Until(nn.Module):
    """A layer again and again until a norm is small, or for some steps,
    each of which takes one side of a branch.
    """

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x, most):
        def more(y, k):
            return (y.norm() > 0.1) & (k < most.sum())

        def step(y, k):
            y = torch.cond(k % 2 == 0, lambda y: torch.tanh(self.inner(y)), lambda y: y * 0.7, (y,))
            return y, k + 1

        y, k = while_loop(more, step, (x, torch.zeros((), dtype=torch.int32)))
        return y * 2, k, x[:, :2] + y[:, 2:]

    def plain(self, x, most):
        y, k = x, torch.zeros((), dtype=torch.int32)
        while y.norm() > 0.1 and k < most.sum():
            y, k = torch.tanh(self.inner(y)) if k % 2 == 0 else y * 0.7, k + 1
        return y * 2, k, x[:, :2] + y[:, 2:]


def test_loops_run_as_often_as_data_and_sizes_say(compile_module):
    torch.manual_seed(0)
    model = Until()
    compiled = compile_module(model, (torch.randn(3, 4), torch.tensor([5])))
    steps = set()
    for rows, most in ((3, 5), (1, 9), (8, 0), (2, 100), (0, 3)):
        inputs = torch.randn(rows, 4), torch.tensor([most])
        with torch.no_grad():
            expected = model.plain(*inputs)
            torch.testing.assert_close(compiled(*inputs), expected)
        steps.add(int(expected[1]))
    assert {0, 5} <= steps
    assert len(steps) > 3


def test_numbers_that_loops_carry(compile_module):
    class Model(nn.Module):
        def forward(self, x):
            return while_loop(
                lambda i, y: i < x.shape[0],
                lambda i, y: (i + 2, y * 1.5 + x[i]),
                (x.shape[0] - 4, torch.zeros(2)),
            )

    compiled = compile_module(Model(), (torch.ones(5, 2),))
    for n in (5, 4, 9):
        x = torch.rand(n, 2)
        y = torch.zeros(2)
        for i in range(n - 4, n, 2):
            y = y * 1.5 + x[i]
        end, found = compiled(x)
        assert int(end) == n
        torch.testing.assert_close(found, y)


def test_ops_in_loops_that_have_no_entry_are_all_named():
    class Model(nn.Module):
        def forward(self, x):
            return while_loop(
                lambda y: torch.linalg.det(y) > 1, lambda y: (torch.linalg.inv(y).contiguous(),), (x,)
            )

    with pytest.raises(disc.UnsupportedOp) as error:
        disc.optimize(Model(), torch.eye(3))
    assert "det" in str(error.value)
    assert "inv" in str(error.value)


def test_a_size_from_data_in_several_regions_and_behind_them(compile_module):
    class Model(nn.Module):
        def forward(self, x):
            m = x > 0
            y = torch.cond(x.sum() > 1, lambda x, m: x[m].sum(), lambda x, m: (x[m] * 2).sum(), (x, m))
            return y, x[m] + 1

    compiled = compile_module(Model(), (torch.tensor([1.0, -2.0, 3.0]),))
    for values in ([1.0, -2.0, 3.0], [0.5, -2.0], [-1.0], [2.0]):
        x = torch.tensor(values)
        chosen = x[x > 0].sum()
        y, z = compiled(x)
        torch.testing.assert_close(y, chosen if x.sum() > 1 else chosen * 2)
        torch.testing.assert_close(z, x[x > 0] + 1)


def test_a_carried_number_as_a_size(compile_module):
    class Model(nn.Module):
        def forward(self, x):
            def more(i, y):
                return (torch.ones(i).sum() < x.shape[0]) & (y.sum() < 100)

            def step(i, y):
                return i + 1, y + torch.arange(i).sum()

            return while_loop(more, step, (1, x))

    compiled = compile_module(Model(), (torch.zeros(4),))
    for n in (4, 1, 6):
        i, y = 1, torch.rand(n)
        end, found = compiled(y)
        while i < n and y.sum() < 100:
            i, y = i + 1, y + torch.arange(i).sum()
        assert int(end) == i
        torch.testing.assert_close(found, y)


class Writes(nn.Module):
    """A side that writes to what it is given, or to a buffer."""

    def __init__(self, to):
        super().__init__()
        self.register_buffer("n", torch.zeros(2))
        self.to = to

    def forward(self, x):
        y = x * 2

        def side(y):
            (self.n if self.to == "buffer" else y).add_(1)
            return y * 1

        return y + torch.cond(x.sum() > 0, side, lambda y: y - 1, (y,))


@pytest.mark.parametrize("to", ["buffer", "operand"])
def test_writes_to_what_is_outside_are_refused(to):
    with torch.no_grad(), pytest.raises(disc.Error, match=r"in place \(test_cond.py:\d+\)") as caught:
        disc.optimize(Writes(to), torch.ones(2))
    assert caught.value.code == "E0405"


class WritesInLoop(nn.Module):
    """A loop whose condition or body writes to what it carries, to a tensor of its model,
    or to a buffer.
    """

    def __init__(self, to, where):
        super().__init__()
        self.register_buffer("n", torch.zeros(2))
        self.to, self.where = to, where

    def forward(self, x):
        y = x * 2

        def write(z):
            {"buffer": self.n, "outer": y, "carried": z}[self.to].add_(1)

        def more(i, z):
            if self.where == "condition":
                write(z)
            return i < 3

        def step(i, z):
            if self.where == "body":
                write(z)
            return i + 1, z * 1.5

        return y + while_loop(more, step, (torch.zeros((), dtype=torch.int64), y))[1]


@pytest.mark.parametrize("where", ["condition", "body"])
@pytest.mark.parametrize("to", ["buffer", "outer", "carried"])
def test_writes_of_loops_to_what_is_outside_are_refused(to, where):
    with torch.no_grad(), pytest.raises(disc.Error, match=r"in place \(test_cond.py:\d+\)") as caught:
        disc.optimize(WritesInLoop(to, where), torch.ones(2))
    assert caught.value.code == "E0405"
