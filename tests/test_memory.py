"""Memory of activations: what a call needs besides inputs and weights is no more than what eager's tensors take at once."""

from __future__ import annotations

import weakref
from contextlib import nullcontext

import disc
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

#: Task memory of a few threads: what eager's kernels take for themselves is not seen either.
SLACK = 256 << 10


class Peak(TorchDispatchMode):
    """The most bytes that tensors made within it hold at once."""

    def __init__(self):
        super().__init__()
        self.held: dict[int, int] = {}
        self.most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = {t.untyped_storage()._cdata for t in _tensors((args, kwargs))}
        out = func(*args, **(kwargs or {}))
        for t in _tensors(out):
            storage = t.untyped_storage()
            key = storage._cdata
            if key not in given and key not in self.held:
                self.held[key] = storage.nbytes()
                weakref.finalize(storage, self.held.pop, key)
        self.most = max(self.most, sum(self.held.values()))
        return out


def _tensors(tree) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


class Ordered(nn.Module):
    """Sorts and sums along lines: each op is a kernel of its own."""

    def forward(self, x):
        ordered = x.sort(-1).values
        sums = ordered.cumsum(-1).sort(-1, descending=True).values
        return (sums * ordered).sum(-1), sums.topk(3).values


def bert():
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512, vocab_size=500
    )
    return BertModel(config), lambda n: torch.randint(0, 500, (2, n))


def t5():
    from transformers import T5Config, T5EncoderModel

    config = T5Config(d_model=128, num_layers=2, num_heads=4, d_kv=32, d_ff=512, vocab_size=500)
    return T5EncoderModel(config), lambda n: torch.randint(0, 500, (2, n))


def perceptron():
    layers = nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 64), nn.Softmax(-1)
    return nn.Sequential(*layers), lambda n: torch.randn(4, n, 64)


def convolutions():
    layers = (
        nn.Conv2d(3, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1, groups=64),
        nn.AdaptiveAvgPool2d(1),
    )
    return nn.Sequential(*layers), lambda n: torch.randn(2, 3, n, n + 3)


def ordered():
    return Ordered(), lambda n: torch.randn(64, n + 3)


def lstm():
    return nn.LSTM(32, 64, 2, batch_first=True), lambda n: torch.randn(4, n, 32)


@pytest.mark.parametrize(
    "make", [bert, t5, perceptron, convolutions, ordered, lstm], ids=lambda make: make.__name__
)
def test_a_call_needs_no_more_memory_than_eager(make):
    torch.manual_seed(0)
    module, example = make()
    module.eval()
    compiled = disc.optimize(module, example(7))
    for size in (100, 200):
        inputs = example(size)
        # oneDNN's layers keep the gates of all steps, as eager does, but not in tensors that can be seen.
        seen = torch.backends.mkldnn.flags(enabled=False) if make is lstm else nullcontext()
        with torch.no_grad(), seen, Peak() as eager:
            module(inputs)
        outputs = sum(t.nbytes for t in _tensors(compiled(inputs)))
        # The peak is that of all calls so far: sizes grow.
        arena = disc.report(compiled).to_dict()["peak_arena_bytes"]
        assert arena + outputs <= eager.most + SLACK, (
            f"{size}: {arena} and {outputs} for outputs, eager {eager.most}"
        )
