"""Graphs that memory bounds: norms, activations, gates, softmaxes, embeddings, losses with
gradients, reductions, transposes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from case import Case, Function
from torch.nn import functional as F

#: Batch and length: no two the same, some small, few of them round.
SIZES = ((1, 16), (4, 33), (2, 128), (8, 77), (1, 509), (16, 64), (3, 251), (1, 1), (32, 19), (5, 130))
WIDTH, ODD, HEADS, CHANNELS = 768, 577, 12, 48
IMAGES = ((1, 28, 28), (2, 56, 56), (3, 37, 51), (1, 112, 96), (4, 14, 14), (2, 65, 33))

Maker = Callable[..., torch.Tensor]


def tokens(width: int = WIDTH, count: int = 1) -> Callable[[int, int], tuple[torch.Tensor, ...]]:
    """``count`` tensors [batch, length, width]."""
    return lambda b, s: tuple(torch.randn(b, s, width) for _ in range(count))


def with_vectors(width: int, vectors: int, tensors: int = 1):
    """Tensors [batch, length, width], then vectors [width]."""
    return lambda b, s: (
        *(torch.randn(b, s, width) for _ in range(tensors)),
        *(torch.randn(width) for _ in range(vectors)),
    )


def scores(b: int, s: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(b, HEADS, s, s), torch.where(torch.rand(b, 1, 1, s) < 0.9, 0.0, -1e9)


def classes(b: int, s: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(b * s, ODD), torch.randint(0, ODD, (b * s,))


def heads(b: int, s: int) -> tuple[torch.Tensor, ...]:
    half = torch.randn(s, 32)
    return torch.randn(b, HEADS, s, 64), torch.randn(b, HEADS, s, 64), half.cos(), half.sin()


def lookups(b: int, s: int) -> tuple[torch.Tensor, ...]:
    return (
        torch.randint(0, 3000, (b, s)),
        torch.randn(3000, WIDTH),
        torch.randn(512, WIDTH),
        torch.randn(WIDTH),
        torch.randn(WIDTH),
    )


def images(b: int, h: int, w: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(b, CHANNELS, h, w), torch.rand(CHANNELS) + 0.5, torch.randn(CHANNELS)


# Norms.


def layer_norm(x, weight, bias):
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


def residual_norm(x, y, weight, bias):
    total = x + y
    return total, F.layer_norm(total, (x.shape[-1],), weight, bias)


def rms_norm(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def unit_rows(x):
    return x / x.norm(dim=1, keepdim=True).clamp(min=1e-12)


def scale_shift_relu(x, weight, bias):
    return F.relu(x * weight[:, None, None] + bias[:, None, None])


def standardise(x, weight, bias):
    mean = x.mean((0, 2, 3), keepdim=True)
    spread = x.var((0, 2, 3), unbiased=False, keepdim=True)
    return (x - mean) * torch.rsqrt(spread + 1e-5) * weight[:, None, None] + bias[:, None, None], mean, spread


def layer_norm_gradient(dy, x, weight):
    mean = x.mean(-1, keepdim=True)
    scale = torch.rsqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5)
    unit = (x - mean) * scale
    dunit = dy * weight
    dx = scale * (dunit - dunit.mean(-1, keepdim=True) - unit * (dunit * unit).mean(-1, keepdim=True))
    return dx, (dy * unit).sum((0, 1)), dy.sum((0, 1))


# Activations and gates.


def bias_gelu(x, bias):
    return F.gelu(x + bias)


def tanh_gelu_residual(x, y):
    return F.gelu(x, approximate="tanh") + y


def gelu_gradient(dy, x):
    normal = 0.5 * (1 + torch.erf(x * 0.7071067811865476))
    return dy * (normal + x * torch.exp(-0.5 * x * x) * 0.3989422804014327)


def swiglu(x, y):
    return F.silu(x) * y


def geglu_halves(x):
    a, b = x.chunk(2, -1)
    return F.gelu(a) * b


def lstm_gates(x, c):
    i, f, g, o = x.chunk(4, -1)
    after = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return after, torch.sigmoid(o) * torch.tanh(after)


def mish_chain(x, bias):
    y = F.mish(x + bias)
    return y, F.hardswish(y) * 0.5


def squeeze_excite(x, weight, bias):
    return x * torch.sigmoid(x.mean((2, 3), keepdim=True) * weight[:, None, None] + bias[:, None, None])


# Softmaxes.


def masked_softmax(x, mask):
    return torch.softmax(x * 0.125 + mask, -1)


def log_softmax(x, _):
    return torch.log_softmax(x, -1)


def softmax_of_columns(x):
    return torch.softmax(x, 1)


def softmax_gradient(dy, y):
    return y * (dy - (dy * y).sum(-1, keepdim=True))


def causal_softmax(x, _):
    n = x.shape[-1]
    place = torch.arange(n, device=x.device)
    return torch.softmax(x.masked_fill(place[None] > place[:, None], float("-inf")), -1)


def log_sum_exp(x):
    return torch.logsumexp(x, 1), x.amax(1)


# Embeddings.


def rotary(q, k, cos, sin):
    def turn(x):
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    return turn(q), turn(k)


def rotary_pairs(q, k, cos, sin):
    def turn(x):
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)

    return turn(q), turn(k)


def embed(ids, words, places, weight, bias):
    x = words[ids] + places[: ids.shape[1]]
    return F.layer_norm(x, (x.shape[-1],), weight, bias), (ids != 0).float()


def gather_rows(x, ids):
    return x[ids] * 0.5, x.gather(1, (ids % x.shape[1])[:, None])


def distances(x):
    place = torch.arange(x.shape[1], device=x.device)
    return x.mean(-1)[:, :, None] - (place[None] - place[:, None]).abs() * 0.1


# Losses and their gradients.


def cross_entropy(x, target):
    return F.cross_entropy(x, target)


def cross_entropy_gradient(x, target):
    p = torch.softmax(x, -1)
    hit = torch.arange(x.shape[-1], device=x.device)[None] == target[:, None]
    return -(torch.log(p) * hit).sum(-1).mean(), (p - hit.float()) / x.shape[0]


def squared_error(x, y):
    d = x - y
    return d.square().mean(), d * (2.0 / d.numel())


def binary_entropy(x, y):
    target = torch.sigmoid(y)
    return F.binary_cross_entropy_with_logits(x, target), (torch.sigmoid(x) - target) / x.numel()


def huber(x, y):
    return F.smooth_l1_loss(x, y, reduction="none").sum(-1), F.cosine_similarity(x, y, -1)


# Reductions, transposes, joins.


def moments(x):
    return x.mean(-1), x.var(-1)


def sum_of_columns(x):
    return x.sum((0, 1)), x.amax((0, 1))


def outer_axes(x):
    return x.sum((0, 2)), x.square().mean(1)


def best(x):
    return x.max(1)


def masked_mean(x, y):
    kept = (y[..., :1] > 0).float()
    return (x * kept).sum(1) / kept.sum(1).clamp(min=1e-9)


def split_heads(x, y):
    b, s, w = x.shape
    return tuple((t * 0.125).view(b, s, HEADS, w // HEADS).transpose(1, 2).contiguous() for t in (x, y))


def turned_sum(x, y):
    return (x.transpose(1, 2) * 2 + 1).contiguous(), y.permute(2, 0, 1).contiguous()


def join(x, y):
    return F.relu(torch.cat([x, y, x * y], -1)), torch.cat([x, y], 1)


def shift(x):
    return F.pad(x[:, 1:], (0, 0, 0, 1)) - x, F.pad(x[:, :-1], (0, 0, 1, 0)) + x


def running_sum(x):
    return x.cumsum(1) / (torch.arange(x.shape[1], device=x.device) + 1)[None, :, None]


def rows_and_ids(b: int, s: int):
    return torch.randn(1100, ODD), torch.randint(0, 1100, (b * s,))


def joined(b: int, s: int):
    return torch.randn(b, s, ODD), torch.randn(b, s, ODD), torch.randn(2 * ODD)


def lookup_ids(b: int, s: int):
    return torch.randint(0, 300, (b, s)), torch.randn(300, 64)


def lstm_inputs(b: int, s: int):
    return torch.randn(b, s, 4 * 192), torch.randn(b, s, 192)


# What else models are made of.


def group_norm(x, weight, bias):
    return F.group_norm(x, 8, weight, bias)


def instance_norm(x, weight, bias):
    return F.instance_norm(x, weight=weight, bias=bias)


def batch_norm_relu(x, weight, bias):
    return F.relu(F.batch_norm(x, bias, weight, weight, bias))


def rms_norm_residual(x, y, weight):
    total = x + y
    return total, total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6) * weight


def silu_gradient(dy, x):
    s = torch.sigmoid(x)
    return dy * s * (1 + x * (1 - s)), s * x


def glu(x):
    return F.glu(x, -1)


def split_gate(x):
    a, b, c = x.split((192, 192, 384), -1)
    return torch.sigmoid(a) * torch.tanh(b), c * 0.5


def alibi_softmax(x, mask):
    n = x.shape[-1]
    place = torch.arange(n, device=x.device)
    slopes = torch.exp2(-torch.arange(1, HEADS + 1, device=x.device) * (8.0 / HEADS))
    bias = slopes[:, None, None] * (place[None] - place[:, None])
    return torch.softmax(x * 0.125 + bias + mask, -1)


def kl_divergence(x, y):
    p, q = F.log_softmax(x, -1), F.log_softmax(y, -1)
    return (q.exp() * (q - p)).sum(-1)


def focal_loss(x, target):
    p = torch.log_softmax(x, -1).gather(1, target[:, None])[:, 0]
    return -((1 - p.exp()) ** 2 * p).mean()


def odd_moments(x):
    return x.mean(0), x.var((0, 2), unbiased=False), x.var(1, unbiased=False)


def join_and_norm(x, y, weight):
    return F.layer_norm(torch.cat([x, y], -1), (2 * ODD,), weight)


def one_hot(ids, table):
    return F.one_hot(ids, 300).float() * 0.9 + 0.1 / 300


def roll_and_flip(x):
    return torch.roll(x, 1, 1) - x, x.flip(-1) * 2


def triangle(x, _):
    return torch.tril(x), torch.triu(x, 1) * 0.5


def merge_heads(x):
    b, s, w = x.shape
    y = torch.tanh(x).view(b, HEADS, s, w // HEADS)
    return y.transpose(1, 2).reshape(b, s, w)


def channels_last(x, weight, bias):
    return (x * weight[:, None, None] + bias[:, None, None]).permute(0, 2, 3, 1).contiguous()


def pairwise_distances(x):
    y = x[..., :8]
    return (y[:, :, None] - y[:, None]).square().sum(-1).sqrt()


def short_rows(x):
    y = x.view(-1, 3)
    z = x.view(-1, 4)
    return torch.softmax(y, -1), z.sum(-1), y.amax(-1)


def long_rows(x):
    y = x.reshape(3, -1)
    return torch.softmax(y, -1), y.mean(-1)


def position_ids(ids, table):
    kept = (ids != 1).int()
    return kept.cumsum(1) * kept + 1


def running_products(x):
    return x.cumsum(-1), (x * 0.1 + 1).cumprod(1)


FEW = SIZES[:5]
MORE = SIZES[1:5]
GRAPHS: tuple[tuple[Callable, Maker, tuple], ...] = (
    (layer_norm, with_vectors(WIDTH, 2), SIZES),
    (residual_norm, with_vectors(WIDTH, 2, 2), SIZES),
    (rms_norm, with_vectors(ODD, 1), SIZES),
    (unit_rows, tokens(ODD), SIZES),
    (scale_shift_relu, images, IMAGES),
    (standardise, images, IMAGES),
    (layer_norm_gradient, with_vectors(WIDTH, 1, 2), SIZES),
    (bias_gelu, with_vectors(3072, 1), SIZES),
    (tanh_gelu_residual, tokens(WIDTH, 2), SIZES),
    (gelu_gradient, tokens(WIDTH, 2), SIZES),
    (swiglu, tokens(2048, 2), SIZES),
    (geglu_halves, tokens(2 * ODD), SIZES),
    (lstm_gates, lstm_inputs, SIZES),
    (mish_chain, with_vectors(ODD, 1), SIZES),
    (squeeze_excite, images, IMAGES),
    (masked_softmax, scores, FEW),
    (log_softmax, scores, FEW),
    (softmax_of_columns, tokens(ODD), SIZES),
    (softmax_gradient, tokens(ODD, 2), SIZES),
    (causal_softmax, scores, FEW),
    (log_sum_exp, tokens(ODD), SIZES),
    (rotary, heads, SIZES),
    (rotary_pairs, heads, SIZES),
    (embed, lookups, SIZES),
    (gather_rows, rows_and_ids, SIZES),
    (distances, tokens(64), SIZES),
    (cross_entropy, classes, SIZES),
    (cross_entropy_gradient, classes, SIZES),
    (squared_error, tokens(ODD, 2), SIZES),
    (binary_entropy, tokens(WIDTH, 2), SIZES),
    (huber, tokens(ODD, 2), SIZES),
    (moments, tokens(WIDTH), tuple(s for s in SIZES if s != (1, 1))),
    (sum_of_columns, tokens(WIDTH), SIZES),
    (outer_axes, tokens(ODD), SIZES),
    (best, tokens(ODD), SIZES),
    (masked_mean, tokens(WIDTH, 2), SIZES),
    (split_heads, tokens(WIDTH, 2), SIZES),
    (turned_sum, tokens(ODD, 2), SIZES),
    (join, tokens(ODD, 2), SIZES),
    (shift, tokens(WIDTH), SIZES),
    (running_sum, tokens(WIDTH), SIZES),
    (group_norm, images, IMAGES),
    (instance_norm, images, IMAGES),
    (batch_norm_relu, images, IMAGES),
    (rms_norm_residual, with_vectors(WIDTH, 1, 2), SIZES),
    (silu_gradient, tokens(WIDTH, 2), SIZES),
    (glu, tokens(2 * ODD), SIZES),
    (split_gate, tokens(WIDTH), SIZES),
    (alibi_softmax, scores, FEW),
    (kl_divergence, tokens(ODD, 2), SIZES),
    (focal_loss, classes, SIZES),
    (odd_moments, tokens(ODD), MORE),
    (join_and_norm, joined, SIZES),
    (one_hot, lookup_ids, SIZES),
    (roll_and_flip, tokens(WIDTH), SIZES),
    (triangle, scores, FEW),
    (merge_heads, tokens(WIDTH), SIZES),
    (channels_last, images, IMAGES),
    (pairwise_distances, tokens(16), FEW),
    (short_rows, tokens(WIDTH), SIZES),
    (long_rows, tokens(WIDTH), SIZES),
    (position_ids, lookup_ids, SIZES),
    (running_products, tokens(WIDTH), SIZES),
)


def cases() -> Iterator[Case]:
    for function, make, sizes in GRAPHS:
        yield Case(function.__name__, Function(function).eval(), sizes, make)
