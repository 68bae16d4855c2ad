"""Normalisations and softmax of torch, in primitive ops.

Half types are computed in f32, as torch does on CPU.
"""

from __future__ import annotations

import math

from ...lowering.sizes import product
from .data_movement import axis_of
from .promotion import name_of
from .reduction import count, moments


def normalised(b, x, axes, eps):
    """(x - mean) / sqrt(var + eps) with mean and 1 / sqrt(var + eps), axes kept."""
    number = count(b, x, axes, x.dtype)
    mean, squares, rest = moments(b, x, axes)
    rstd = b.op("rsqrt", b.add(b.div(squares, number), eps))
    # The mean is rounded, by up to an ULP of the values: where these are equal, a multiple of that
    # would be all there is.
    mean = b.add(mean, b.div(rest, number))
    return b.mul(b.sub(x, mean), rstd), mean, rstd


def affine(b, x, weight, bias, axis: int | None = None):
    """Times weight plus bias, along one axis, or along the last ones (None)."""
    for factor, apply in ((weight, b.mul), (bias, b.add)):
        if factor is not None:
            factor = b.convert(factor, x.dtype)
            x = apply(x, factor if axis is None else b.broadcast(factor, x.shape, [axis]))
    return x


def native_layer_norm(b, x, shape, weight, bias, eps):
    axes = list(range(len(x.shape) - len(shape), len(x.shape)))
    wide = b.wide(x)
    y, mean, rstd = normalised(b, wide, axes, eps)
    mean, rstd = _rounded(b, x, (mean, rstd), (weight, bias))
    return b.convert(affine(b, y, weight, bias), x.dtype), mean, rstd


def layer_norm(b, x, shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return native_layer_norm(b, x, shape, weight, bias, eps)[0]


def rms_norm(b, x, shape, weight=None, eps=None):
    axes = list(range(len(x.shape) - len(shape), len(x.shape)))
    wide = b.wide(x)
    eps = {"f64": 2.220446049250313e-16}.get(wide.dtype, 1.1920928955078125e-07) if eps is None else eps
    square = b.div(b.sum(b.mul(wide, wide), axes, True), count(b, wide, axes, wide.dtype))
    return b.convert(affine(b, b.mul(wide, b.op("rsqrt", b.add(square, eps))), weight, None), x.dtype)


def weight_norm(b, v, g, dim=0):
    """g * v / |v|, with one norm for each index of ``dim``, or one of all (-1)."""
    wide = b.wide(v)
    kept = () if dim == -1 else (axis_of(v, dim),)
    norm = b.op("sqrt", b.sum(b.mul(wide, wide), [i for i in range(len(v.shape)) if i not in kept], True))
    return b.convert(b.mul(wide, b.div(b.wide(g), norm)), v.dtype)


def native_group_norm(b, x, weight, bias, n, c, hxw, groups, eps):
    wide = b.wide(x)
    batch, channels, *rest = x.shape
    grouped = b.reshape(wide, [batch, groups, channels // groups * product(rest)])
    y, mean, rstd = normalised(b, grouped, [2], eps)
    y = affine(b, b.reshape(y, x.shape), weight, bias, axis=1)
    mean, rstd = _rounded(b, x, (mean, rstd), (weight, bias))
    return b.convert(y, x.dtype), b.squeeze(mean, 2), b.squeeze(rstd, 2)


def group_norm(b, x, groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    return native_group_norm(b, x, weight, bias, None, None, None, groups, eps)[0]


def batch_norm_in_training(b, x, weight, bias, mean, var, training, momentum, eps, cudnn_enabled=True):
    """The result, and the new running statistics; without elements these stay."""
    axes = [0, *range(2, len(x.shape))]
    wide = b.wide(x)
    y, own, rstd = normalised(b, wide, axes, eps)
    number = count(b, wide, axes, wide.dtype)
    # 1 / rstd^2 - eps would lose digits.
    spread = b.div(b.squeeze(_squares(b, wide, axes), *axes), b.sub(number, b.lift(1.0, wide.dtype)))
    result = b.convert(affine(b, y, weight, bias, axis=1), x.dtype)
    statistics = ((mean, b.squeeze(own, *axes)), (var, spread))
    saved = _saved(b, x, (own, rstd), axes, (weight, bias, mean, var))
    return (result, *saved), [
        _moved(b, old, new, momentum, number) for old, new in statistics if old is not None
    ]


def _squares(b, x, axes):
    """The sum of squared distances from the mean, axes kept, without what the rounding of the mean
    adds: to few numbers far from zero that is more than their distances.
    """
    _, squares, rest = moments(b, x, axes)
    return b.sub(squares, b.mul(rest, b.div(rest, count(b, x, axes, x.dtype))))


def _rounded(b, x, statistics, parameters):
    """Mean and deviation as the op returns them: of half precision only if all parameters are."""
    is_half = all(p is None or p.dtype == x.dtype for p in parameters)
    return [b.convert(value, x.dtype if is_half else value.dtype) for value in statistics]


def _saved(b, x, statistics, axes, parameters):
    return _rounded(b, x, [b.squeeze(t, *axes) for t in statistics], parameters)


def _moved(b, old, new, momentum, number):
    """A running statistic of ``number`` elements more."""
    wide = b.wide(old)
    new = b.convert(new, wide.dtype)
    moved = b.add(b.mul(new, b.lift(momentum, wide.dtype)), b.mul(wide, b.lift(1 - momentum, wide.dtype)))
    is_empty = b.compare("EQ", number, b.lift(0.0, number.dtype))
    return b.convert(b.select(is_empty, wide, moved), old.dtype)


def _first(f):
    """``f`` for an op that returns only the first of its results."""

    def entry(b, *args, **kwargs):
        (result, *_), written = f(b, *args, **kwargs)
        return result, written

    return entry


def instance_norm_in_training(b, x, weight, bias, mean, var, use_input_stats, momentum, eps, cudnn_enabled):
    """The statistics of each instance, whose means over the batch move the running ones."""
    axes = list(range(2, len(x.shape)))
    wide = b.wide(x)
    y, own, _ = normalised(b, wide, axes, eps)
    number = count(b, wide, axes, wide.dtype)
    spread = b.div(b.squeeze(_squares(b, wide, axes), *axes), b.sub(number, b.lift(1.0, wide.dtype)))
    batch = count(b, wide, [0], wide.dtype)
    result = b.convert(affine(b, y, weight, bias, axis=1), x.dtype)
    statistics = ((mean, b.squeeze(own, *axes)), (var, spread))
    return result, [
        _moved(b, old, b.div(b.sum(new, [0]), batch), momentum, number)
        for old, new in statistics
        if old is not None
    ]


def instance_norm(b, x, weight, bias, mean, var, use_input_stats, momentum, eps, cudnn_enabled):
    if not use_input_stats:
        return batch_norm(b, x, weight, bias, mean, var, False, momentum, eps, cudnn_enabled)
    y, _, _ = normalised(b, b.wide(x), list(range(2, len(x.shape))), eps)
    return b.convert(affine(b, y, weight, bias, axis=1), x.dtype)


def batch_norm(b, x, weight, bias, mean, var, training, momentum, eps, cudnn_enabled=True):
    if training or mean is None:
        axes = [0, *range(2, len(x.shape))]
        return b.convert(affine(b, normalised(b, b.wide(x), axes, eps)[0], weight, bias, axis=1), x.dtype)
    wide = b.wide(x)
    # One factor and one summand per channel.
    factor = b.op("rsqrt", b.add(b.wide(var), eps))
    factor = factor if weight is None else b.mul(factor, b.wide(weight))
    shift = b.neg(b.mul(b.wide(mean), factor))
    shift = shift if bias is None else b.add(shift, b.wide(bias))
    return b.convert(
        affine(b, wide, b.convert(factor, wide.dtype), b.convert(shift, wide.dtype), axis=1), x.dtype
    )


def batch_norm_inference(b, x, weight, bias, mean, var, momentum, eps):
    empty = b.full(0, [0], name_of(b.meta[1].dtype))
    return batch_norm(b, x, weight, bias, mean, var, False, momentum, eps), empty, empty


def batch_norm_functional(b, x, weight, bias, mean, var, training, momentum, eps):
    if training:
        return batch_norm_no_stats(b, x, weight, bias, training, momentum, eps)
    return batch_norm_inference(b, x, weight, bias, mean, var, momentum, eps)


def batch_norm_no_stats(b, x, weight, bias, training, momentum, eps):
    axes = [0, *range(2, len(x.shape))]
    y, mean, rstd = normalised(b, b.wide(x), axes, eps)
    saved = _saved(b, x, (mean, rstd), axes, (weight, bias))
    return b.convert(affine(b, y, weight, bias, axis=1), x.dtype), *saved


# Softmax.


def _prepared(b, x, dtype):
    out = b.dtype
    return b.wide(b.convert(x, out)), out


def softmax(b, x, dim, dtype=None):
    x, out = _prepared(b, x, dtype)
    axis = axis_of(x, dim)
    powers = b.op("exponential", b.sub(x, b.reduce(x, [axis], "maximum", True)))
    return b.convert(b.div(powers, b.sum(powers, [axis], True)), out)


def log_softmax(b, x, dim, dtype=None):
    x, out = _prepared(b, x, dtype)
    axis = axis_of(x, dim)
    distance = b.sub(x, b.reduce(x, [axis], "maximum", True))
    total = b.op("log", b.sum(b.op("exponential", distance), [axis], True))
    return b.convert(b.sub(distance, total), out)


def normalize_safe(b, x, dim, dtype=None):
    """_safe_softmax: a row that is all -inf gives zeros."""
    y = softmax(b, x, dim)
    axis = axis_of(x, dim)
    empty = b.reduce(b.compare("EQ", x, b.lift(-math.inf, x.dtype)), [axis], "and", True)
    return b.select(empty, b.lift(0, y.dtype), y)


TABLE = {
    "aten.layer_norm.default": layer_norm,
    "aten.native_layer_norm.default": native_layer_norm,
    "aten.rms_norm.default": rms_norm,
    "aten._fused_rms_norm.default": lambda b, x, shape, weight, eps: (
        rms_norm(b, x, shape, weight, eps),
        None,
    ),
    "aten._weight_norm.default": weight_norm,
    "aten.group_norm.default": group_norm,
    "aten.native_group_norm.default": native_group_norm,
    "aten.instance_norm.default": instance_norm,
    "aten.batch_norm.default": batch_norm,
    "aten._native_batch_norm_legit_no_training.default": batch_norm_inference,
    "aten._native_batch_norm_legit.default": batch_norm_functional,
    "aten._native_batch_norm_legit.no_stats": batch_norm_no_stats,
    "aten.native_batch_norm.default": batch_norm_functional,
    "aten.softmax.int": softmax,
    "aten._softmax.default": lambda b, x, dim, half_to_float: softmax(b, x, dim),
    "aten.log_softmax.int": log_softmax,
    "aten._log_softmax.default": lambda b, x, dim, half_to_float: log_softmax(b, x, dim),
    "aten._safe_softmax.default": normalize_safe,
}

#: Ops that write to several arguments: their entries return the result, and a list of what is
#: written.
WRITERS = {
    "aten.batch_norm.default": _first(batch_norm_in_training),
    "aten.instance_norm.default": instance_norm_in_training,
    "aten.native_batch_norm.default": batch_norm_in_training,
    "aten._native_batch_norm_legit.default": batch_norm_in_training,
}
