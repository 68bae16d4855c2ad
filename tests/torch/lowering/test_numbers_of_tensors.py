"""Integers out of tensors, as indices and as sizes: ``x[i]`` and ``x[:, :int(n.max())]``."""

from __future__ import annotations

import disc
import pytest
import torch
from model_check import Function, one_compile
from torch.nn import functional as F

rand, tensor = torch.rand, torch.tensor


def _write(write):
    def forward(x, i, *more):
        x = x.clone()
        write(x, i, *more)
        return x

    return forward


def _add_to_row(x, i):
    x[i] += 1


def _write_row(x, i, row):
    x[:, i] = 1.5
    x[i] = row


def _write_parts(x, i):
    x[0, i] *= 2
    x[:, i, 1:] = x[:, i, :-1].clone()


def _write_through_a_view(x, i):
    x[i].zero_()
    x[0][i].add_(1)


def _write_at_extremes(x, i):
    x[x.sum(1).argmax()] = -1
    x[:, x[0].argmin()] *= i


def _write_up_to(x, n):
    x[:, : int(n)] = 0
    x[:, int(n) :] *= 2


def _mean_of_lengths(x, lengths):
    longest = int(lengths.max())
    mask = torch.arange(longest)[None] < lengths[:, None]
    return (x[:, :longest] * mask[..., None]).sum(1) / lengths[:, None]


_AT = [(rand(5, 3), tensor(2)), (rand(7, 4), tensor(-1)), (rand(3, 3), tensor(0))]
_LENGTHS = [(rand(2, 5), tensor([2, 4])), (rand(3, 7), tensor([1, 7, 3])), (rand(1, 3), tensor([0]))]
_COUNT = [(rand(2, 5), tensor(3)), (rand(3, 7), tensor(0)), (rand(3, 7), tensor(7))]

CASES = {
    "row": (lambda x, i: x[i] * 2, _AT),
    "column": (lambda x, i: x[:, i] + x[..., i], _AT),
    "at the maximum": (lambda x, i: x[x.sum(1).argmax()] * i, _AT),
    "row of int32": (lambda x, i: x[i.int()], _AT),
    "with new axes": (lambda x, i: (x[None, i], x[i, :, None], x[..., None, i]), _AT),
    "one of one": (lambda x, i: x[i][i], [(rand(5, 3), tensor(2)), (rand(7, 4), tensor(-1))]),
    "beside an index of several": (
        lambda x, i, j: (x[i, j], x[:, i, j], x[j, i]),
        [(rand(5, 3, 4), tensor(2), tensor([0, 1])), (rand(7, 3, 4), tensor(1), tensor([2, 2, 1]))],
    ),
    "beside a mask": (lambda x, i: x[i][(x > 0.5)[i]].sum(), _AT),
    "narrow": (lambda x, i: x.narrow(0, i.abs(), 1), _AT),
    "write a number": (_write(lambda x, i: x.__setitem__(i, 0)), _AT),
    "add to a row": (_write(_add_to_row), _AT),
    "write a row": (
        _write(_write_row),
        [(rand(5, 4), tensor(1), rand(4)), (rand(3, 2), tensor(-1), rand(2))],
    ),
    "write parts": (_write(_write_parts), [(rand(5, 3, 4), tensor(2)), (rand(7, 3, 1), tensor(-1))]),
    "write through a view": (_write(_write_through_a_view), [(rand(5, 3), tensor(2)), (rand(7, 7), tensor(-1))]),
    "write at extremes": (_write(_write_at_extremes), _AT),
    "slice to the longest": (lambda x, n: x[:, : int(n.max())].sum(1), _LENGTHS),
    "slice from it": (lambda x, n: x[:, int(n.min()) :].sum(1), _LENGTHS),
    "mask of lengths": (lambda x, n: torch.arange(int(n.max()))[None] < n[:, None], _LENGTHS),
    "mean of lengths": (_mean_of_lengths, [(rand(2, 5, 3), tensor([2, 4])), (rand(3, 7, 3), tensor([1, 7, 3]))]),
    "new tensors": (
        lambda x, n: (torch.zeros(int(n)), torch.full((x.shape[0], int(n)), 2.0), torch.eye(int(n))),
        _COUNT,
    ),
    "as a number": (lambda x, n: x * int(n) + float(n) / 2, _COUNT),
    "of a float": (lambda x, n: x * int(n * 0.75), _COUNT),
    "pad": (lambda x, n: F.pad(x, (0, int(n))), _COUNT),
    "repeat": (lambda x, n: x.repeat(1, int(n)), [_COUNT[0], _COUNT[2]]),
    "view": (
        lambda x, n: x.view(int(n[0]), int(n[1]), 4).sum(0),
        [(rand(6, 4), tensor([2, 3])), (rand(12, 4), tensor([3, 4]))],
    ),
    "write up to": (_write(_write_up_to), [*_COUNT, (rand(3, 7), tensor(-2))]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_tensors_are_read_in_each_call(name, compile_module):
    function, calls = CASES[name]
    one_compile(compile_module, Function(function), [(args, {}) for args in calls])


@pytest.mark.parametrize("function", [lambda x, i: x[i], _write(lambda x, i: x.__setitem__(i, 0))])
def test_a_place_outside_is_an_error(function, compile_module):
    compiled = compile_module(Function(function), (rand(5, 3), tensor(2)))
    for place in (5, -6):
        with pytest.raises((disc.Error, IndexError)):
            compiled(rand(5, 3), tensor(place))
