"""Activation functions of torch, and dropout, which does nothing outside training.

Compositions are computed in f32 for half types and rounded once, as torch does on CPU.
"""

from __future__ import annotations

import math


def relu(b, x):
    return b.maximum(x, 0)


def hardtanh(b, x, low=-1, high=1):
    return b.minimum(b.maximum(x, b.lift(low, x.dtype)), b.lift(high, x.dtype))


def leaky_relu(b, x, slope=0.01):
    return b.widened(lambda v: b.select(b.compare("GT", v, b.lift(0, v.dtype)), v, b.mul(v, slope)), x)


def prelu(b, x, weight):
    if len(weight.shape) == 1 and len(x.shape) != 1:
        weight = b.reshape(weight, [1, weight.shape[0], *[1] * (len(x.shape) - 2)][: len(x.shape)])
    return b.select(b.compare("GT", x, b.lift(0, x.dtype)), x, b.mul(weight, x))


def elu(b, x, alpha=1, scale=1, input_scale=1):
    def f(v):
        negative = b.mul(b.op("exponential_minus_one", b.mul(v, input_scale)), alpha * scale)
        return b.select(b.compare("GT", v, b.lift(0, v.dtype)), b.mul(v, scale), negative)

    return b.widened(f, x)


def gelu(b, x, approximate="none"):
    def exact(v):
        return b.mul(b.mul(v, 0.5), b.add(b.op("erf", b.mul(v, math.sqrt(0.5))), 1.0))

    def by_tanh(v):
        cubic = b.add(v, b.mul(b.mul(b.mul(v, v), v), 0.044715))
        return b.mul(b.mul(v, 0.5), b.add(b.op("tanh", b.mul(cubic, math.sqrt(2 / math.pi))), 1.0))

    return b.widened(by_tanh if approximate == "tanh" else exact, x)


def silu(b, x):
    return b.widened(lambda v: b.mul(v, b.op("logistic", v)), x)


def softplus(b, x, beta=1, threshold=20):
    def f(v):
        scaled = b.mul(v, beta)
        soft = b.div(b.op("log_plus_one", b.op("exponential", scaled)), beta)
        return b.select(b.compare("GT", scaled, b.lift(threshold, v.dtype)), v, soft)

    return b.widened(f, x)


def mish(b, x):
    return b.widened(lambda v: b.mul(v, b.op("tanh", b.op("log_plus_one", b.op("exponential", v)))), x)


def log_sigmoid(b, x):
    def f(v):
        smallest = b.minimum(v, 0)
        return b.sub(smallest, b.op("log_plus_one", b.op("exponential", b.neg(b.op("abs", v)))))

    return b.widened(f, x)


def hardsigmoid(b, x):
    return b.widened(lambda v: b.div(_clamped(b, b.add(v, 3.0), 0.0, 6.0), 6.0), x)


def hardswish(b, x):
    return b.widened(lambda v: b.div(b.mul(v, _clamped(b, b.add(v, 3.0), 0.0, 6.0)), 6.0), x)


def _clamped(b, x, low, high):
    return b.minimum(b.maximum(x, low), high)


def hardshrink(b, x, limit=0.5):
    inside = b.map(
        "and", b.compare("GE", x, b.lift(-limit, x.dtype)), b.compare("LE", x, b.lift(limit, x.dtype))
    )
    return b.select(inside, b.lift(0, x.dtype), x)


def softshrink(b, x, limit=0.5):
    def f(v):
        low, high, zero = (b.lift(bound, v.dtype) for bound in (-limit, limit, 0))
        small = b.select(b.compare("LT", v, low), b.add(v, limit), b.mul(v, zero))
        return b.select(b.compare("GT", v, high), b.sub(v, limit), small)

    return b.widened(f, x)


def threshold(b, x, limit, value):
    return b.select(b.compare("LE", x, b.lift(limit, x.dtype)), b.lift(value, x.dtype), x)


def glu(b, x, dim=-1):
    axis = dim % len(x.shape)
    half = x.shape[axis] // 2
    b.require(x.shape[axis] % 2, "==", 0)
    gate = b.slice(x, axis, half, half * 2)
    return b.widened(lambda u, v: b.mul(u, b.op("logistic", v)), b.slice(x, axis, 0, half), gate)


def no_training(b, x, train):
    if train:
        raise b.unsupported(
            "dropout in training mode needs random numbers",
            help="call module.eval() first, or leave out fallback='error', so that torch draws them",
        )
    return x


TABLE = {
    "aten.relu.default": relu,
    "aten.relu6.default": lambda b, x: hardtanh(b, x, 0, 6),
    "aten.hardtanh.default": hardtanh,
    "aten.leaky_relu.default": leaky_relu,
    "aten.prelu.default": prelu,
    "aten._prelu_kernel.default": prelu,
    "aten.elu.default": elu,
    "aten.selu.default": lambda b, x: elu(
        b, x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    ),
    "aten.celu.default": lambda b, x, alpha=1.0: elu(b, x, alpha, 1, 1 / alpha),
    "aten.gelu.default": gelu,
    "aten.silu.default": silu,
    "aten.mish.default": mish,
    "aten.softplus.default": softplus,
    "aten.log_sigmoid.default": log_sigmoid,
    "aten.log_sigmoid_forward.default": lambda b, x: (log_sigmoid(b, x), None),
    "aten.hardsigmoid.default": hardsigmoid,
    "aten.hardswish.default": hardswish,
    "aten.hardshrink.default": hardshrink,
    "aten.softshrink.default": softshrink,
    "aten.threshold.default": threshold,
    "aten.glu.default": glu,
    "aten.dropout.default": lambda b, x, p, train: no_training(b, x, train),
    "aten.feature_dropout.default": lambda b, x, p, train: no_training(b, x, train),
    "aten.alpha_dropout.default": lambda b, x, p, train: no_training(b, x, train),
    # Without a mode it trains.
    "aten.native_dropout.default": lambda b, x, p, train: (
        no_training(b, x, train is None or train),
        b.full(True, x.shape, "i1"),
    ),
    "aten.rrelu.default": lambda b, x, low=0.125, high=1 / 3, train=False, generator=None: leaky_relu(
        b, no_training(b, x, train), (low + high) / 2
    ),
}
