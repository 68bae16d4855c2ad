"""Counts kernels: programs have one, or so many, at all sizes;
results are right at 0, 1 and odd sizes too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.nn import functional as F

disc = pytest.importorskip("disc")

HEADS, WIDTH = 3, 32
SIZES = ((2, 7), (0, 3), (3, 0), (1, 1), (1, 5), (7, 7), (3, 33))


class Case(NamedTuple):
    function: Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]
    #: The inputs of two sizes.
    inputs: Callable[[int, int], tuple[torch.Tensor, ...]]
    dims: tuple[dict[int, str], ...]
    kernels: int


class Whole(nn.Module):
    """A function as a module."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def rms(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def by_heads(x):
    return x.view(*x.shape[:2], HEADS, WIDTH).transpose(1, 2)


def rotated(x):
    low, high = x.chunk(2, -1)
    return torch.cat((-high, low), -1)


def norm_of_heads(x, weight):
    return by_heads(rms(x, weight)).contiguous()


def layer_norm_and_its_heads(x, weight):
    y = F.layer_norm(x, (HEADS * WIDTH,), weight)
    return y, by_heads(y) * 2


def rotary_heads(x, weight, cos, sin):
    y = rms(x.view(*x.shape[:2], HEADS, WIDTH), weight).transpose(1, 2)
    return y * cos + rotated(y) * sin


def repeated(x, y):
    return x.repeat_interleave(2, -1) * y, x.repeat_interleave(7, -1).sum(-1)


def shared(x, angles):
    return x * angles.repeat_interleave(2, -1)


def in_blocks(x):
    block = torch.arange(x.shape[1]) // 4
    return x.masked_fill(block != (torch.arange(x.shape[0]) // 7)[:, None], -1.0)


def in_turns(x):
    turn = torch.arange(x.shape[1]) % 3
    return torch.softmax(x.masked_fill(turn == (torch.arange(x.shape[0]) % 2)[:, None], -1e9), -1)


def blocks(x, y):
    return torch.arange(x.shape[0]) // 4 == torch.arange(y.shape[1])[:, None] // 4


def scaled(x, w):
    return x * torch.exp(w)


def scaled_norm(x, w, scale, shift):
    y = F.layer_norm(x, (x.shape[-1],)) * torch.exp(w)
    return y * F.silu(scale)[:, None] + torch.tanh(shift)[:, None]


def gated(x, gate, temperature):
    return x * torch.sigmoid(gate)[..., None] * torch.exp(temperature)


def batch_norm(x, mean, variance, weight):
    return F.relu(F.batch_norm(x, mean, variance.abs(), weight))


def softmax_by_temperature(x, temperature):
    return torch.softmax(x / temperature.exp(), -1)


def attention_by_distance(x):
    slopes = 2.0 ** (-8.0 * (torch.arange(x.shape[1]) + 1).float() / x.shape[1])
    distance = (torch.arange(x.shape[2])[:, None] - torch.arange(x.shape[3])).abs()
    return torch.softmax(x - distance * slopes[:, None, None], -1)


def long_blocks(x):
    block = torch.arange(x.shape[1]) // 200
    return torch.softmax(x.masked_fill(block != (torch.arange(x.shape[0]) // 150)[:, None], -1e9), -1)


def label_and_probability(x, labels):
    return x.argmax(-1) == labels, torch.softmax(x, -1).gather(-1, labels[:, None])[:, 0]


def beside(x, y, z):
    return x.sum(-1), torch.softmax(y, -1), torch.tanh(z), y.amax(-1, keepdim=True)


def beside_rows(x, ids, table, row):
    return x.logsumexp(-1), table[ids], torch.exp(row)


def where_three_meet(x, m):
    mask = m < 0
    other = ~mask
    return torch.where(other, F.softplus(x), other.float()), torch.where(mask, x, 0.0)


def rows_of_rows(ids, table, order):
    x = table[ids]
    return torch.log_softmax(x.index_select(-1, order), -1)


def angles(x):
    position = torch.arange(x.shape[1])[:, None] * torch.exp(-torch.arange(x.shape[2]) / x.shape[2])
    return x * position.cos() + x * position.sin()


def angles_of_heads(x, frequency):
    position = torch.arange(x.shape[1])[:, None] * frequency
    position = torch.cat((position, position), -1)[:, None]
    return x * position.cos() + rotated(x) * position.sin()


def bias_of_buckets(scores, bias):
    """T5's relative positions."""
    keys, queries = (torch.arange(scores.shape[dim]) for dim in (-1, -2))
    distance = keys - queries[:, None]
    far = distance.abs()
    log = torch.log(far.float().clamp(min=1) / 8) / 2.7726 * 8
    bucket = torch.where(far < 8, far, (8 + log.long()).clamp(max=15)) + (distance > 0).long() * 16
    return torch.softmax(scores + bias[bucket].permute(2, 0, 1), -1)


def strided_attention(scores):
    keys, queries = (torch.arange(scores.shape[dim]) for dim in (-1, -2))
    return torch.softmax(scores.masked_fill((queries[:, None] - keys) % 3 != 0, -1e9), -1)


def with_positions(x):
    column = torch.arange(x.shape[2])
    angle = torch.arange(x.shape[1])[:, None] / torch.pow(1e4, 2 * (column // 2) / x.shape[2])
    return x + torch.where(column % 2 == 0, angle.sin(), angle.cos())


def classes(b, s):
    return torch.randn(b * s, 19), torch.randint(0, 19, (b * s,))


def tokens(b, s):
    return torch.randn(b, s, HEADS * WIDTH)


BS, N, ROWS, NONE = {0: "B", 1: "S"}, {0: "N"}, {0: "B"}, {}
CASES = {
    "norm of heads": Case(norm_of_heads, lambda b, s: (tokens(b, s), torch.randn(96)), (BS, NONE), 1),
    "a norm and its heads": Case(
        layer_norm_and_its_heads, lambda b, s: (tokens(b, s), torch.randn(96)), (BS, NONE), 1
    ),
    "rotary heads": Case(
        rotary_heads,
        lambda b, s: (tokens(b, s), torch.randn(WIDTH), torch.randn(s, WIDTH), torch.randn(s, WIDTH)),
        (BS, NONE, {0: "S"}, {0: "S"}),
        1,
    ),
    "repeated one by one": Case(
        repeated, lambda b, s: (torch.randn(b, s, 21), torch.randn(b, s, 42)), (BS, BS), 2
    ),
    # Each row would divide again.
    "repeated for all": Case(
        shared, lambda b, s: (torch.randn(b, s, 8), torch.randn(s, 4)), (BS, {0: "S"}), 2
    ),
    # A sum of each row, and one of all rows, which counts what is not ignored.
    "cross entropy": Case(F.cross_entropy, classes, (N, N), 2),
    "cross entropy that ignores": Case(
        lambda x, y: F.cross_entropy(x, y, ignore_index=3), classes, (N, N), 2
    ),
    "cross entropy without a mean": Case(
        lambda x, y: F.cross_entropy(x, y, reduction="none"), classes, (N, N), 1
    ),
    # Positions that are counted are divided where they are needed.
    "a mask of blocks": Case(in_blocks, lambda b, s: (torch.randn(b, s),), (BS,), 1),
    "a mask of turns in front of a softmax": Case(in_turns, lambda b, s: (torch.randn(b, s),), (BS,), 1),
    "a mask of long blocks": Case(long_blocks, lambda b, s: (torch.randn(b, s),), (BS,), 1),
    # What costs something and rows share is computed before them.
    "a scale of columns": Case(scaled, lambda b, s: (torch.randn(b, s), torch.randn(s)), (BS, {0: "S"}), 1),
    "a norm with scales": Case(
        scaled_norm,
        lambda b, s: (torch.randn(b, s, 21), torch.randn(21), torch.randn(b, 21), torch.randn(b, 21)),
        (BS, NONE, ROWS, ROWS),
        1,
    ),
    "a gate of rows": Case(
        gated,
        lambda b, s: (torch.randn(b, s, 5), torch.randn(b, s), torch.randn(())),
        (BS, BS, NONE),
        1,
    ),
    "batch norm": Case(
        batch_norm,
        lambda b, s: (torch.randn(b, 6, s, 3), *(torch.randn(6) for _ in range(3))),
        ({0: "B", 2: "S"}, NONE, NONE, NONE),
        1,
    ),
    "a temperature": Case(
        softmax_by_temperature, lambda b, s: (torch.randn(b, s), torch.randn(())), (BS, NONE), 1
    ),
    "attention by distance": Case(
        attention_by_distance, lambda b, s: (torch.randn(b, 4, s, s),), ({0: "B", 2: "S", 3: "S"},), 1
    ),
    # All of a batch have the angles in common, and all heads the buckets.
    "angles": Case(angles, lambda b, s: (torch.randn(b, s, 8),), (BS,), 1),
    "angles of few heads": Case(
        angles_of_heads, lambda b, s: (torch.randn(b, s, HEADS, 8), torch.randn(4)), (BS, NONE), 1
    ),
    "buckets of distances": Case(
        bias_of_buckets,
        lambda b, s: (torch.randn(b, HEADS, s, s), torch.randn(32, HEADS)),
        ({0: "B", 2: "S", 3: "S"}, NONE),
        1,
    ),
    "a mask of every third distance": Case(
        strided_attention, lambda b, s: (torch.randn(b, s, s),), ({0: "B", 1: "S", 2: "S"},), 1
    ),
    "positions of sines": Case(with_positions, lambda b, s: (torch.randn(b, s, 34),), (BS,), 1),
    "a label and its probability": Case(label_and_probability, classes, (N, N), 1),
    "what has nothing in common": Case(
        beside, lambda b, s: tuple(torch.randn(b, s + 1) for _ in range(3)), (BS, BS, BS), 1
    ),
    "gathered beside rows": Case(
        beside_rows,
        lambda b, s: (torch.randn(b, s), torch.randint(0, 9, (b, s)), torch.randn(9), torch.randn(b)),
        (BS, BS, NONE, {0: "B"}),
        1,
    ),
    "a mask between three": Case(
        where_three_meet, lambda b, s: (torch.randn(b, s), torch.randn(s)), (BS, {0: "S"}), 1
    ),
    "columns of gathered rows": Case(
        rows_of_rows,
        lambda b, s: (torch.randint(0, 9, (b,)), torch.randn(9, s + 1), torch.randint(0, s + 1, (s + 1,))),
        ({0: "B"}, {1: "T"}, {0: "T"}),
        1,
    ),
    "a mask alone": Case(blocks, lambda b, s: (torch.randn(b, s), torch.randn(b, s)), (BS, BS), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_so_many_kernels_whatever_the_sizes(name):
    case = CASES[name]
    fast = disc.optimize(Whole(case.function), case.inputs(2, 7), dims=dict(enumerate(case.dims)))
    assert disc.report(fast).to_dict()["kernels"] == case.kernels
    for sizes in SIZES:
        inputs = case.inputs(*sizes)
        torch.testing.assert_close(
            fast(*inputs), case.function(*inputs), atol=1e-5, rtol=1e-5, equal_nan=True
        )
