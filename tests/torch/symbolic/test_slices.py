"""Slices whose bounds are computed from sizes: as Python has them,
where a bound is below 0 for some sizes and not for others.
"""

from __future__ import annotations

import disc
import pytest
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)


def zeroed(x, y):
    x = x.clone()
    x[x.shape[0] - 4 :] = 0
    x[:, x.shape[1] - 3 : x.shape[1] - 1] += 1
    return x


def one_written(x, y):
    x = x.clone()
    x[x.shape[0] - 1] = 7
    x[:, x.shape[1] - 1] = x[:, 0]
    return x


SLICES = {
    "from the last two": lambda x, y: x[x.shape[0] - 2 :],
    "from the last four": lambda x, y: x[x.shape[0] - 4 :],
    "up to the last two": lambda x, y: x[: x.shape[0] - 2],
    "between": lambda x, y: x[x.shape[0] - 3 : x.shape[0] - 1],
    "the last half": lambda x, y: x[:, -(x.shape[1] // 2) - 1 :],
    "a negative half": lambda x, y: x[:, -x.shape[1] // 2 - 1 :],
    "by another size": lambda x, y: (x[y.shape[0] - 4 :], x[: y.shape[0] - 4]),
    "by two sizes": lambda x, y: x[x.shape[0] - y.shape[0] :] + 1,
    "with steps": lambda x, y: x[x.shape[0] - 4 :: 2] * 2,
    "in the middle": lambda x, y: x[x.shape[0] // 2 - 3 :: 2],
    "its length": lambda x, y: x[x.shape[0] - 4 :].new_ones(x[x.shape[0] - 4 :].shape[0]),
    "whole parts": lambda x, y: x[:, : x.shape[1] // 3 * 3].reshape(x.shape[0], x.shape[1] // 3, 3).amax(2),
    "without the rest": lambda x, y: x[:, : x.shape[1] - x.shape[1] % 4].unflatten(1, (-1, 4)) + 1,
    "without the rest of both": lambda x, y: (
        x[: x.shape[0] - x.shape[0] % 2, : x.shape[1] - x.shape[1] % 2]
        .reshape(x.shape[0] // 2, 2, x.shape[1] // 2, 2)
        .sum((1, 3))
    ),
    "written": zeroed,
    "narrow": lambda x, y: x.narrow(0, x.shape[0] - 2, 2),
    "narrow from the middle": lambda x, y: x.narrow(0, x.shape[0] - 3, 1),
    "one in a row": lambda x, y: x[None, ..., x.shape[0] - 1, :, None] + x[1, x.shape[1] - 2],
    "one, written": one_written,
    "one": lambda x, y: x[x.shape[0] - 2] + x[x.shape[0] - 1],
    "one of another size": lambda x, y: x[y.shape[0] - 3],
}
SIZES = [
    (5, 4, 3),
    (7, 9, 6),
    (3, 2, 12),
    (4, 3, 4),
    (2, 1, 1),
    (1, 5, 1),
    (1, 1, 0),
    (0, 4, 2),
    (3, 0, 3),
    (0, 0, 0),
]


@pytest.mark.parametrize("first", [0, 1, 5], ids=lambda i: str(SIZES[i]))
@pytest.mark.parametrize("name", SLICES)
def test_a_slice_is_as_python_has_it(name, first, compile_module):
    model = Model(SLICES[name])

    def call(sizes):
        n, m, k = sizes
        return torch.arange(n * m).view(n, m) * 1.5, torch.zeros(k, 1)

    try:
        model(*call(SIZES[first]))
    except (IndexError, RuntimeError):
        pytest.skip("eager refuses the example")
    compiled = compile_module(model, call(SIZES[first]))
    for sizes in SIZES:
        x, y = call(sizes)
        try:
            expected = model(x, y)
        except (IndexError, RuntimeError):
            with pytest.raises(disc.Error):
                compiled(x, y)
            continue
        torch.testing.assert_close(compiled(x, y), expected, msg=lambda m, sizes=sizes: f"sizes {sizes}: {m}")


def test_a_bound_that_is_zero_at_every_size_that_is_served():
    def biased(x, bias):
        # As MPT cuts its table of biases.
        n = x.shape[1]
        return x.unsqueeze(2) * x.unsqueeze(1) + bias[max(0, 1 - n) :, max(0, 16 - n) :]

    model, bias = Model(biased), torch.randn(1, 16)
    compiled = disc.optimize(model, (torch.randn(2, 8), bias))
    for n in (8, 1, 16, 5):
        x = torch.randn(3, n)
        torch.testing.assert_close(compiled(x, bias), model(x, bias))
