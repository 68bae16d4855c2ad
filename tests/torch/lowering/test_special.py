"""Special functions that disc computes by its own series, against those of torch in double
precision.
"""

from __future__ import annotations

import pytest
import torch
from model_check import Function

NAMES = (
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "erfcx", "log_ndtr", "modified_bessel_i0",
    "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1", "ndtri", "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1", "spherical_bessel_j0",
)  # fmt: skip
#: Limits of the approximations, and what is no number.
EDGES = (0.0, -0.0, 1.0, 0.5, 0.1353, 0.8647, 2.0, 2.09, -2.09, 5.0, -5.0, 8.0, 8.5, 90.0, -20.0, torch.inf,
         -torch.inf, torch.nan, 1e-30, -1e-6)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_special_function(name, dtype, compile_module):
    function = getattr(torch.special, name)
    torch.manual_seed(0)
    line = torch.cat([torch.tensor(EDGES), torch.randn(200) * 4, torch.rand(100)]).to(dtype)
    compiled = compile_module(Function(function), (line,))
    for x in (line, line[:1], line[:0]):
        exact = function(x.double()).to(dtype)
        tolerance = {"rtol": 2e-6, "atol": 1e-7} if dtype is torch.float32 else {"rtol": 1e-9, "atol": 1e-12}
        torch.testing.assert_close(compiled(x), exact, equal_nan=True, **tolerance)


def test_cov_with_weights(compile_module):
    def function(x, counts, weights):
        both = torch.cov(x, fweights=counts, aweights=weights)
        return both, torch.cov(x, correction=0, fweights=counts), torch.cov(x, aweights=weights)

    compiled = None
    for rows, columns in ((3, 5), (2, 2), (4, 9)):
        given = torch.randn(rows, columns), torch.randint(1, 5, (columns,)), torch.rand(columns) + 0.1
        compiled = compiled or compile_module(Function(function), given)
        torch.testing.assert_close(compiled(*given), function(*given))
    import disc

    with pytest.raises(disc.Error, match="negative"):
        compiled(given[0], -given[1], given[2])


@pytest.mark.parametrize("bounds", [(0.0, -8.000001, -4.0), (0, 5.0, 1), (-0.0, 4.0, 2.0)])
def test_zeros_of_a_range_are_those_of_torch(bounds, compile_module):
    def function(x):
        return torch.arange(*bounds) + x

    compiled = compile_module(Function(function), (torch.tensor(-0.0),))
    ours, theirs = compiled(torch.tensor(-0.0)), function(torch.tensor(-0.0))
    assert torch.equal(ours.signbit(), theirs.signbit())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=["f32", "f64", "f16"])
def test_parts_of_floats(dtype, compile_module):
    x = torch.tensor([*EDGES, 1e-40, -3e-42, 65504.0, 6e-8, -7.5, 1024.0]).to(dtype)

    def function(x):
        return *torch.frexp(x), torch.angle(x)

    compiled = compile_module(Function(function), (x,))
    for given in (x, x[:1], x[:0]):
        ours, theirs = compiled(given), function(given)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(ours[0].signbit(), theirs[0].signbit())
