"""Pooling of torch."""

from __future__ import annotations

from ...lowering.sizes import spread


def _windows(n: int, kernel, stride, padding, ceil_mode: bool) -> dict:
    """The attributes that all pools have; without a stride, windows are side by side."""
    is_given = stride is not None and not (isinstance(stride, (list, tuple)) and not stride)
    kernel, padding = spread(kernel, n), spread(padding, n)
    return {
        "kernel": kernel,
        "strides": spread(stride, n) if is_given else kernel,
        "padding_low": padding,
        "padding_high": padding,
        "ceil": ceil_mode,
    }


def max_pool(n: int, name: str):
    def entry(b, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
        form = _windows(n, kernel, stride, padding, ceil_mode)
        return b.compose(name, x, dilations=spread(dilation, n), **form)

    return entry


def avg_pool(n: int):
    def entry(
        b, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
    ):
        form = _windows(n, kernel, stride, padding, ceil_mode)
        return b.compose(
            "average_pool", x, count_padding=count_include_pad, divisor=divisor_override or None, **form
        )

    return entry


def adaptive_pool(n: int):
    return lambda b, x, size: b.compose("adaptive_pool", x, sizes=b.shape[-n:], how="mean")


def adaptive_max_pool(n: int):
    return lambda b, x, size: b.compose("adaptive_max_pool", x, sizes=b.shape[-n:])


TABLE = {
    **{f"aten.max_pool{n}d.default": max_pool(n, "max_pool") for n in (1, 2, 3)},
    **{f"aten.max_pool{n}d_with_indices.default": max_pool(n, "max_pool_places") for n in (1, 2, 3)},
    "aten.avg_pool1d.default": avg_pool(1),
    "aten.avg_pool2d.default": avg_pool(2),
    "aten.avg_pool3d.default": avg_pool(3),
    **{f"aten.adaptive_avg_pool{n}d.default": adaptive_pool(n) for n in (1, 2, 3)},
    "aten._adaptive_avg_pool2d.default": adaptive_pool(2),
    "aten._adaptive_avg_pool3d.default": adaptive_pool(3),
    **{f"aten.adaptive_max_pool{n}d.default": adaptive_max_pool(n) for n in (1, 2, 3)},
}
