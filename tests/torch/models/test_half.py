"""Models in half precision, end to end: errors against f64 within four times those of eager."""

from __future__ import annotations

import copy
import math

import model_check
import pytest
import torch
from test_modules import Conformer, ResidualNet
from torch import nn

transformers = pytest.importorskip("transformers")

TYPES = [torch.bfloat16, torch.float16]


def words(*shape):
    return (torch.randint(0, 90, shape), torch.ones(shape, dtype=torch.long)), {}


def numbers(*shape):
    return (torch.randn(shape),), {}


def bert():
    config = transformers.BertConfig(
        num_hidden_layers=2, hidden_size=48, num_attention_heads=3, intermediate_size=64
    )
    return transformers.BertModel(config)


def t5():
    config = transformers.T5Config(num_layers=2, d_model=48, d_kv=16, num_heads=3, d_ff=64)
    return transformers.T5EncoderModel(config)


def mlp():
    return nn.Sequential(nn.Linear(19, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 7), nn.LogSoftmax(-1))


MODELS = {
    "bert": (bert, words, ((1, 1), (2, 9), (3, 33))),
    "t5 encoder": (t5, words, ((1, 1), (2, 9), (3, 33))),
    "mlp": (mlp, numbers, ((1, 19), (33, 19), (128, 19))),
    "conformer": (
        lambda: nn.Sequential(nn.Linear(20, 24), Conformer(24, 3, 7)),
        numbers,
        ((1, 9, 20), (2, 50, 20)),
    ),
    "residual network": (ResidualNet, numbers, ((1, 3, 32, 32), (2, 3, 45, 32))),
}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_half_precision(name, dtype, compile_module):
    build, make, shapes = MODELS[name]
    torch.manual_seed(0)
    model = build().eval().to(dtype)
    exact = copy.deepcopy(model).double()

    def call(*shape):
        args, kwargs = make(*shape)
        return tuple(x.to(dtype) if x.is_floating_point() else x for x in args), kwargs

    compiled = compile_module(model, *call(*shapes[0]))
    for shape in shapes:
        ours, eager = model_check.half_errors(compiled, model, exact, *call(*shape))
        assert ours <= 4 * eager + 2e-5, shape


class Autocast(torch.nn.Module):
    """Products are computed in bf16; a sum of their result and an input in f32;
    a part of it all in f32.
    """

    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.norm = torch.nn.LayerNorm(16)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.b(torch.nn.functional.gelu(self.norm(self.a(x))))
            with torch.autocast("cpu", enabled=False):
                z = self.b(self.a(x))
            pairs = torch.einsum("bi,ci->bc", x, x)
            return y, y + x, z, torch.cat([y, x], 1), pairs, torch.softmax(x, -1)


def test_autocast_converts_what_torch_converts(compile_module):
    torch.manual_seed(0)
    module = Autocast().eval()
    calls = [torch.rand(n, 8) for n in (3, 1, 9)]
    compiled = compile_module(module, (calls[0],))
    for x in calls:
        with torch.no_grad():
            for ours, theirs in zip(compiled(x), module(x), strict=True):
                assert ours.dtype == theirs.dtype
                torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2)


class Roundings(torch.nn.Module):
    """Ops that see what the ones before have rounded."""

    def forward(self, x, y):
        masked = x + torch.finfo(x.dtype).min + torch.finfo(x.dtype).min
        blended = (x * 0.1 + y / 0.3 - 0.7) * y
        scaled = torch.add(x, y, alpha=0.3) - torch.sub(y, x, alpha=0.1)
        return (x * x).float(), (x + x) / 2, torch.floor(x * 10), masked > 0, blended, scaled


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_op_rounds_as_in_eager(dtype, compile_module):
    torch.manual_seed(0)
    module = Roundings().eval()

    def inputs(rows):
        # Whole vectors: of the elements after them torch rounds the product with alpha, too.
        x = (torch.randn(rows, 64) * torch.tensor([0.1, 1.0, 300.0, 3e4]).repeat(16)).to(dtype)
        return x, torch.randn(rows, 64).to(dtype)

    compiled = compile_module(module, inputs(3))
    for rows in (1, 3, 17):
        args = inputs(rows)
        for i, (ours, theirs) in enumerate(zip(compiled(*args), module(*args), strict=True)):
            assert torch.equal(ours.isnan(), theirs.isnan()), i
            assert torch.equal(ours.nan_to_num(), theirs.nan_to_num()), i


class Biased(torch.nn.Module):
    """Products to which something is added before they are rounded."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(24, 32)
        self.convolution = torch.nn.Conv1d(6, 8, 3)

    def forward(self, x, y):
        product = self.linear(x)
        return product, torch.addmm(y, product, product.mT, beta=0.5), self.convolution(x.view(-1, 6, 4))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_whole_numbers_are_not_rounded_as_factors(dtype, compile_module):
    class Model(torch.nn.Module):
        def forward(self, x):
            return x * 70000, x / 70000, x * 257, 257 * x / x.shape[0], x * (x.shape[0] * 257)

    compiled = compile_module(Model(), torch.tensor([-1.1, -0.5, 0.3, 2.0]).to(dtype))
    for count in (4, 3, 257):
        x = torch.randn(count).to(dtype)
        for ours, theirs in zip(compiled(x), Model()(x), strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_biases_are_added_before_rounding(dtype, compile_module):
    torch.manual_seed(0)
    module = Biased().eval().to(dtype)
    exact = copy.deepcopy(module).double()

    def inputs(rows):
        return torch.randn(rows, 24).to(dtype), torch.randn(rows, rows).to(dtype)

    compiled = compile_module(module, inputs(3))
    for rows in (1, 3, 20):
        x, y = inputs(rows)
        product, added, convolved = compiled(x, y)
        wide = product.double()
        wanted = (
            exact.linear(x.double()),
            torch.addmm(y.double(), wide, wide.mT, beta=0.5),
            exact.convolution(x.double().view(-1, 6, 4)),
        )
        for ours, value in zip((product, added, convolved), wanted, strict=True):
            # Half a unit in the last place, and what sums in f32 err.
            half = torch.finfo(dtype).eps / 2
            assert ((ours.double() - value).abs() <= half * value.abs() + 1e-5).all(), rows


class Zeros(torch.nn.Module):
    def forward(self, x):
        relu6 = torch.nn.functional.relu6(x)
        return 1 / torch.relu(x), 1 / x.clamp(min=0), 1 / x.clamp(max=0.0), 1 / relu6, torch.relu(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *TYPES], ids=str)
def test_relu_and_clamp_keep_the_sign_of_zero(dtype, compile_module):
    module = Zeros().eval()
    compiled = compile_module(module, (torch.ones(4, dtype=dtype),))
    for n in (1, 5, 40):
        x = torch.tensor([-0.0, 0.0, 1.5, -2.0, math.nan]).to(dtype).repeat(8)[:n]
        for ours, theirs in zip(compiled(x), module(x), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("kind", [torch.float16, torch.float32], ids=["f16", "f32"])
def test_statistics_of_a_norm_have_the_type_of_its_parameters(kind, compile_module):
    def function(x, weight):
        return torch._native_batch_norm_legit(x, weight, weight, True, 0.1, 1e-5)

    given = torch.randn(6, 3, 4).half(), torch.rand(3).to(kind)
    compiled = compile_module(model_check.Function(function), given)
    torch.testing.assert_close(compiled(*given), function(*given), rtol=4e-3, atol=4e-3)
