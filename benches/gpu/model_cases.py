"""Models on streams of sizes that services see; weights are random."""

from __future__ import annotations

import bert
import streams
import torch
from torch import Tensor, nn

from . import modules
from .cases import GpuCase

#: Layers, width and heads of the smallest models, for a test of the commands.
TINY_BERT = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
LARGE_BERT = {
    "num_hidden_layers": 24,
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
TINY_GPT = {"n_layer": 1, "n_embd": 32, "n_head": 2, "vocab_size": 100}
LENGTHS = (16, 37, 64, 101, 128, 201, 384, 512)


class SmallT5(nn.Module):
    """The encoder of T5 with one layer."""

    def __init__(self):
        super().__init__()
        from transformers import T5Config, T5EncoderModel

        sizes = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2}
        self.model = T5EncoderModel(T5Config(**sizes))

    forward = streams.T5.forward


class SmallResNet(nn.Module):
    """A ResNet with one block a stage."""

    def __init__(self):
        super().__init__()
        from transformers import ResNetConfig, ResNetForImageClassification

        sizes = {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 1], "num_labels": 10}
        self.model = ResNetForImageClassification(ResNetConfig(**sizes))

    forward = streams.ResNet50.forward


def cases() -> list[GpuCase]:
    return [
        GpuCase(
            "BERT-base", _encoder(bert.BASE), bert.ids, tuple((1, s) for s in LENGTHS), ((1, 7), (1, 16))
        ),
        GpuCase(
            "BERT-large", _encoder(LARGE_BERT), bert.masked, ((8, 131), (8, 384), (32, 384)), ((2, 7), (3, 16))
        ),
        GpuCase(
            "GPT decode", _gpt, past(12, 12, 64, 50_000), tuple((1, n) for n in _decoding()), ((1, 5), (1, 6), (2, 9)),
            make_small=past(1, 2, 16, 100),
        ),
        GpuCase(
            "T5 encoder", lambda small: SmallT5() if small else streams.T5(), streams.masked,
            ((1, 16), (1, 117), (4, 64), (8, 201), (16, 384)), ((1, 7), (2, 12)),
        ),
        GpuCase(
            "conformer", lambda small: streams.Conformer(32 if small else 256), sound,
            ((1, 50), (1, 117), (1, 400), (4, 250), (16, 701)), ((1, 9), (2, 16)),
        ),
        GpuCase(
            "speech", lambda small: modules.Speech(32, 1) if small else modules.Speech(), phonemes,
            ((1, 24, 150), (1, 61, 403), (1, 128, 900), (4, 80, 601), (16, 101, 750)), ((1, 5, 12), (2, 8, 31)),
        ),
        GpuCase(
            "ad ranking", lambda small: streams.AdRanking(*((100, 4) if small else (10_000, 32))), streams.users,
            ((1,), (7,), (33,), (128,), (601,), (1024,), (4096,)), ((1,), (5,), (8,)), make_small=few_users,
        ),
        GpuCase(
            "ResNet-50", lambda small: SmallResNet() if small else streams.ResNet50(), pictures,
            ((1, 224, 224), (1, 192, 256), (2, 160, 160), (8, 224, 224), (32, 224, 224), (64, 160, 160)),
            ((1, 32, 32), (2, 40, 24)),
        ),
    ]  # fmt: skip


def _encoder(config: dict):
    return lambda small: bert.Encoder(**(TINY_BERT if small else config))


def _gpt(small: bool) -> nn.Module:
    return modules.GptStep(**(TINY_GPT if small else {}))


def _decoding() -> tuple[int, ...]:
    """Steps in a row, as decoding has them, then longer caches."""
    return (*range(64, 72), 129, 255, 512, 1000)


def past(layers: int, heads: int, width: int, words: int):
    """One id, and the keys and values of ``length`` tokens before it."""

    def make(batch: int, length: int) -> tuple[Tensor, ...]:
        cache = (torch.randn(batch, heads, length, width) for _ in range(2 * layers))
        return torch.randint(0, words, (batch, 1)), *cache

    return make


def sound(batch: int, time: int) -> tuple[Tensor, ...]:
    return (torch.randn(batch, 80, 4 * time),)


def phonemes(batch: int, length: int, frames: int) -> tuple[Tensor, ...]:
    places = torch.randint(0, length, (batch, frames)).sort(1).values
    return torch.randint(0, 360, (batch, length)), places


def few_users(batch: int) -> tuple[Tensor, ...]:
    return torch.randint(0, 100, (batch, 26)), torch.randn(batch, 13)


def pictures(batch: int, *sides: int) -> tuple[Tensor, ...]:
    return (torch.randn(batch, 3, *sides),)
