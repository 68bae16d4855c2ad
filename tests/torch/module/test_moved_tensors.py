"""Calls that make an input or a weight another tensor in place: of another shape, of other memory,
one that requires a gradient. PyTorch runs them, in all or in parts, and they end as in eager mode.
"""

from __future__ import annotations

import copy

import disc
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.fallback


def transposed(x):
    x.t_()
    return x + 1


def transposed_and_returned(x):
    x.transpose_(0, 1)
    return x


def transposed_and_written(x):
    x.swapaxes_(0, 1)
    x.mul_(2)
    return x.sum(0)


def transposed_only(x):
    x.t_()
    return torch.ones(2)


def read_before(x):
    y = x * 2
    x.t_()
    return y + x.t()


def unsqueezed(x):
    x.unsqueeze_(0)
    return x * 2


def squeezed(x):
    x.squeeze_()
    return x * 2


def squeezed_at(x):
    x.squeeze_(0)
    return x * 2


def resized(x):
    x.resize_(1)
    return x * 2


def with_data(x):
    x.data = x.data.t()
    return x + 1


def with_new_values(x):
    x.data = x * 2
    return x + 1


def computed_with_data(x):
    y = x * 1
    y.data = x * 2
    return y + 1


def asking_for_a_gradient(x):
    x.requires_grad_(True)
    return x.detach() + 1


CHANGES = [
    transposed,
    transposed_and_returned,
    transposed_and_written,
    transposed_only,
    read_before,
    unsqueezed,
    squeezed,
    squeezed_at,
    resized,
    with_data,
    with_new_values,
    computed_with_data,
    asking_for_a_gradient,
]


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.fixture
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


DOORS = {
    "optimize": disc.optimize,
    "torch.compile": lambda m: torch.compile(m, backend="disc", dynamic=True),
}


@torch.no_grad()
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("function", CHANGES)
def test_inputs_end_as_in_eager_mode(function, door):
    fast = DOORS[door](Function(function).eval())
    for shape in ((3, 4), (1, 4), (2, 1), (3, 3)):
        x = torch.randn(shape)
        given = x.clone()
        wanted, got = function(x), fast(given)
        torch.testing.assert_close(got, wanted)
        assert (given.shape, given.stride()) == (x.shape, x.stride())
        assert given.requires_grad == x.requires_grad
        assert (got is given) == (wanted is x)
        torch.testing.assert_close(given, x)


class Buffers(nn.Module):
    """Changes what it holds."""

    def __init__(self, change):
        super().__init__()
        self.change = change
        self.register_buffer("table", torch.randn(3, 4))

    def forward(self, x):
        self.change(self.table)
        return x + self.table[0].sum()


@torch.no_grad()
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("change", [torch.Tensor.t_, lambda t: t.unsqueeze_(0), lambda t: t.transpose_(0, 1)])
def test_buffers_end_as_in_eager_mode(change):
    module = Buffers(change).eval()
    eager = copy.deepcopy(module)
    fast = disc.optimize(module)
    for _ in range(4):
        x = torch.randn(3)
        torch.testing.assert_close(fast(x), eager(x))
        assert module.table.shape == eager.table.shape


@pytest.mark.parametrize("function", [transposed, squeezed, with_data, asking_for_a_gradient])
def test_the_error_names_what_is_changed(function):
    with pytest.raises(disc.Error, match=r"E0405.*(of x in place|other memory)"):
        disc.optimize(Function(function), torch.randn(3, 4), options=disc.Options(fallback="error"))
