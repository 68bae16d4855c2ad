"""Programs of modules on a CUDA device: those of the same modules on the CPU."""

from __future__ import annotations

import copy

import disc
import pytest
import torch
import torch.nn.functional as F
from disc.core import extension
from disc.torch.capture.capture import capture
from disc.torch.compile.compilation import compilation
from disc.torch.compile.dynamo_graph import read
from disc.torch.devices.autocast_state import restored
from disc.torch.lowering.graph import convert
from disc.torch.lowering.table import serves
from fake_cuda import on_cuda
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

aten = torch.ops.aten
nn = torch.nn


def program(module, args, kwargs=None) -> str:
    """The text of a module's program; torch.export, which needs the device, may not help."""
    graph = capture(module, args, kwargs or {}, None, serves, may_export=False)
    return convert(graph, extension.builder()).source.as_text()


def assert_alike(module, args, kwargs=None):
    module, kwargs = module.eval(), kwargs or {}
    wanted = program(module, args, kwargs)
    assert program(on_cuda(copy.deepcopy(module)), on_cuda(args), on_cuda(kwargs)) == wanted


class Of(nn.Module):
    """A module of a function of tensors."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


LAYERS = {
    "images": lambda: (
        nn.Sequential(
            *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)),
        ),
        torch.randn(2, 3, 16, 18),
    ),
    "signals": lambda: (
        nn.Sequential(nn.Conv1d(4, 8, 3), nn.GELU(), nn.ConvTranspose1d(8, 4, 4, 2)),
        torch.randn(2, 4, 17),
    ),
    "encoder": lambda: (nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), torch.randn(2, 5, 16)),
    "lstm": lambda: (nn.LSTM(8, 6, batch_first=True), torch.randn(2, 5, 8)),
    "gru": lambda: (nn.GRU(8, 6), torch.randn(5, 2, 8)),
    "table": lambda: (nn.Embedding(10, 4), torch.tensor([[1, 2, 3]])),
    "rms norm": lambda: (nn.RMSNorm(8), torch.randn(2, 7, 8)),
    "group norm": lambda: (nn.GroupNorm(2, 8), torch.randn(2, 8, 7, 5)),
    "dropout": lambda: (nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)), torch.randn(3, 8)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(cuda, name):
    module, x = LAYERS[name]()
    assert_alike(module, (x,))


def _masked(x):
    n = x.shape[1]
    hidden = torch.full((n, n), float("-inf"), device=x.device).triu(1)
    return F.softmax(x @ x.transpose(1, 2) + hidden, -1) * torch.arange(n, device=x.device).to(x.dtype)


def _masked_on_the_host(x):
    n = x.shape[1]
    return (x @ x.transpose(1, 2)).masked_fill(~torch.ones(n, n).tril().bool().to(x.device), 0.0)


FUNCTIONS = {
    "tensors of the device": _masked,
    "a mask that is made on the host": _masked_on_the_host,
    "a scalar of the host": lambda x: x * torch.tensor(2.0) + torch.tensor([1.0] * 8, device=x.device),
    "to where it is": lambda x: x.to(x.device).to(x.device, torch.float16),
    "counted": lambda x: x + torch.linspace(0, 1, x.shape[2], device=x.device),
    "new": lambda x: x.new_zeros(8) + torch.zeros_like(x) + torch.eye(8, device=x.device)[0],
    "resampled": lambda x: F.interpolate(x, scale_factor=2.0, mode="linear"),
    "causal attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "scans": lambda x: x.cumsum(-1).sort(-1)[0],
    "spectra": lambda x: torch.fft.rfft(x).abs(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(cuda, name):
    assert_alike(Of(FUNCTIONS[name]), (torch.randn(2, 5, 8),))


def test_an_encoder_of_transformers(cuda):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=100, hidden_size=64, num_hidden_layers=1, num_attention_heads=4, intermediate_size=128
    )
    inputs = {
        "input_ids": torch.randint(0, 100, (2, 7)),
        "attention_mask": torch.ones(2, 7, dtype=torch.long),
    }
    assert_alike(transformers.BertModel(config, add_pooling_layer=False), (), inputs)


# Ops that torch has only for CUDA devices.


def _attention(x, mask=None):
    return F.scaled_dot_product_attention(x, x, x, mask)


KERNELS = {
    "flash": (lambda x: aten._scaled_dot_product_flash_attention(x, x, x)[0], _attention),
    "efficient": (
        lambda x: aten._scaled_dot_product_efficient_attention(x, x, x, None, False)[0],
        _attention,
    ),
    "cudnn": (lambda x: aten._scaled_dot_product_cudnn_attention(x, x, x, None, False)[0], _attention),
    "causal flash": (
        lambda x: aten._scaled_dot_product_flash_attention(x, x, x, 0.0, True)[0],
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(cuda, name):
    kernel, wanted = KERNELS[name]
    x = torch.randn(2, 4, 5, 16)
    assert program(Of(kernel).eval(), on_cuda((x,))) == program(Of(wanted).eval(), (x,))


KERNELS_OF_INFERENCE = {
    "dropout": (lambda x: aten.native_dropout(x, 0.5, False)[0], lambda x: x),
    "rms norm": (
        lambda x: aten._fused_rms_norm(x, [16], None, 1e-5)[0],
        lambda x: F.rms_norm(x, [16], eps=1e-5),
    ),
}


@pytest.mark.parametrize("name", KERNELS_OF_INFERENCE)
def test_kernels_of_inference(cuda, name):
    kernel, wanted = KERNELS_OF_INFERENCE[name]
    fast = disc.optimize(Of(kernel).eval(), on_cuda((torch.randn(2, 16),)))
    x = torch.randn(3, 16)
    torch.testing.assert_close(fast(on_cuda(x)).inner, wanted(x))


def test_dropout_that_trains_is_refused(cuda):
    for train in (True, None):
        kernel = Of(lambda x, train=train: aten.native_dropout(x, 0.5, train)[0]).eval()
        with pytest.raises(disc.UnsupportedOp, match="random numbers"):
            program(kernel, on_cuda((torch.randn(2, 16),)))


def test_a_causal_mask_of_flash_attention_ends_at_the_last_key(cuda):
    def kernel(q, k):
        return aten._scaled_dot_product_flash_attention(q, k, k, 0.0, True)[0]

    def wanted(q, k):
        rows, columns = q.shape[-2], k.shape[-2]
        mask = torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows)
        return F.scaled_dot_product_attention(q, k, k, mask)

    q, k = torch.randn(1, 2, 3, 8), torch.randn(1, 2, 5, 8)
    fast = disc.optimize(Of(kernel).eval(), on_cuda((q, k)), options=disc.Options(fallback="error"))
    for rows, columns in ((3, 5), (1, 4), (4, 4), (5, 2)):
        q, k = torch.randn(1, 2, rows, 8), torch.randn(1, 2, columns, 8)
        torch.testing.assert_close(fast(*on_cuda((q, k))).inner, wanted(q, k))


def test_batch_norm_of_cudnn(cuda):
    names = ("weight", "bias", "running_mean", "running_var")

    class Norm(nn.BatchNorm2d):
        def forward(self, input):
            held = [getattr(self, name) for name in names]
            return aten.cudnn_batch_norm(input, *held, False, 0.1, self.eps)[0]

    x = torch.randn(2, 3, 4, 4)
    assert program(on_cuda(Norm(3).eval()), on_cuda((x,))) == program(nn.BatchNorm2d(3).eval(), (x,))


# Autocast.


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_of_the_device(cuda, dtype):
    module = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4)).eval()
    x = torch.randn(3, 8)
    with restored((("cpu", dtype),)):
        wanted = program(module, (x,))
        plain = program(on_cuda(copy.deepcopy(module)), on_cuda((x,)))
    with restored((("cuda", dtype),)):
        assert program(on_cuda(copy.deepcopy(module)), on_cuda((x,))) == wanted
        assert program(module, (x,)) == plain
    assert plain != wanted
    assert program(module, (x,)) == plain


RULES = {
    "narrow": (lambda x, y: torch.einsum("ij,jk->ik", x, y.T), torch.float16),
    "wide": (lambda x, y: torch.exp(x.half()), torch.float32),
    "widest": (lambda x, y: torch.addcmul(x.half(), y, y), torch.float32),
    "a sum": (lambda x, y: x.half().sum(), torch.float32),
    "a sum of a type": (lambda x, y: x.half().sum(dtype=torch.float16), torch.float16),
    "no rule": (lambda x, y: x.half() * 2, torch.float16),
}


@pytest.mark.parametrize("name", RULES)
def test_rules_of_autocast(cuda, name):
    function, dtype = RULES[name]
    with restored((("cuda", torch.float16),)):
        graph = capture(
            Of(function).eval(), on_cuda((torch.randn(3, 4), torch.randn(3, 4))), {}, None, serves
        )
    (result,) = graph.traced.results
    assert result.meta["val"].dtype is dtype


# Graphs of dynamo's.


def _graph(function, *tensors):
    """A graph as dynamo gives it to a backend, and its sizes."""
    graph, env = torch.fx.Graph(), ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    holders = []
    for i, (sizes, device) in enumerate(tensors):
        holder = graph.placeholder(f"x{i}")
        with mode:
            holder.meta["example_value"] = torch.empty(sizes, device=device)
        holders.append(holder)
    graph.output((function(graph, *holders),))
    return torch.fx.GraphModule({}, graph), env


def _scaled(graph, x, y):
    return graph.call_function(torch.mul, (graph.call_function(torch.relu, (x,)), y))


def test_a_graph_of_dynamo(cuda):
    texts = []
    for device in ("cpu", "cuda:0"):
        gm, env = _graph(_scaled, ([3, 4], device), ([], "cpu"))
        found = read(gm, env)
        assert found.device == torch.device(device)
        made = compilation(found, env, packs_weights=True)
        texts.append(convert(made.captured, extension.builder()).source.as_text())
    assert texts[0] == texts[1]


def test_a_graph_on_two_devices_names_them(cuda):
    gm, env = _graph(_scaled, ([3, 4], "cuda:0"), ([3, 4], "cpu"))
    with pytest.raises(Exception, match="cuda:0") as raised:
        compilation(read(gm, env), env, packs_weights=True)
    assert not isinstance(raised.value, disc.UnsupportedOp)
