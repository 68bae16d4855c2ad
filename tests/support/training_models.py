"""Small models that tests and benches train: each with the inputs of a step and its loss.

A *case* makes the model, the inputs of step ``i``, whose batch and length change, and the loss of a
result.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Case:
    """A model, the inputs of each step, and its loss."""

    model: Callable[[], nn.Module]
    inputs: Callable[[int], tuple]
    loss: Callable[[object], torch.Tensor]


class ConvNet(nn.Module):
    """Two convolutions with batch norm, pooling and a classifier of ten classes."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.second = nn.Sequential(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU())
        self.classes = nn.Linear(32, 10)

    def forward(self, x):
        """Images [batch, 3, height, width] to scores [batch, 10]."""
        return self.classes(self.second(self.first(x)).mean((2, 3)))


class Layer(nn.Module):
    """A layer of a decoder: causal attention and a feed-forward network, normalised before each."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm(width)
        self.projections = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        """[batch, length, width], both ways."""
        batch, length, width = x.shape
        split = self.projections(self.before(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(x)


class Decoder(nn.Module):
    """A decoder of two layers, whose output weights are those of its embedding."""

    def __init__(self, words: int = 100, width: int = 64, heads: int = 4, layers: int = 2):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(512, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.after = nn.LayerNorm(width)
        self.scores = nn.Linear(width, words, bias=False)
        self.scores.weight = self.words.weight

    def forward(self, tokens):
        """Tokens [batch, length] to scores [batch, length, words]."""
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        return self.scores(self.after(x))


class Conformer(nn.Module):
    """A block of a conformer: feed-forward halves around attention and a depthwise convolution."""

    def __init__(self, width: int = 64, heads: int = 4):
        super().__init__()
        self.begin = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width)
        )
        self.end = copy.deepcopy(self.begin)
        self.before_attention = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.before_convolution = nn.LayerNorm(width)
        self.widen = nn.Conv1d(width, 2 * width, 1)
        self.depthwise = nn.Sequential(
            nn.Conv1d(width, width, 15, padding=7, groups=width), nn.BatchNorm1d(width), nn.SiLU()
        )
        self.narrow = nn.Conv1d(width, width, 1)
        self.after = nn.LayerNorm(width)

    def forward(self, x):
        """[batch, length, width], both ways."""
        x = x + 0.5 * self.begin(x)
        y = self.before_attention(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = F.glu(self.widen(self.before_convolution(x).transpose(1, 2)), 1)
        x = x + self.narrow(self.depthwise(y)).transpose(1, 2)
        return self.after(x + 0.5 * self.end(x))


def perceptron() -> nn.Module:
    """Three linear layers, 32 to 10 features."""
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10))


def bert(width: int = 64, layers: int = 2, inner: int = 128, words: int = 100) -> nn.Module:
    """A BERT without dropout that classifies."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=inner, vocab_size=words,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return BertForSequenceClassification(config)


def _tokens(i: int) -> tuple:
    return (torch.randint(0, 100, (2 + i % 4, 5 + i % 11)),)


def classes(scores: torch.Tensor) -> torch.Tensor:
    """The loss of scores [.., classes], where rows are of the classes in turn."""
    flat = scores.flatten(0, -2)
    return F.cross_entropy(flat, torch.arange(flat.shape[0]) % flat.shape[1])


CASES = {
    "perceptron": Case(perceptron, lambda i: (torch.randn(2 + i % 7, 32),), classes),
    "convnet": Case(
        ConvNet, lambda i: (torch.randn(2 + i % 5, 3, 16 + 4 * (i % 3), 18 + 2 * (i % 4)),), classes
    ),
    "bert": Case(bert, _tokens, lambda result: classes(result.logits)),
    "decoder": Case(Decoder, _tokens, classes),
    "conformer": Case(
        Conformer,
        lambda i: (torch.randn(2 + i % 4, 5 + i % 11, 64),),
        lambda result: (result.square() * torch.linspace(0, 1, 64)).mean(),
    ),
}
