"""The step of an optimizer, compiled as one function by ``torch.compile(backend="disc")``."""

from __future__ import annotations

import disc
import pytest
import torch
from torch import nn

SHAPES = ((8, 4), (33,), (5, 7), (1,))
#: Optimizers of torch, with options; each in both forms.
OPTIMIZERS = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {}),
    ("AdamW", {"maximize": True}),
    ("Adagrad", {}),
    ("Adadelta", {}),
    ("Adamax", {}),
    ("NAdam", {}),
    ("RAdam", {}),
    ("RMSprop", {"centered": True, "momentum": 0.9}),
    ("Rprop", {}),
]


@pytest.fixture(autouse=True)
def _anew():
    torch.manual_seed(0)
    torch._dynamo.reset()


def parameters(shapes=SHAPES) -> list[nn.Parameter]:
    return [nn.Parameter(torch.randn(shape)) for shape in shapes]


def copies(held) -> list[nn.Parameter]:
    return [nn.Parameter(p.detach().clone()) for p in held]


def give_gradients(*several) -> None:
    for together in zip(*several, strict=True):
        gradient = torch.randn_like(together[0])
        for p in together:
            p.grad = gradient.clone()


def compiled_step(optimizer):
    def step():
        optimizer.step()

    return torch.compile(step, backend="disc")


def run_beside(step, other, held, others, times: int) -> None:
    """Steps of two optimizers, each over its own tensors, by the same gradients."""
    for _ in range(times):
        give_gradients(held, others)
        step()
        other.step()


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_steps_are_those_of_torch(name, options, foreach):
    ours = parameters()
    theirs = copies(ours)
    make = getattr(torch.optim, name)
    first, second = (make(held, lr=0.01, foreach=foreach, **options) for held in (ours, theirs))
    step = compiled_step(first)
    run_beside(step, second, ours, theirs, 6)
    # Where a difference of two moments is near zero, its root keeps half of the digits.
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=3e-5)
    report = disc.report(step).to_dict()
    assert report["fallbacks"] == []
    assert report["coverage"] == 1.0
    states = (optimizer.state_dict()["state"] for optimizer in (first, second))
    torch.testing.assert_close(*states, rtol=1e-4, atol=3e-5)


def test_a_learning_rate_in_a_tensor_changes_without_a_new_graph():
    ours = parameters()
    theirs = copies(ours)
    rate = torch.tensor(0.01)
    first, second = torch.optim.AdamW(ours, lr=rate), torch.optim.AdamW(theirs, lr=0.01)
    step = compiled_step(first)
    for i in range(4):
        give_gradients(ours, theirs)
        step()
        second.step()
        rate.fill_(0.01 / (i + 2))
        second.param_groups[0]["lr"] = 0.01 / (i + 2)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert len(disc.report(step).to_dict()["graphs"]) == 1


def test_two_hundred_tensors():
    held = parameters([(size % 7 + 9, size % 5 + 11) for size in range(200)])
    others = copies(held)
    first, second = (torch.optim.AdamW(p, lr=0.01, foreach=True) for p in (held, others))
    step = compiled_step(first)
    run_beside(step, second, held, others, 3)
    torch.testing.assert_close(held, others, rtol=1e-4, atol=1e-5)
    report = disc.report(step).to_dict()
    assert report["coverage"] == 1.0
    assert report["kernels"] <= 20


@pytest.mark.fallback
def test_ops_over_lists_in_parts():
    """A write of torch to a list between compiled parts is seen by those that follow."""

    def f(xs, ys):
        torch._foreach_mul_(xs, 2.0)
        torch._foreach_add_(ys, xs)
        return torch.stack([x + y for x, y in zip(xs, ys, strict=True)])

    options = disc.Options(
        block_ops=("aten.mul.Tensor", "aten.mul.Scalar"), fallback="framework", min_cluster_size=1
    )
    given = [[torch.randn(4) for _ in range(2)] for _ in range(2)]
    expected = [[t.clone() for t in several] for several in given]
    fast = torch.compile(f, backend="disc", options={"block_ops": options.block_ops, "fallback": "framework"})
    with torch.no_grad():
        torch.testing.assert_close(fast(*given), f(*expected))
    torch.testing.assert_close(given, expected)
