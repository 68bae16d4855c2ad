"""Activation functions of torch, and dropout, which does nothing outside training."""

from __future__ import annotations

from ...lowering.emitter import composed


def elu(b, x, alpha=1, scale=1, input_scale=1):
    return b.compose("elu", x, alpha=alpha, scale=scale, input_scale=input_scale)


def leaky_relu(b, x, slope=0.01):
    return b.compose("leaky_relu", x, slope)


def no_training(b, x, train):
    if train:
        raise b.unsupported(
            "dropout in training mode needs random numbers",
            help="call module.eval() first, or leave out fallback='error', so that torch draws them",
        )
    return x


TABLE = {
    "aten.relu.default": lambda b, x: b.maximum(x, 0),
    "aten.relu6.default": lambda b, x: b.compose("hard_tanh", x, 0, 6),
    "aten.hardtanh.default": lambda b, x, low=-1, high=1: b.compose("hard_tanh", x, low, high),
    "aten.leaky_relu.default": leaky_relu,
    "aten.prelu.default": composed("prelu"),
    "aten._prelu_kernel.default": composed("prelu"),
    "aten.elu.default": elu,
    "aten.selu.default": lambda b, x: elu(
        b, x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    ),
    "aten.celu.default": lambda b, x, alpha=1.0: elu(b, x, alpha, 1, 1 / alpha),
    "aten.gelu.default": lambda b, x, approximate="none": b.compose("gelu", x, approximate=approximate),
    "aten.silu.default": composed("silu"),
    "aten.mish.default": composed("mish"),
    "aten.softplus.default": lambda b, x, beta=1, threshold=20: b.compose("softplus", x, beta, threshold),
    "aten.log_sigmoid.default": composed("log_sigmoid"),
    "aten.log_sigmoid_forward.default": lambda b, x: (b.compose("log_sigmoid", x), None),
    "aten.hardsigmoid.default": composed("hard_sigmoid"),
    "aten.hardswish.default": composed("hard_swish"),
    "aten.hardshrink.default": lambda b, x, limit=0.5: b.compose("hard_shrink", x, limit=limit),
    "aten.softshrink.default": lambda b, x, limit=0.5: b.compose("soft_shrink", x, limit=limit),
    "aten.threshold.default": composed("threshold"),
    "aten.glu.default": lambda b, x, dim=-1: b.compose("glu", x, axis=dim),
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
