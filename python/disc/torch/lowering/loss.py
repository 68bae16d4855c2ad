"""Losses of torch.

``reduction``: 0 none, 1 mean, 2 sum.
"""

from __future__ import annotations

_REDUCTIONS = ("none", "mean", "sum")


def _distance(b, x, target, reduction, distance: str, bound: float | None = None):
    form = {"distance": distance, "bound": bound, "reduction": _REDUCTIONS[reduction]}
    return b.convert(b.compose("distance_loss", *b.promote(x, target), **form), b.dtype)


def mse_loss(b, x, target, reduction=1):
    return _distance(b, x, target, reduction, "squared")


def l1_loss(b, x, target, reduction=1):
    return _distance(b, x, target, reduction, "absolute")


def smooth_l1_loss(b, x, target, reduction=1, beta=1.0):
    return _distance(b, x, target, reduction, "smooth_l1", beta)


def huber_loss(b, x, target, reduction=1, delta=1.0):
    return _distance(b, x, target, reduction, "huber", delta)


def bce_with_logits(b, x, target, weight=None, pos_weight=None, reduction=1):
    given = (*b.promote(x, target), weight, pos_weight)
    return b.compose("binary_cross_entropy", *given, reduction=_REDUCTIONS[reduction])


def cosine_similarity(b, x, y, dim=1, eps=1e-8):
    return b.compose("cosine_similarity", *b.promote(x, y), axis=dim, epsilon=eps)


def cross_entropy(b, x, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    form = {"reduction": _REDUCTIONS[reduction], "ignored": ignore_index, "smoothing": label_smoothing}
    return b.compose("cross_entropy", x, target, weight, **form)


def nll_loss(b, x, target, weight=None, reduction=1, ignore_index=-100):
    form = {"reduction": _REDUCTIONS[reduction], "ignored": ignore_index}
    return b.compose("likelihood_loss", x, target, weight, **form)


TABLE = {
    "aten.mse_loss.default": mse_loss,
    "aten.l1_loss.default": l1_loss,
    "aten.smooth_l1_loss.default": smooth_l1_loss,
    "aten.huber_loss.default": huber_loss,
    "aten.binary_cross_entropy_with_logits.default": bce_with_logits,
    "aten.cosine_similarity.default": cosine_similarity,
    "aten.cross_entropy_loss.default": cross_entropy,
    "aten.nll_loss.default": nll_loss,
    "aten.nll_loss_nd.default": nll_loss,
}
