"""Models in half precision, end to end: errors against f64 within four times those of eager."""

from __future__ import annotations

import copy

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
