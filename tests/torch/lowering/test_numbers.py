"""Numbers at the edges of types: conversions that do not fit,
and numbers that are not rounded to half types.
"""

from __future__ import annotations

import math

import pytest
import torch
from model_check import Function
from torch.nn import functional as F

EDGES = [-4.2, -1.0, -300.7, 255.5, 256.0, 3e9, -3e9, 1e19, -1e19, float("nan"), float("inf"), float("-inf")]


@pytest.mark.parametrize("target", [torch.int8, torch.uint8, torch.int32, torch.int64])
@pytest.mark.parametrize("source", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_floats_that_no_integer_holds_convert_as_in_torch(source, target, compile_module):
    x = torch.tensor(EDGES * 3, dtype=torch.float64).to(source)
    compiled = compile_module(Function(lambda x: x.to(target)), (x,))
    for length in (len(x), 1, 0, 5):
        assert torch.equal(compiled(x[:length]), x[:length].to(target))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "function",
    [lambda x: F.softshrink(x, 0.3), lambda x: torch.lerp(x, x.flip(0), 0.7)],
    ids=["softshrink", "lerp"],
)
def test_a_number_beside_half_types_is_not_rounded_to_them(function, dtype, compile_module):
    x = torch.linspace(-3, 4, 1000).to(dtype)
    got = compile_module(Function(function), (x,))(x).double()
    # Half a unit in the last place, and what f32 loses before.
    torch.testing.assert_close(got, function(x.double()), rtol=torch.finfo(dtype).eps * 0.501, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_powers_of_two_are_exact(dtype, compile_module):
    x = torch.arange(-126, 128).to(dtype)
    assert torch.equal(compile_module(Function(torch.exp2), (x,))(x), torch.exp2(x))


def test_signs_of_nan_and_zero_are_read_from_their_bits(compile_module):
    def signs(x):
        return torch.signbit(x), torch.copysign(torch.ones_like(x), x)

    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        x = torch.tensor([-math.nan, math.nan, -0.0, 0.0, -2.0, math.inf, -math.inf]).to(dtype)
        torch.testing.assert_close(compile_module(Function(signs), (x,))(x), signs(x))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32])
def test_lerp_by_a_weight_without_axes_takes_its_type(dtype, compile_module):
    x, y, weight = torch.tensor([1, 0, 1]).to(dtype), torch.tensor([0, 0, 1]).to(dtype), torch.tensor(0.25)
    compiled = compile_module(Function(torch.lerp), (x, y, weight))
    torch.testing.assert_close(compiled(x, y, weight), torch.lerp(x, y, weight))
