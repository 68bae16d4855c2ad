"""Normalisations and softmax of torch, in primitive ops.

Half types are computed in f32, as torch does on CPU.
"""

from __future__ import annotations

from .data_movement import axis_of
from .promotion import name_of
from .reduction import count, moments


def native_layer_norm(b, x, shape, weight, bias, eps):
    return b.compose("layer_norm", x, weight, bias, eps, axes=last_axes(shape))


def last_axes(shape) -> list[int]:
    return list(range(-len(shape), 0))


def layer_norm(b, x, shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return native_layer_norm(b, x, shape, weight, bias, eps)[0]


def rms_norm(b, x, shape, weight=None, eps=None):
    own = {"f64": 2.220446049250313e-16}.get(x.dtype, 1.1920928955078125e-07)
    return b.compose("rms_norm", x, weight, own if eps is None else eps, axes=last_axes(shape))


def weight_norm(b, v, g, dim=0):
    """One norm for each index of ``dim``, or one of all (-1)."""
    return b.compose("weight_norm", v, g, kept=[] if dim == -1 else [axis_of(v, dim)])


def native_group_norm(b, x, weight, bias, n, c, hxw, groups, eps):
    return b.compose("group_norm", x, weight, bias, eps, groups=groups)


def group_norm(b, x, groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    return native_group_norm(b, x, weight, bias, None, None, None, groups, eps)[0]


def batch_norm_in_training(b, x, weight, bias, mean, var, training, momentum, eps, cudnn_enabled=True):
    """The result, and the new running statistics; without elements these stay."""
    axes = [0, *range(2, len(x.shape))]
    wide = b.wide(x)
    result, own, rstd = b.compose("feature_norm", x, weight, bias, eps, axes=axes)
    number = count(b, wide, axes, wide.dtype)
    # 1 / rstd^2 - eps would lose digits.
    spread = b.div(b.squeeze(_squares(b, wide, axes), *axes), b.sub(number, b.lift(1.0, wide.dtype)))
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
    result, own, _ = b.compose("feature_norm", x, weight, bias, eps, axes=axes)
    number = count(b, wide, axes, wide.dtype)
    spread = b.div(b.squeeze(_squares(b, wide, axes), *axes), b.sub(number, b.lift(1.0, wide.dtype)))
    batch = count(b, wide, [0], wide.dtype)
    statistics = ((mean, b.squeeze(own, *axes)), (var, spread))
    return result, [
        _moved(b, old, b.div(b.sum(new, [0]), batch), momentum, number)
        for old, new in statistics
        if old is not None
    ]


def instance_norm(b, x, weight, bias, mean, var, use_input_stats, momentum, eps, cudnn_enabled):
    if not use_input_stats:
        return batch_norm(b, x, weight, bias, mean, var, False, momentum, eps, cudnn_enabled)
    return b.compose("feature_norm", x, weight, bias, eps, axes=list(range(2, len(x.shape))))[0]


def batch_norm(b, x, weight, bias, mean, var, training, momentum, eps, cudnn_enabled=True):
    if training or mean is None:
        axes = [0, *range(2, len(x.shape))]
        return b.compose("feature_norm", x, weight, bias, eps, axes=axes)[0]
    return b.compose("batch_norm", x, weight, bias, mean, var, eps)


def batch_norm_inference(b, x, weight, bias, mean, var, momentum, eps):
    empty = b.full(0, [0], name_of(b.meta[1].dtype))
    return batch_norm(b, x, weight, bias, mean, var, False, momentum, eps), empty, empty


def batch_norm_functional(b, x, weight, bias, mean, var, training, momentum, eps):
    if training:
        return batch_norm_no_stats(b, x, weight, bias, training, momentum, eps)
    return batch_norm_inference(b, x, weight, bias, mean, var, momentum, eps)


def batch_norm_no_stats(b, x, weight, bias, training, momentum, eps):
    axes = [0, *range(2, len(x.shape))]
    y, mean, rstd = b.compose("feature_norm", x, weight, bias, eps, axes=axes)
    return y, *_saved(b, x, (mean, rstd), axes, (weight, bias))


# Softmax.


def softmax(name: str):
    """``dim`` and the type of the result; torch states it besides ``dtype``."""
    return lambda b, x, dim, dtype=None: b.compose(name, x, axis=dim, dtype=b.dtype)


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
    "aten.softmax.int": softmax("softmax"),
    "aten._softmax.default": softmax("softmax"),
    "aten.log_softmax.int": softmax("log_softmax"),
    "aten._log_softmax.default": softmax("log_softmax"),
    "aten._safe_softmax.default": softmax("safe_softmax"),
}

#: Ops that write to several arguments: their entries return the result, and a list of what is
#: written.
WRITERS = {
    "aten.batch_norm.default": _first(batch_norm_in_training),
    "aten.instance_norm.default": instance_norm_in_training,
    "aten.native_batch_norm.default": batch_norm_in_training,
    "aten._native_batch_norm_legit.default": batch_norm_in_training,
}
