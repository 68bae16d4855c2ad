"""Long sums err no more than a few units in the last place: on every path,
and at every level of the CPU.
"""

from __future__ import annotations

import disc
import pytest
import torch
from torch import nn
from torch.nn import functional as F

INF, NAN = float("inf"), float("nan")
LEVELS = ("x86-64-v2", "x86-64-v3", "native")
# Six units in the last place of f32. Sums of one constant are the worst case: all roundings of a
# chain go one way.
FEW_ULP = 6 * 2.0**-23


class Apply(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *xs):
        return self.function(*xs)


def optimized(function, *example, **options):
    options = {name: value for name, value in options.items() if value != "native"}
    return disc.optimize(Apply(function), example, options=disc.Options(**options))


def error(found, exact):
    return ((found.double() - exact).abs().max() / exact.abs().max()).item()


def rows(x):
    return x.mean(-1)


def outer(*axes):
    return lambda x: x.mean(axes)


SUMS = {
    "all": (lambda x: x.mean(), [(1_000_003,), (5,), (4097,)]),
    "few_rows": (rows, [(3, 300_001), (2, 70_000)]),
    "long_rows": (rows, [(64, 16_000), (37, 9_001)]),
    "rows_of_a_few_vectors": (rows, [(300, 4096), (300, 1000), (300, 257)]),
    "short_rows": (rows, [(4000, 64), (4000, 30), (3000, 5)]),
    "columns": (outer(0), [(5000, 333), (100_000, 20), (300_000, 3)]),
    "outer_axes": (outer(0, 2), [(300, 8, 400), (3000, 8, 3), (3, 8, 30_000)]),
    "outer_axes_of_columns": (outer(0, 1), [(300, 400, 8), (50_000, 2, 8), (2, 50_000, 8)]),
    "three_axes": (outer(0, 2, 3), [(64, 8, 40, 30), (9000, 2, 3, 3)]),
    "axes_apart": (outer(0, 2, 4), [(40, 3, 50, 2, 60), (3000, 2, 3, 2, 3)]),
    "transposed": (lambda x: x.mT.mean(-1), [(2, 9000, 60)]),
    "loops": (lambda x: (x.mean(0, keepdim=True).expand(3, -1) * 1.0).reshape(-1), [(9000, 60)]),
    "with_a_maximum": (lambda x: x.mean(-1) + 0 * x.amax(-1), [(40, 20_000)]),
    "with_a_place": (lambda x: x.mean(-1) + 0 * x.argmax(-1), [(40, 20_000)]),
    "of_costly_elements": (lambda x: x.exp().log().exp().mean(-1), [(40, 20_000)]),
    "pooled": (lambda x: F.adaptive_avg_pool2d(x, 1), [(2, 8, 300, 200)]),
    "windows": (lambda x: F.avg_pool1d(x, 5000), [(2, 4, 15_000)]),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", SUMS)
def test_the_mean_of_a_constant_is_the_constant(name, level):
    function, shapes = SUMS[name]
    fast = optimized(function, torch.ones(shapes[0]), target=level)
    for shape in shapes:
        for value in (0.1, 1.3):
            x = torch.full(shape, value)
            assert error(fast(x), function(x.double())) <= FEW_ULP * (
                2 if name == "of_costly_elements" else 1
            ), shape
        x = torch.randn(shape) + 3
        exact = function(x.double())
        assert error(fast(x), exact) <= 4 * error(function(x), exact) + 2e-7


NORMS = {
    "group": (lambda x: F.group_norm(x, 4), (2, 8, 20_000)),
    "group_of_few": (lambda x: F.group_norm(x, 4), (2, 8, 500)),
    "layer": (lambda x: F.layer_norm(x, x.shape[-1:]), (20, 768)),
    "batch": (lambda x: F.batch_norm(x, None, None, training=True), (16, 8, 50, 50)),
    "instance": (lambda x: F.instance_norm(x), (16, 8, 50, 50)),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", NORMS)
def test_a_norm_of_constant_rows_is_zero(name, level):
    function, shape = NORMS[name]
    fast = optimized(function, torch.randn(shape), target=level)
    for value in (0.1, 0.7, 1.3, 100.3):
        # One unit of the mean would be 300 times as much.
        assert fast(torch.full(shape, value)).abs().max() <= 1e-6 * value
    x = torch.randn(shape) * 2 + 30
    exact = function(x.double())
    assert error(fast(x), exact) <= 4 * error(function(x), exact) + 2e-5


def product_with_ones(x):
    return x @ torch.ones(x.shape[-1], dtype=x.dtype) / x.shape[-1]


PRODUCTS = {
    "vector": (product_with_ones, (5, 20_000)),
    "one_by_one": (
        lambda x: torch.einsum("bij,bij->b", x, x) / (x.shape[-1] * x.shape[-2]),
        (4, 300, 500),
    ),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_long_products_of_equal_numbers(name, level):
    function, shape = PRODUCTS[name]
    fast = optimized(function, torch.ones(shape), target=level)
    for x in (torch.full(shape, 0.1), torch.full(shape, 1.3), torch.rand(shape)):
        exact = function(x.double())
        # Eager's products are the CPU's: their own error is up to 6e-6 here.
        assert error(fast(x), exact) <= 2e-5


def test_weights_of_long_sums():
    layer = nn.Linear(8192, 48, bias=False).eval()
    nn.init.constant_(layer.weight, 1 / 8192)
    for level in LEVELS:
        fast = optimized(layer, torch.ones(2, 8192), target=level)
        for count in (1, 3, 40):
            found = fast(torch.full((count, 8192), 0.1))
            assert error(found, torch.full((count, 48), 0.1).double()) <= 2e-5


def test_sums_that_are_not_finite_or_negative_zero():
    for function in (lambda x: x.sum(-1), lambda x: x.mT.sum(0)):
        fast = optimized(function, torch.ones(3, 100_000))
        x = torch.ones(6, 100_000)
        x[0, 7], x[1, 99_999], x[2, 3], x[2, 50_000] = INF, -INF, INF, -INF
        x[3, 5], x[4] = NAN, -0.0
        x[5] = 3e38
        assert torch.equal(fast(x).isnan(), function(x).isnan())
        assert torch.equal(fast(x).nan_to_num(7, 8, 9), function(x).nan_to_num(7, 8, 9))
        assert torch.equal(torch.signbit(fast(x))[4], torch.signbit(function(x))[4])
        assert fast(torch.ones(2, 0)).tolist() == [0, 0]


@pytest.mark.parametrize(
    "function", [lambda x: x.cumsum(-1), lambda x: x.cumsum(0), lambda x: x.T.cumsum(-1)]
)
def test_running_sums_are_rounded_once(function):
    fast = optimized(function, torch.ones(5, 7))
    for x in (torch.full((3, 100_000), 0.1), torch.full((20_000, 8), 1.3), torch.rand(30, 500)):
        assert error(fast(x), function(x.double())) <= FEW_ULP
    half = optimized(function, torch.ones(5, 7).bfloat16())
    x = torch.rand(3, 4000).bfloat16()
    assert torch.equal(half(x), function(x))


@pytest.mark.parametrize("axis", [0, 1])
def test_logcumsumexp_follows_the_running_maximum(axis):
    fast = optimized(lambda x: x.logcumsumexp(axis), torch.zeros(3, 5))
    lines = [
        [0, 1000, -1000, 2000, 5],
        [0, -1000, 1000, 999, -INF],
        [-INF, -INF, 3, 2, -200],
        [INF, 1, -INF, 2, INF],
        [1, INF, -INF, 2, 3],
        [-1000, -1001, -2000, 5, 400],
        [NAN, 1, 2, INF, 3],
        [1, 2, NAN, 4, -INF],
        [-INF, -INF, -INF, -INF, -INF],
    ]
    x = torch.tensor([*lines, *(line[::-1] for line in lines)], dtype=torch.float32)
    x = x if axis == 1 else x.T.contiguous()
    torch.testing.assert_close(fast(x), x.logcumsumexp(axis), rtol=3e-7, atol=3e-7, equal_nan=True)
    for one in (torch.randn(300, 40) * 100, torch.full((2000, 2), 0.1), torch.empty(0, 4), torch.empty(4, 0)):
        for x in (one, one.T.contiguous()):
            expected = x.double().logcumsumexp(axis).float()
            torch.testing.assert_close(fast(x), expected, rtol=3e-7, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_variance_is_computed_in_f64(dtype):
    def function(x):
        return x.var(0), x.std(), torch.var_mean(x, 1), torch.std_mean(x, correction=0)

    compiled = optimized(function, torch.rand(3, 5, dtype=dtype))
    torch.manual_seed(0)
    for scale, shift in ((1e20, 0), (1e-25, 0), (1e-2, 1e5)):
        x = (torch.randn(2, 4) * scale + shift).to(dtype)
        torch.testing.assert_close(compiled(x), function(x), rtol=1e-5, atol=0)


def test_running_variances_of_few_rows_far_from_zero_are_exact():
    layer = nn.BatchNorm1d(2, momentum=1.0)
    x = torch.tensor([[1e5, 3e5], [1e5 + 0.0625, 3e5 + 0.125], [1e5 + 0.03125, 3e5]])
    disc.optimize(layer, (x,))(x)
    torch.testing.assert_close(layer.running_var, x.double().var(0).float(), rtol=1e-4, atol=0)
