"""Second derivatives of graphs that ``torch.compile(backend="disc")`` compiled."""

from __future__ import annotations

import copy
import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

pytestmark = pytest.mark.fallback


@pytest.fixture(autouse=True)
def _anew():
    torch.manual_seed(0)
    torch._dynamo.reset()


def compiled(function):
    return torch.compile(function, backend="disc", dynamic=True, options={"fallback": "framework"})


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 24)

    def forward(self, x):
        parts = self.project(x).view(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(*parts)


class Halves(nn.Module):
    """Returns views of one tensor."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 6)

    def forward(self, x):
        return self.project(x).tanh().chunk(2, -1)


MODELS = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 1)), (8,)),
    "convolution": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.GELU(), nn.Conv2d(4, 1, 3)), (3, 7, 6)),
    "batch_norm": (lambda: nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.GELU()), (8,)),
    "layer_norm": (lambda: nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.SiLU()), (8,)),
    "attention": (Attention, (5, 8)),
    "views": (Halves, (8,)),
}


def penalised(run, x):
    """A loss with a gradient penalty, that gradient, and a gradient of the loss."""
    results = run(x.sin())
    results = results if isinstance(results, tuple) else (results,)
    score = sum(result.square().sum() * (i + 1) for i, result in enumerate(results))
    (first,) = torch.autograd.grad(score, x, create_graph=True)
    loss = (first.flatten(1).norm(dim=1) - 1).square().mean() + score
    (second,) = torch.autograd.grad(loss, x, create_graph=True)
    (loss + second.square().sum()).backward()
    return [loss, first, second, x.grad]


@pytest.mark.parametrize("name", MODELS)
def test_a_gradient_penalty_is_that_of_eager_mode(name):
    make, shape = MODELS[name]
    model = make().double()
    expected = copy.deepcopy(model)
    fast = compiled(model)
    for rows in (3, 4):
        x = torch.randn(rows, *shape, dtype=torch.float64)
        got = penalised(fast, x.clone().requires_grad_())
        with sdpa_kernel(SDPBackend.MATH):
            wanted = penalised(expected, x.clone().requires_grad_())
        torch.testing.assert_close(got, wanted)
        for ours, theirs in zip(model.parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad)
        for ours, theirs in zip(model.buffers(), expected.buffers(), strict=True):
            torch.testing.assert_close(ours, theirs)


def test_arguments_that_are_computed_from_each_other():
    def f(x, y):
        return (x * y).exp().sum()

    found = []
    for run in (compiled(f), f):
        x = torch.linspace(-1, 1, 4, dtype=torch.float64).requires_grad_()
        (first,) = torch.autograd.grad(run(x, x.cos()), x, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), x)[0])
    torch.testing.assert_close(*found)


def test_random_numbers_are_not_drawn_again():
    fast = compiled(lambda x: F.dropout(x**3, 0.5, training=True).sum())
    x = torch.randn(4, requires_grad=True)
    (first,) = torch.autograd.grad(fast(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"no double backward .*: it draws random numbers"):
        first.sum().backward()


@pytest.mark.parametrize("change", [True, False])
def test_arguments_that_the_backward_part_does_not_need(change):
    fast = compiled(lambda x, y: (x + y).sin().sum())

    def first(x):
        y = x * 2
        loss = fast(x, y)
        if change:
            with torch.no_grad():
                y.add_(1)
        else:
            del y
        return torch.autograd.grad(loss, x, create_graph=True)[0]

    x = torch.randn(4, dtype=torch.float64, requires_grad=True)
    fast(x, x * 2)  # a call that compiles keeps its arguments
    got = first(x)
    torch.testing.assert_close(got, 3 * (3 * x).cos())
    if change:
        with pytest.raises(RuntimeError, match="changed in place"):
            got.sum().backward()
        return
    with pytest.raises(RuntimeError, match="is freed"):
        got.sum().backward()
    # From then on they are kept.
    first(x).sum().backward()
    torch.testing.assert_close(x.grad, -9 * (3 * x).sin())


def test_a_step_without_create_graph_keeps_no_argument():
    model = nn.Sequential(nn.Linear(8, 4), nn.GELU())
    fast = compiled(model)
    loss = fast(torch.randn(3, 8)).sum()
    loss.backward()
    x = torch.randn(5, 8)
    seen = weakref.ref(x)
    loss = fast(x).sum()
    loss.backward()
    del x
    gc.collect()
    assert seen() is None
