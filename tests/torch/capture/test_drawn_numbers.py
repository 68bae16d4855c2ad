"""Modules that draw random numbers of Python or NumPy: each call draws its own, as in eager."""

from __future__ import annotations

import random

import disc
import numpy
import pytest
import torch
from torch import nn


class Scaled(nn.Module):
    """Scales by a number that a function draws."""

    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def forward(self, x):
        return x * float(self.draw())


class Permuted(nn.Module):
    def forward(self, x):
        return x[:, torch.from_numpy(numpy.random.permutation(4))]


class Seeded(nn.Module):
    """Draws the same numbers in each call, as the random attention of BigBird in training."""

    def forward(self, x):
        numpy.random.seed(3)
        return x * float(numpy.random.rand())


class Dropped(nn.Module):
    """Leaves a layer out now and then, in training."""

    def forward(self, x):
        return x if self.training and random.random() < 0.5 else x * 2


class Own(nn.Module):
    """Draws from generators that the module holds."""

    def __init__(self, make):
        super().__init__()
        self.generator = make()

    def forward(self, x):
        return x * float(self.generator.random())


KINDS = {
    "python": lambda: Scaled(lambda: random.random()),
    "numpy": lambda: Scaled(lambda: numpy.random.rand()),
    "permutation": Permuted,
    "seeded": Seeded,
    "dropped": Dropped,
    "a random.Random": lambda: Own(lambda: random.Random(0)),
    "a numpy.random.Generator": lambda: Own(lambda: numpy.random.default_rng(0)),
    "a numpy.random.RandomState": lambda: Own(lambda: numpy.random.RandomState(0)),
}


def seed():
    random.seed(5)
    numpy.random.seed(5)


def positions():
    return random.random(), numpy.random.rand()


@pytest.mark.fallback
@pytest.mark.parametrize("kind", KINDS)
def test_each_call_draws_as_in_eager_mode(kind):
    eager, module = KINDS[kind](), KINDS[kind]()
    x = torch.randn(3, 4)
    seed()
    wanted, after = [eager(x) for _ in range(6)], positions()
    seed()
    fast = disc.optimize(module)
    got, ours = [fast(x) for _ in range(6)], positions()
    torch.testing.assert_close(got, wanted)
    assert ours == after
    (row,) = disc.report(fast).to_dict()["fallbacks"]
    assert "draws random numbers of" in row["reason"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_says_whose_numbers_are_drawn(kind):
    seed()
    with pytest.raises(disc.Error, match=r"E0405.*draws random numbers of (Python|NumPy)"):
        disc.optimize(KINDS[kind](), torch.randn(3, 4))
    ours = positions()
    seed()
    assert ours == positions()


def test_a_module_that_draws_in_training_only_is_compiled_for_inference(compile_module):
    module = Dropped().eval()
    compiled = compile_module(module, (torch.randn(3, 4),))
    x = torch.randn(5, 4)
    torch.testing.assert_close(compiled(x), module(x))
