"""Models that no other suite has: a step of GPT-2 with a growing cache, and speech out of text."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class GptStep(nn.Module):
    """One token through GPT-2 of transformers, with the keys and values of the tokens before it.

    Inputs are ids [batch, 1], then keys and values [batch, heads, length, width of a head] of each
    layer in turn; results are the logits, then keys and values with one token more.
    """

    def __init__(self, **config):
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel

        self.model = GPT2LMHeadModel(GPT2Config(**config))

    def forward(self, ids: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        found = self.model(input_ids=ids, past_key_values=_cache(past), use_cache=True)
        grown = [t for layer in found.past_key_values.layers for t in (layer.keys, layer.values)]
        return found.logits, *grown


def _cache(past: tuple[Tensor, ...]):
    """The cache of transformers that holds these keys and values as they are: its own way to fill
    a layer copies them.
    """
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    cache = DynamicCache()
    for keys, values in zip(past[::2], past[1::2], strict=True):
        layer = DynamicLayer()
        layer.keys, layer.values, layer.is_initialized = keys, values, True
        layer.dtype, layer.device = keys.dtype, keys.device
        cache.layers.append(layer)
    return cache


class TransformerBlock(nn.Module):
    """Attention, then two convolutions over time, each with its norm (Ren et al., 2019)."""

    def __init__(self, width: int, heads: int, inner: int, kernel: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen = nn.Conv1d(width, inner, kernel, padding=kernel // 2)
        self.narrow = nn.Conv1d(inner, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind()
        x = self.norms[0](x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)))
        y = self.narrow(F.relu(self.widen(x.transpose(1, 2)))).transpose(1, 2)
        return self.norms[1](x + y)


class Duration(nn.Module):
    """The number of frames of each phoneme, as a logarithm: two convolutions with norms."""

    def __init__(self, width: int):
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv1d(width, width, 3, padding=1) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.last = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(F.relu(convolution(x.transpose(1, 2)).transpose(1, 2)))
        return self.last(x).squeeze(-1)


class Speech(nn.Module):
    """Features of sound out of phonemes, all frames at once, as FastSpeech has them.

    ``places`` [batch, frames] says which phoneme each frame belongs to: the service makes it out of
    the durations, whose sum is the number of frames.
    """

    def __init__(self, width: int = 384, layers: int = 4, heads: int = 2, features: int = 80):
        super().__init__()
        self.phonemes, self.steps = nn.Embedding(360, width), nn.Embedding(4096, width)
        self.encoder = nn.Sequential(*(TransformerBlock(width, heads, 4 * width, 9) for _ in range(layers)))
        self.duration = Duration(width)
        self.decoder = nn.Sequential(*(TransformerBlock(width, heads, 4 * width, 9) for _ in range(layers)))
        self.features = nn.Linear(width, features)
        pairs = pairwise((features, 256, 256, features))
        self.after = nn.ModuleList(nn.Conv1d(a, b, 5, padding=2) for a, b in pairs)

    def placed(self, x: Tensor) -> Tensor:
        return x + self.steps(torch.arange(x.shape[1], device=x.device))

    def forward(self, ids: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        x = self.encoder(self.placed(self.phonemes(ids)))
        durations = self.duration(x)
        frames = x.gather(1, places[..., None].expand(-1, -1, x.shape[-1]))
        sound = self.features(self.decoder(self.placed(frames)))
        y = sound.transpose(1, 2)
        for convolution in self.after[:-1]:
            y = torch.tanh(convolution(y))
        return sound + self.after[-1](y).transpose(1, 2), durations
