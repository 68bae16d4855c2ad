"""Writes in place, shapes that change in place, and copies that were written to.

One compile, several sizes, against eager.
"""

from __future__ import annotations

import disc
import model_check
import pytest
import torch
from model_check import Function
from torch import nn


def check(compile_module, model, *calls, tolerance=2e-5):
    return model_check.one_compile(compile_module, model, [(args, {}) for args in calls], tolerance)


def test_writes_in_place_through_views(compile_module):
    class Model(nn.Module):
        def forward(self, x):
            y = x.clone()
            row = y[1]
            row.mul_(2)
            y[:, 1:3] += 10
            y.t()[0].fill_(7)
            view = y.view(-1)
            y.add_(1)
            return y, row + 1, view * 2

    check(compile_module, Model(), (torch.rand(3, 4),), (torch.rand(5, 4),), (torch.rand(2, 9),))


def test_writes_to_diagonals(compile_module):
    class Model(nn.Module):
        def forward(self, x):
            y, z, w = x.clone(), x.expand(2, -1, -1).clone(), x.clone()
            y.diagonal().fill_(1)
            y.diagonal(1).mul_(2)
            z.diagonal(0, 1, 2)[:1] = 7.0
            z.diagonal(-1, 2, 1).neg_()
            w.fill_diagonal_(9.0)
            return y, z, w, torch.diagonal_scatter(x, x.diagonal(1) * 2, 1)

    check(compile_module, Model(), *[(torch.rand(s),) for s in ((3, 4), (4, 4), (1, 1), (9, 2), (2, 1))])


def test_what_is_made_contiguous_is_the_input_only_if_it_lies_so(compile_module):
    class Model(nn.Module):
        def forward(self, x):
            return x.contiguous(), x.contiguous() + 1

    compiled = compile_module(Model(), torch.rand(3, 4))
    x, turned = torch.rand(2, 5), torch.rand(5, 2).t()
    assert compiled(x)[0] is x
    result, more = compiled(turned)
    assert result.is_contiguous()
    assert result.data_ptr() != turned.data_ptr()
    assert torch.equal(result, turned)
    assert torch.equal(more, turned + 1)


def test_what_is_written_to_a_contiguous_copy_is_returned(compile_module):
    class Model(nn.Module):
        def forward(self, x):
            y = x.contiguous()
            y[0] = 5
            y[1].zero_()
            return y, y.contiguous()

    example, x = torch.rand(4, 3).t(), torch.rand(5, 2).t()
    results = compile_module(Model(), example)(x)
    expected = Model()(x.clone(memory_format=torch.preserve_format))
    assert all(torch.equal(result, wanted) for result, wanted in zip(results, expected, strict=True))
    compiled, y = compile_module(Model(), torch.rand(3, 4)), torch.rand(3, 4)
    assert all(result is y for result in compiled(y))
    assert y[0].eq(5).all()
    with pytest.raises(disc.Error, match="x is written to through a view"):
        compiled(x)


def unsqueezed(x):
    y = x * 2
    y.unsqueeze_(1)
    y.add_(1)
    return y, y.sum()


def transposed(x):
    y = x * 2
    z = y[:, 1:]
    y.transpose_(0, 1)
    y.mul_(3)
    return y, z.exp()


def squeezed(x):
    y = (x * 2).unsqueeze(0)
    z = y.squeeze_(0)
    z += 1
    return y + z, z


def turned(x):
    y = x + 1
    z = y.t_()
    z[0] = 5
    return y @ x, z


@pytest.mark.parametrize("function", [unsqueezed, transposed, squeezed, turned])
def test_shapes_that_change_in_place(function, compile_module):
    compiled = compile_module(Function(function), (torch.randn(3, 4),))
    for size in ((3, 4), (5, 6), (1, 4), (4, 2)):
        x = torch.randn(size)
        torch.testing.assert_close(compiled(x), function(x))


@pytest.mark.parametrize("order", [0, 1, 2])
def test_the_order_of_polygamma_comes_second_in_place(order, compile_module):
    def of(x):
        y = x.abs() + 0.5
        y.polygamma_(order)
        return y * 2

    check(compile_module, Function(of), *((torch.randn(n),) for n in (5, 1, 0)))


def diagonal_at(offset):
    def entry(x):
        y = x * 1
        y.diagonal(offset(x)).mul_(3)
        return y

    return entry


def windows_written(x):
    y = x * 1
    part = x.shape[0] // 2
    y.unfold(1, part, part).add_(1)
    return y


def diagonal_before_a_write(x):
    y = x * 1
    diagonal = y.diagonal(x.shape[1] // 3, 1, 0)
    y.add_(1)
    return diagonal * 2


def windows_before_a_write(x):
    y = x * 1
    windows = y.unfold(1, x.shape[0] // 2, x.shape[0] // 2)
    y.add_(1)
    return windows * 2


def overlapping_windows_before_a_write(x):
    y = x * 1
    windows = y.unfold(1, x.shape[0] // 2 + 1, 1)
    y[0] += 1
    return windows * 2


@pytest.mark.parametrize(
    "function",
    [
        diagonal_at(lambda x: x.shape[0] // 2),
        diagonal_at(lambda x: -(x.shape[0] // 2)),
        diagonal_at(lambda x: x.shape[1] + 2),
        diagonal_before_a_write,
        windows_written,
        windows_before_a_write,
        pytest.param(overlapping_windows_before_a_write, marks=pytest.mark.fallback),
    ],
)
def test_views_at_computed_places_share_their_memory(function):
    compiled = disc.optimize(Function(function), torch.randn(6, 6))
    for size in ((6, 6), (8, 8), (9, 8), (8, 13), (2, 2), (3, 4)):
        x = torch.randn(size)
        torch.testing.assert_close(compiled(x), function(x))
