"""Defines the models whose memory test_memory.py compares with eager's.

A function makes a model, and a function from a length to an example.
"""

from __future__ import annotations

import torch
from torch import nn


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


class Pooled(nn.Module):
    """Small means of large states between these: a small one must not keep a large one's place."""

    def __init__(self):
        super().__init__()
        self.steps = nn.ModuleList(nn.Linear(96, 96) for _ in range(6))

    def forward(self, x):
        means = []
        for step in self.steps:
            x = step(x).tanh()
            means.append(x.mean(1))
        return torch.stack(means)


def pooled():
    return Pooled(), lambda n: torch.randn(8, 4 * n, 96)


def embedded():
    """Three values of the result's size, of which two are there at once:
    the first is where the result will be.
    """
    layers = nn.Embedding(100, 64), nn.Linear(64, 64), nn.ReLU(), nn.LayerNorm(64)
    return nn.Sequential(*layers), lambda n: torch.randint(0, 100, (8, 10 * n))


def chained():
    """Every second value is where the result will be; which ones is seen from the end."""
    layers = [layer for _ in range(4) for layer in (nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())]
    return nn.Sequential(*layers), lambda n: torch.randn(1, 16, n, n + 3)


class Packed(nn.Module):
    """Queries, keys and values are columns of one product, as vision transformers have them."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192)
        self.out = nn.Linear(64, 64)

    def forward(self, x):
        b, n, width = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, 4, 16).permute(2, 0, 3, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, n, width))


def packed():
    return Packed(), lambda n: torch.randn(4, n, 64)


class Residual(nn.Module):
    """Layers that add to what is there, which is needed only for that."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(nn.functional.leaky_relu(x))
        return x


def residual():
    layers = (nn.Conv1d(32, 32, 3, padding=d, dilation=d) for d in (1, 3, 5))
    return Residual(*layers), lambda n: torch.randn(8, 32, 8 * n)


def images():
    layers = (nn.Conv2d(16, 16, 3, padding=1) for _ in range(3))
    return Residual(*layers), lambda n: torch.randn(2, 16, n, n + 3)


def depthwise():
    layers = (nn.Conv2d(16, 16, 3, padding=1, groups=16) for _ in range(3))
    return Residual(*layers), lambda n: torch.randn(2, 16, n, n + 3)


class Scaled(nn.Module):
    """Squeeze and excite."""

    def __init__(self, channels: int):
        super().__init__()
        layers = nn.Conv2d(channels, channels // 4, 1), nn.ReLU(), nn.Conv2d(channels // 4, channels, 1)
        self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1), *layers, nn.Hardsigmoid())

    def forward(self, x):
        return x * self.scale(x)


def bottleneck(activation, *more):
    """The widest values come last but one: the second is where the first was."""
    first = nn.Conv2d(16, 96, 1, bias=False), nn.BatchNorm2d(96), activation
    second = nn.Conv2d(96, 96, 3, padding=1, groups=96, bias=False), nn.BatchNorm2d(96), activation
    layers = nn.Sequential(*first, *second, *more, nn.Conv2d(96, 16, 1, bias=False), nn.BatchNorm2d(16))
    return Residual(layers), lambda n: torch.randn(2, 16, n, n + 3)


def inverted():
    return bottleneck(nn.ReLU6())


def inverted_and_scaled():
    return bottleneck(nn.Hardswish(), Scaled(96))


def gated():
    """Gates are products of their own, and what they give is written over one of them."""
    layers = nn.Linear(64, 256), nn.GLU(), nn.Linear(128, 64)
    return nn.Sequential(*layers), lambda n: torch.randn(8, 4 * n, 64)


class Experts(nn.Module):
    """Each expert adds to the sum of those before it."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(64, 4)
        layers = (nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)) for _ in range(4))
        self.experts = nn.ModuleList(layers)

    def forward(self, x):
        shares = self.gate(x).softmax(-1)
        return sum(shares[..., i : i + 1] * expert(x) for i, expert in enumerate(self.experts))


def experts():
    return Experts(), lambda n: torch.randn(8, 4 * n, 64)


class Crossed(nn.Module):
    """Values of several widths: a wide one is stored where two narrower ones were."""

    def __init__(self):
        super().__init__()
        self.crosses = nn.ModuleList(nn.Linear(208, 208) for _ in range(3))
        self.deep = nn.Sequential(nn.Linear(208, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self.last = nn.Linear(272, 1)

    def forward(self, x):
        y = x
        for cross in self.crosses:
            y = x * cross(y) + y
        return self.last(torch.cat([y, self.deep(x)], -1)).sigmoid()


def crossed():
    return Crossed(), lambda n: torch.randn(20 * n, 208)


def windows():
    return Residual(nn.AvgPool2d(3, 1, 1), nn.MaxPool2d(3, 1, 1)), lambda n: torch.randn(2, 16, n, n + 3)


def matrices():
    layers = (nn.Linear(64, 64) for _ in range(3))
    return Residual(*layers), lambda n: torch.randn(8, 2 * n, 64)


class Translator(nn.Module):
    """Each layer of the decoder has keys and values of its own of the same memory."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerDecoderLayer(64, 4, 128, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, 6)

    def forward(self, x):
        return self.decoder(x, x.flip(1))


def doubled():
    """Phases of one product."""
    return nn.ConvTranspose2d(16, 16, 2, 2), lambda n: torch.randn(1, 16, n, n + 3)


def generator():
    """Phases of four products each, and what follows them."""
    layers = (
        nn.ConvTranspose2d(16, 24, 4, 2, 1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.ConvTranspose2d(24, 8, 4, 2, 1),
        nn.Tanh(),
    )
    return nn.Sequential(*layers), lambda n: torch.randn(1, 16, n // 2, n // 2 + 3)


def one_phase_by_winograd():
    return nn.ConvTranspose2d(32, 32, 5, 2, 2, 1), lambda n: torch.randn(1, 32, n, n + 3)


def odd_phases():
    """The last phases are an element shorter than the first."""
    layers = nn.ConvTranspose2d(16, 16, 3, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 12, 3, 2)
    return nn.Sequential(*layers), lambda n: torch.randn(1, 16, n // 2, n // 2 + 3)


def phases_in_groups():
    return nn.ConvTranspose2d(32, 32, 4, 2, 1, groups=2), lambda n: torch.randn(1, 32, n, n + 3)


def phases_and_a_norm():
    layers = nn.ConvTranspose2d(16, 16, 4, 2, 1), nn.GroupNorm(4, 16), nn.ReLU()
    return nn.Sequential(*layers), lambda n: torch.randn(1, 16, n, n + 3)


def phases_and_a_norm_of_each():
    """Rows are normalised in place, which is the result's memory."""
    layers = nn.ConvTranspose2d(16, 16, 3, 2), nn.InstanceNorm2d(16)
    return nn.Sequential(*layers), lambda n: torch.randn(1, 16, n, n + 3)


class Both(nn.Module):
    """Two results of what is interleaved."""

    def __init__(self):
        super().__init__()
        self.layer = nn.ConvTranspose2d(16, 16, 2, 2)

    def forward(self, x):
        y = self.layer(x)
        return y, y.sigmoid()


def autoencoder():
    """An image of three features at the end, in phases."""
    down = nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU()
    up = nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Sigmoid()
    return nn.Sequential(*down, *up), lambda n: torch.randn(4, 3, 4 * n, 4 * n)


def few_features():
    return nn.ConvTranspose2d(32, 3, 4, 2, 1), lambda n: torch.randn(4, 32, n, n + 3)


def phases_for_two():
    return Both(), lambda n: torch.randn(1, 16, n, n + 3)


def vocoder():
    return nn.ConvTranspose1d(32, 16, 16, 8, 4), lambda n: torch.randn(4, 32, 4 * n)


def gated_sounds():
    layers = nn.Conv1d(32, 128, 3, padding=1), nn.GLU(1), nn.Conv1d(64, 32, 1)
    return nn.Sequential(*layers), lambda n: torch.randn(4, 32, 16 * n)


def gated_images():
    layers = nn.Conv2d(64, 128, 3, padding=1), nn.GLU(1), nn.Conv2d(64, 64, 1)
    return nn.Sequential(*layers), lambda n: torch.randn(1, 64, n, n + 3)


class Blocks(nn.Module):
    """Three stacks that begin with the same activation, and what is added to it:
    generators of sounds.
    """

    def __init__(self):
        super().__init__()
        self.stacks = nn.ModuleList(
            Residual(*(nn.Conv1d(16, 16, k, padding=k // 2) for _ in range(2))) for k in (3, 5, 7)
        )
        self.last = nn.Conv1d(16, 1, 7, padding=3)

    def forward(self, x):
        x = x.sin()
        return self.last(sum(stack(x) for stack in self.stacks))


def blocks():
    return Blocks(), lambda n: torch.randn(2, 16, 40 * n)


class Siamese(nn.Module):
    """Two images through the same layers, joined after them."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.second = nn.Conv2d(16, 32, 3, padding=1)

    def forward(self, x):
        left, right = (self.second(self.first(half)) for half in (x, -x))
        return torch.cat([left, right, (left - right).abs()], 1)


def siamese():
    return Siamese(), lambda n: torch.randn(2, 3, n, n)


class Fire(nn.Module):
    """Few features, and two convolutions of these beside one another."""

    def __init__(self, width: int, few: int, many: int):
        super().__init__()
        self.squeeze = nn.Conv2d(width, few, 1)
        self.expand = nn.ModuleList((nn.Conv2d(few, many, 1), nn.Conv2d(few, many, 3, padding=1)))

    def forward(self, x):
        x = self.squeeze(x).relu()
        return torch.cat([layer(x).relu() for layer in self.expand], 1)


def rounded_up():
    """Each map has quotients of its own of the image's size, and nothing orders two of them."""
    layers = (
        nn.Conv2d(3, 64, 3, 2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        Fire(64, 16, 64),
        Fire(128, 16, 64),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        Fire(128, 32, 128),
    )
    return nn.Sequential(*layers), lambda n: torch.randn(2, 3, 2 * n + 7, 2 * n + 10)


class OneHead(nn.Module):
    """Attention of an image over a smaller one, with a single head:
    the first stage of SegFormer and PVT.
    """

    def __init__(self):
        super().__init__()
        self.reduced = nn.Conv2d(16, 16, 4, 4)
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        rows, few = (t.flatten(2).transpose(1, 2) for t in (x, self.reduced(x)))
        q, k, v = self.query(rows), self.key(few), self.value(few)
        q, k, v = (t.view(*t.shape[:2], 1, 16).transpose(1, 2) for t in (q, k, v))
        return nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def one_head():
    return OneHead(), lambda n: torch.randn(2, 16, n // 4 * 4, n // 4 * 4 + 8)


def waves():
    """Strides leave nothing of short sounds: the layout of memory is for long ones."""
    from transformers import MoonshineConfig
    from transformers.models.moonshine.modeling_moonshine import MoonshineEncoder

    heads = {"encoder_num_hidden_layers": 2, "encoder_num_attention_heads": 4}
    config = MoonshineConfig(hidden_size=64, intermediate_size=128, **heads)
    return MoonshineEncoder(config), lambda n: torch.randn(2, 100 * n + 2_000)


class Positions(nn.Module):
    """Scores by the distance of rows: each layer has a table of a row for each distance."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(17, 16) for _ in range(3))
        self.queries = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        at = torch.arange(x.shape[1])
        far = (at - at[:, None]).clamp(-8, 8) + 8
        for table, query in zip(self.tables, self.queries, strict=True):
            x = torch.einsum("bld,lrd->blr", query(x), table(far)).softmax(-1) @ x
        return x


def positions():
    return Positions(), lambda n: torch.randn(2, n, 16)


def squares():
    """A sound after strides, and squares of its length: neither is always the larger one."""
    from transformers import Wav2Vec2ConformerConfig, Wav2Vec2ConformerModel

    widths = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "conv_dim": (32,) * 7}
    config = Wav2Vec2ConformerConfig(num_hidden_layers=1, **widths)
    return Wav2Vec2ConformerModel(config), lambda n: torch.randn(1, 200 * n + 2_000)


class Counted(nn.Module):
    """Each layer has memory of a size that it counts, which the next one has no use for."""

    def forward(self, x):
        for _ in range(4):
            kept = x[x.abs() > 0.5].sort().values.cumsum(0)
            x = x + kept[-1] / x.numel()
        return x


def counted():
    return Counted(), lambda n: torch.randn(50 * n, 40)


class Distances(nn.Module):
    """Scores of queries and of keys for each distance, of which the distances of rows are picked;
    there are fewer rows.
    """

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(2))
        self.table = nn.Parameter(torch.randn(1024, 32))
        self.positions = nn.Parameter(torch.randn(512, 32))

    def forward(self, x):
        x = x + self.positions[: x.shape[1]]
        at = torch.arange(x.shape[1])
        places = (at - at[:, None]).clamp(-512, 511) + 512
        places = places.expand(x.shape[0], -1, -1)
        queries, keys = (layer(x) for layer in self.layers)
        first = (queries @ self.table.T).gather(-1, places)
        second = (keys @ self.table.T).gather(-1, places).mT
        return (queries @ keys.mT + first + second).softmax(-1) @ x


def distances():
    return Distances(), lambda n: torch.randn(4, n, 32)


def decoder():
    return Translator(), lambda n: torch.randn(4, 2 * n, 64)


def encoder():
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 2), lambda n: torch.randn(4, 2 * n, 64)


def lstm():
    return nn.LSTM(32, 64, 2, batch_first=True), lambda n: torch.randn(4, n, 32)


#: All of them.
ALL = (
    bert,
    t5,
    perceptron,
    convolutions,
    ordered,
    pooled,
    embedded,
    chained,
    packed,
    encoder,
    decoder,
    lstm,
    residual,
    images,
    depthwise,
    inverted,
    inverted_and_scaled,
    gated,
    experts,
    crossed,
    windows,
    matrices,
    doubled,
    generator,
    one_phase_by_winograd,
    odd_phases,
    phases_in_groups,
    phases_and_a_norm,
    phases_and_a_norm_of_each,
    phases_for_two,
    few_features,
    autoencoder,
    vocoder,
    gated_sounds,
    gated_images,
    blocks,
    siamese,
    rounded_up,
    one_head,
    waves,
    positions,
    squares,
    counted,
    distances,
)
