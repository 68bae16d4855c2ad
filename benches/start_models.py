"""The ten models whose first result is timed, with random weights and one call of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import bert
import streams
import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Start:
    """A model, and the tensors of its first call."""

    build: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]


class Wrapped(nn.Module):
    """The first output of a model of transformers."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.model(*inputs)[0]


def _vit() -> nn.Module:
    from transformers import ViTConfig, ViTModel

    return Wrapped(ViTModel(ViTConfig()))


def _swin() -> nn.Module:
    from transformers import SwinConfig, SwinModel

    return Wrapped(SwinModel(SwinConfig()))


def _whisper() -> nn.Module:
    from transformers import WhisperConfig, WhisperModel

    return Wrapped(WhisperModel(WhisperConfig()).encoder)


def _llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16}
    config = LlamaConfig(
        num_hidden_layers=4, num_key_value_heads=4, vocab_size=32000, use_cache=False, **sizes
    )
    return Wrapped(LlamaForCausalLM(config))


def _image() -> tuple[Tensor, ...]:
    return (torch.randn(1, 3, 224, 224),)


MODELS = {
    "BERT-base": Start(lambda: bert.Encoder(**bert.BASE), lambda: bert.ids(1, 128)),
    "GPT-2 step": Start(streams.DecoderStep, lambda: streams.cache(128)),
    "T5-small encoder": Start(streams.T5, lambda: streams.masked(2, 64)),
    "conformer": Start(streams.Conformer, lambda: (torch.randn(1, 80, 800),)),
    "ResNet-50": Start(streams.ResNet50, _image),
    "ViT-base": Start(_vit, _image),
    "Swin-tiny": Start(_swin, _image),
    "Whisper encoder": Start(_whisper, lambda: (torch.randn(1, 80, 3000),)),
    "ad ranking": Start(streams.AdRanking, lambda: streams.users(64)),
    "Llama, 4 layers": Start(_llama, lambda: (torch.randint(0, 32000, (1, 128)),)),
}
