"""Sizes as arguments of functions that torch gives plain numbers: they stay open.

One compile, several sizes, against eager.
"""

from __future__ import annotations

import math
import re

import disc
import pytest
import torch
from disc.torch.overrides import functions
from model_check import Function
from torch.nn import functional as F

FUNCTIONS = {
    "max over all words": lambda x: F.max_pool1d(x, x.size(2)).squeeze(2),
    "max over a plane": lambda x: F.max_pool2d(x, x.shape[-2:]),
    "max over rows alone": lambda x: torch.max_pool2d(x[None], (x.shape[1], 1), stride=(1, 1)),
    "max of part": lambda x: F.max_pool2d(x[None], kernel_size=(1, x.shape[2]), ceil_mode=True),
    "mean over a plane": lambda x: F.avg_pool2d(x[None], kernel_size=x.size()[1:]),
    "mean over all words": lambda x: F.avg_pool1d(x, x.shape[-1], padding=0),
    "adaptive mean": lambda x: F.adaptive_avg_pool1d(x, x.shape[1]),
    "one hot": lambda x: F.one_hot(x.argmax(-1), x.shape[-1]),
    "one hot, at least 3": lambda x: F.one_hot(x.argmax(-1), num_classes=max(x.shape[-1], 3)),
    "one window": lambda x: x.unfold(1, x.shape[1], 1),
    "windows side by side": lambda x: x.unfold(2, (x.shape[2] + 1) // 2, (x.shape[2] + 1) // 2),
    "windows of half": lambda x: x.unfold(-1, (x.shape[2] + 1) // 2, 2),
    "triangle": lambda x: x[:, 0][..., torch.triu_indices(x.shape[2], x.shape[2], 1)[1]],
    "lower triangle": lambda x: torch.tril_indices(x.shape[1], x.shape[2], offset=-1),
    "a tensor of a size": lambda x: x * torch.as_tensor(x.shape[1], dtype=torch.float32) ** -0.5,
    "logarithms": lambda x: x * math.log(x.shape[1] + 1) + math.log2(x.shape[2]) * math.log10(x.shape[2] + 1),
    "logarithm to a base": lambda x: x * math.log(x.shape[1] + 1, 3),
    "rounded": lambda x: x * round(x.shape[1] / 2) + round(x.shape[2] * 1.25),
    "rounded up below zero": lambda x: torch.arange(5, -x.shape[1], -2.0),
    "rounded towards zero": lambda x: x * math.trunc((3 - x.shape[1]) / 2),
    "a slice between tensors": lambda x: x[:, : torch.tensor(min(x.shape[1], 3)) * 2 - 1],
    "clamped by a tensor": lambda x: x.argmax(-1).clamp(0, torch.tensor(x.shape[2]) - 1),
    "logarithmic steps": lambda x: torch.logspace(-1, 2, x.shape[1], base=2.0) + x.shape[1],
    "adaptive maxima": lambda x: F.adaptive_max_pool2d(x, (x.shape[2], x.shape[1])),
    "adaptive maxima of lines": lambda x: F.adaptive_max_pool1d(x.abs().log(), x.shape[1] + 1),
    "factors that are no binary fractions": lambda x: (
        x[:, : round(x.shape[1] * 0.3)],
        x[:, int(x.shape[1] * 0.6) :],
        torch.zeros(math.ceil(1.3 * x.shape[2])),
    ),
    "windows of a size": lambda x: (
        x * torch.hann_window(x.shape[2])
        + torch.hamming_window(x.shape[2], False)
        - torch.hamming_window(x.shape[2], True, 0.6, beta=0.3) * torch.blackman_window(x.shape[2])
    ),
    "frequencies": lambda x: x * torch.fft.fftfreq(x.shape[2], d=0.5) + torch.fft.rfftfreq(x.shape[1])[-1],
    "a diagonal at a size": lambda x: (x.diagonal(x.shape[1] // 2, 1, 2), torch.diag(x[0], 1 - x.shape[1])),
    "as many groups as images": lambda x: F.conv2d(
        x.view(1, -1, *x.shape[1:]),
        torch.ones(3, 2).expand(2 * x.shape[0], 1, 3, 2),
        groups=x.shape[0],
        padding=1,
    ),
    "as many groups as images, without padding": lambda x: F.conv2d(
        x.view(1, -1, *x.shape[1:]),
        torch.ones(1, 1).expand(x.shape[0], 1, 1, 1),
        None,
        (1, 2),
        "valid",
        1,
        x.shape[0],
    ),
    "divmod": lambda x: x * divmod(x.shape[2], 2)[0] + divmod(x.shape[1], 3)[1],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_size_as_an_argument_stays_open(name, compile_module):
    function = FUNCTIONS[name]
    inputs = [torch.randn(shape) for shape in ((2, 4, 8), (1, 1, 1), (3, 7, 5), (2, 9, 30))]
    compiled = compile_module(Function(function), (inputs[0],))
    for x in inputs:
        torch.testing.assert_close(compiled(x), function(x))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 3, -2])
def test_bags_of_one_length_are_read_in_place(mode, padding, compile_module):
    torch.manual_seed(0)
    module = torch.nn.EmbeddingBag(30, 8, mode=mode, padding_idx=padding).eval()
    # The last bag holds only padding.
    bags = [torch.randint(0, 30, shape) for shape in ((3, 5), (1, 1), (0, 3), (7, 33), (2, 1))]
    for bag in bags:
        bag[-1:] = 3 if padding is None else padding % 30
    compiled = compile_module(module, (bags[0],))
    for bag in bags:
        torch.testing.assert_close(compiled(bag), module(bag))
    assert disc.report(compiled).to_dict()["kernels"] == (1 if padding is None or mode == "sum" else 2)


def test_bags_of_one_length_have_scales(compile_module):
    module = torch.nn.EmbeddingBag(30, 8, mode="sum", padding_idx=4).eval()
    inputs = [(torch.randint(0, 30, shape), None, torch.randn(shape)) for shape in ((3, 5), (1, 1), (7, 9))]
    compiled = compile_module(module, inputs[0])
    for args in inputs:
        torch.testing.assert_close(compiled(*args), module(*args))


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "prod"},
        {"mode": "mean", "per_sample_weights": torch.ones(3, 5)},
        {"mode": "sum", "per_sample_weights": torch.ones(1, 5)},
        {"mode": "sum", "padding_idx": 30},
    ],
    ids=["mode", "scaled mean", "scales", "padding"],
)
def test_bags_that_torch_refuses_are_refused(options):
    def bags(x):
        return F.embedding_bag(x, torch.ones(30, 8), **options)

    x = torch.randint(0, 30, (3, 5))
    with pytest.raises((RuntimeError, ValueError, NotImplementedError)) as expected:
        bags(x)
    with pytest.raises(disc.Error, match=re.escape(str(expected.value)[:40])):
        disc.optimize(Function(bags), (x,))


@pytest.mark.parametrize("name", ["one hot", "mean over a plane", "triangle"])
def test_beside_a_size_that_depends_on_data(name, compile_module):
    def both(x):
        return FUNCTIONS[name](x), x[x > 0]

    inputs = [torch.randn(shape) for shape in ((2, 4, 8), (1, 1, 1), (3, 7, 5))]
    compiled = compile_module(Function(both), (inputs[0],))
    for x in inputs:
        torch.testing.assert_close(compiled(x), both(x))


def test_a_pool_of_another_size_is_what_it_was(compile_module):
    """A window that is no whole axis fixes its size, as a padded one does;
    a pool of numbers is not touched.
    """
    x = torch.randn(2, 6, 8)
    for function in (
        lambda x: F.max_pool1d(x, x.shape[2] // 2),
        lambda x: F.avg_pool1d(x, x.shape[2], padding=1),
        lambda x: F.max_pool1d(x, x.shape[2], return_indices=True)[1],
    ):
        torch.testing.assert_close(compile_module(Function(function), (x,))(x), function(x))


@pytest.mark.parametrize("offset", range(-4, 5))
def test_indices_of_triangles(offset):
    for name in ("tril_indices", "triu_indices"):
        ours, theirs = getattr(functions, name), getattr(torch, name)
        for rows in range(6):
            for columns in range(6):
                expected = theirs(rows, columns, offset)
                assert torch.equal(ours(rows, columns, offset), expected)
        assert ours(2, 3, offset, dtype=torch.int32).dtype is torch.int32
