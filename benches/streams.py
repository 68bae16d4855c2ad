"""Models beside the BERTs of `bert.py`, each as a stream of distinct shapes.

A T5 encoder, a conformer, ad ranking, a ResNet-50 and the step of a decoder with a growing cache.
Weights are random; sizes are those that services see.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
from case import Case
from torch import Tensor, nn
from torch.nn import functional as F


class T5(nn.Module):
    """The encoder of T5-small, with a mask."""

    def __init__(self):
        super().__init__()
        from transformers import T5Config, T5EncoderModel

        self.model = T5EncoderModel(T5Config())

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.model(input_ids=ids, attention_mask=mask).last_hidden_state


class ResNet50(nn.Module):
    """The classifier of transformers, whose default sizes are those of ResNet-50."""

    def __init__(self):
        super().__init__()
        from transformers import ResNetConfig, ResNetForImageClassification

        self.model = ResNetForImageClassification(ResNetConfig(num_labels=1000))

    def forward(self, pixels: Tensor) -> Tensor:
        return self.model(pixel_values=pixels).logits


class ConformerBlock(nn.Module):
    """Half a feed-forward layer, attention, a convolution over time, half a feed-forward layer
    (Gulati et al., 2020).
    """

    def __init__(self, width: int, heads: int, kernel: int):
        super().__init__()
        self.heads = heads
        self.before, self.after = self.half(width), self.half(width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 1)
        self.depthwise = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch_norm = nn.BatchNorm1d(width)

    @staticmethod
    def half(width: int) -> nn.Module:
        layers = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width)
        return nn.Sequential(*layers)

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind()
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def convolve(self, x: Tensor) -> Tensor:
        x = F.glu(self.widen(x.transpose(1, 2)), dim=1)
        return self.narrow(F.silu(self.batch_norm(self.depthwise(x)))).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.before(x)
        x = x + self.attend(self.norms[0](x))
        x = x + self.convolve(self.norms[1](x))
        return self.norms[2](x + 0.5 * self.after(x))


class Conformer(nn.Module):
    """Four blocks over features of sound, after two strided convolutions."""

    def __init__(self, width: int = 256):
        super().__init__()
        self.first, self.second = nn.Conv1d(80, width, 3, 2, 1), nn.Conv1d(width, width, 3, 2, 1)
        self.blocks = nn.Sequential(*(ConformerBlock(width, 4, 31) for _ in range(4)))

    def forward(self, sound: Tensor) -> Tensor:
        x = F.relu(self.second(F.relu(self.first(sound))))
        return self.blocks(x.transpose(1, 2))


class AdRanking(nn.Module):
    """26 tables and 13 numbers into three layers."""

    def __init__(self, rows: int = 10_000, width: int = 32):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(26))
        sizes = (26 * width + 13, 1024, 512, 256)
        layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-1], 1))

    def forward(self, ids: Tensor, numbers: Tensor) -> Tensor:
        found = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        return torch.sigmoid(self.layers(torch.cat([*found, numbers], 1)))


class DecoderStep(nn.Module):
    """One token through eight layers like those of GPT-2, with the keys and values of the tokens
    before it.
    """

    def __init__(self, width: int = 512, layers: int = 8, heads: int = 8):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers + 1))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(layers))

    def forward(self, x: Tensor, *cache: Tensor) -> tuple[Tensor, ...]:
        grown = []
        for i, qkv in enumerate(self.qkv):
            q, k, v = (
                qkv(self.norms[2 * i](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind()
            )
            k, v = torch.cat([cache[2 * i], k], 2), torch.cat([cache[2 * i + 1], v], 2)
            grown += [k, v]
            x = x + self.out[i](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
            x = x + self.down[i](F.gelu(self.up[i](self.norms[2 * i + 1](x)), approximate="tanh"))
        return self.norms[-1](x), *grown


def masked(batch: int, length: int) -> tuple[Tensor, ...]:
    kept = torch.randint(1, length + 1, (batch, 1))
    return torch.randint(0, 32000, (batch, length)), (torch.arange(length)[None] < kept).long()


def users(batch: int) -> tuple[Tensor, ...]:
    return torch.randint(0, 10_000, (batch, 26)), torch.randn(batch, 13)


def cache(length: int) -> tuple[Tensor, ...]:
    return torch.randn(1, 1, 512), *(torch.randn(1, 8, length, 64) for _ in range(16))


def cases() -> Iterator[Case]:
    batches = tuple((1 + 3 * i % 8, 16 + 7 * i % 113) for i in range(30))
    yield Case("T5-small encoder", T5().eval(), batches, masked)
    times = tuple((50 + 25 * i,) for i in range(31))
    yield Case("conformer", Conformer().eval(), times, lambda time: (torch.randn(1, 80, 4 * time),))
    rows = tuple((1 + 33 * i,) for i in range(32))
    yield Case("ad ranking", AdRanking().eval(), rows, users)
    pictures = ((1, 224, 224), (1, 192, 256), (2, 160, 160))
    yield Case("ResNet-50", ResNet50().eval(), pictures, lambda n, *sides: (torch.randn(n, 3, *sides),))
    lengths = tuple((32 + 16 * i,) for i in range(30))
    yield Case("decoder step", DecoderStep().eval(), lengths, cache)
