"""Losses of torch, in primitive ops.

``reduction``: 0 none, 1 mean, 2 sum. Half types are computed in f32, as by torch on CPU.
"""

from __future__ import annotations

from ...lowering import dtypes
from ...lowering.sizes import product
from . import indexing
from .data_movement import axis_of
from .reduction import count


def reduced(b, x, reduction):
    axes = list(range(len(x.shape)))
    if reduction == 0:
        return x
    total = b.sum(x, axes)
    return total if reduction == 2 else b.div(total, count(b, x, axes, x.dtype))


def loss(f):
    def entry(b, x, target, reduction=1, *args, **kwargs):
        out = b.dtype
        x, target = (b.wide(t) for t in b.promote(x, target))
        return b.convert(reduced(b, f(b, x, target, *args, **kwargs), reduction), out)

    return entry


def _squared(b, x, y):
    distance = b.sub(x, y)
    return b.mul(distance, distance)


def _smooth_l1(b, x, y, beta=1.0):
    distance = b.op("abs", b.sub(x, y))
    if beta == 0:
        return distance
    near = b.div(b.mul(b.mul(distance, distance), 0.5), beta)
    return b.select(b.compare("LT", distance, b.lift(beta, x.dtype)), near, b.sub(distance, 0.5 * beta))


def _huber(b, x, y, delta=1.0):
    distance = b.op("abs", b.sub(x, y))
    near = b.mul(b.mul(distance, distance), 0.5)
    far = b.mul(b.sub(distance, 0.5 * delta), delta)
    return b.select(b.compare("LE", distance, b.lift(delta, x.dtype)), near, far)


def bce_with_logits(b, x, target, weight=None, pos_weight=None, reduction=1):
    out = b.dtype
    x, target = (b.wide(t) for t in b.promote(x, target))
    # log(1 + exp(-x)), without overflow.
    soft = b.add(b.op("log_plus_one", b.op("exponential", b.neg(b.op("abs", x)))), b.maximum(b.neg(x), 0.0))
    if pos_weight is not None:
        soft = b.mul(soft, b.add(b.mul(b.sub(b.convert(pos_weight, x.dtype), 1.0), target), 1.0))
    value = b.add(b.mul(b.sub(b.lift(1, x.dtype), target), x), soft)
    value = value if weight is None else b.mul(value, b.convert(weight, x.dtype))
    return b.convert(reduced(b, value, reduction), out)


def cosine_similarity(b, x, y, dim=1, eps=1e-8):
    x, y = b.promote(x, y)

    def f(x, y):
        x, y = b.together(x, y)
        axes = [axis_of(x, dim)]
        lengths = [b.maximum(b.op("sqrt", b.sum(b.mul(t, t), axes, True)), eps) for t in (x, y)]
        return b.sum(b.mul(b.div(x, lengths[0]), b.div(y, lengths[1])), axes)

    return b.widened(f, x, y)


# Losses of classes: axis 1, or the only one.


def cross_entropy(b, x, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    axis = min(1, len(x.shape) - 1)
    wide = b.wide(x)
    distance = b.sub(wide, b.reduce(wide, [axis], "maximum", True))
    logs = b.sub(distance, b.op("log", b.sum(b.op("exponential", distance), [axis], True)))
    if target.dtype in dtypes.FLOATS:
        return b.convert(_of_shares(b, logs, target, weight, reduction, label_smoothing, axis), b.dtype)
    loss = _of_classes(b, logs, target, weight, reduction, ignore_index, axis)
    if label_smoothing:
        even = _of_all_classes(b, logs, target, weight, reduction, ignore_index, axis)
        even = b.div(even, b.lift(x.shape[axis], logs.dtype))
        loss = b.add(b.mul(loss, 1.0 - label_smoothing), b.mul(even, label_smoothing))
    return b.convert(loss, b.dtype)


def nll_loss(b, x, target, weight=None, reduction=1, ignore_index=-100):
    axis = min(1, len(x.shape) - 1)
    return b.convert(_of_classes(b, b.wide(x), target, weight, reduction, ignore_index, axis), b.dtype)


def _of_classes(b, logs, target, weight, reduction, ignore_index, axis: int):
    kept, share = _kept(b, logs, target, weight, ignore_index)
    picked = b.squeeze(indexing.elements_along(b, logs, axis, b.unsqueeze(kept, axis)), axis)
    # Ignored elements may be infinite.
    valid = _valid(b, target, ignore_index)
    loss = b.select(valid, b.mul(b.neg(picked), share), b.lift(0, logs.dtype))
    return _mean_by(b, loss, share, reduction)


def _valid(b, target, ignore_index):
    return b.compare("NE", target, b.lift(ignore_index, target.dtype))


def _kept(b, logs, target, weight, ignore_index):
    """The classes, 0 where they are ignored, and how much each counts."""
    valid = _valid(b, target, ignore_index)
    kept = b.select(valid, target, b.lift(0, target.dtype))
    share = b.convert(valid, logs.dtype)
    if weight is not None:
        share = b.mul(share, b.take(b.convert(weight, logs.dtype), 0, kept))
    return kept, share


def _mean_by(b, loss, share, reduction):
    if reduction == 0:
        return loss
    axes = list(range(len(loss.shape)))
    total = b.sum(loss, axes)
    return total if reduction == 2 else b.div(total, b.sum(share, axes))


def _of_all_classes(b, logs, target, weight, reduction, ignore_index, axis: int):
    _, share = _kept(b, logs, target, weight, ignore_index)
    terms = (
        logs
        if weight is None
        else b.mul(logs, b.broadcast(b.convert(weight, logs.dtype), logs.shape, [axis]))
    )
    each = b.neg(b.sum(terms, [axis]))
    each = b.select(_valid(b, target, ignore_index), each, b.lift(0, logs.dtype))
    return _mean_by(b, each, share, reduction)


def _of_shares(b, logs, target, weight, reduction, label_smoothing, axis: int):
    """The target has a share for each class."""
    target = b.convert(target, logs.dtype)
    if label_smoothing:
        even = b.div(b.lift(label_smoothing, logs.dtype), b.lift(logs.shape[axis], logs.dtype))
        target = b.add(b.mul(target, 1.0 - label_smoothing), even)
    terms = b.mul(logs, target)
    if weight is not None:
        terms = b.mul(terms, b.broadcast(b.convert(weight, logs.dtype), logs.shape, [axis]))
    each = b.neg(b.sum(terms, [axis]))
    if reduction != 1:
        return reduced(b, each, reduction)
    rows = product([size for i, size in enumerate(logs.shape) if i != axis]) if len(logs.shape) > 1 else 1
    return b.div(b.sum(each, list(range(len(each.shape)))), b.lift(rows, logs.dtype))


TABLE = {
    "aten.mse_loss.default": loss(_squared),
    "aten.l1_loss.default": loss(lambda b, x, y: b.op("abs", b.sub(x, y))),
    "aten.smooth_l1_loss.default": loss(_smooth_l1),
    "aten.huber_loss.default": loss(_huber),
    "aten.binary_cross_entropy_with_logits.default": bce_with_logits,
    "aten.cosine_similarity.default": cosine_similarity,
    "aten.cross_entropy_loss.default": cross_entropy,
    "aten.nll_loss.default": nll_loss,
    "aten.nll_loss_nd.default": nll_loss,
}
