"""Lowers convolutions, im2col and col2im."""

from __future__ import annotations

from ...lowering.sizes import is_int, spread


def convolution(b, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    n = len(weight.shape) - 2
    padding = spread(padding, n)
    if not transposed:
        return _convolved(b, x, weight, bias, stride, padding, padding, dilation, groups)
    return b.compose(
        "transposed_convolution",
        x,
        weight,
        bias,
        strides=spread(stride, n),
        padding_low=padding,
        padding_high=padding,
        output_padding=spread(output_padding, n),
        dilations=spread(dilation, n),
        groups=_known(b, groups),
    )


def _convolved(b, x, weight, bias, stride, low, high, dilation, groups):
    """``low, high``: the padding of each spatial axis."""
    n = len(low)
    return b.compose(
        "convolution",
        x,
        weight,
        bias,
        strides=spread(stride, n),
        padding_low=low,
        padding_high=high,
        dilations=spread(dilation, n),
        groups=_known(b, groups),
    )


def _known(b, groups) -> int:
    if not is_int(groups):
        raise b.unsupported(f"a convolution in as many groups as a size says ({groups})")
    return groups


def conv(n: int, transposed: bool = False):
    def forward(b, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        return convolution(b, x, weight, bias, stride, padding, dilation, False, [0] * n, groups)

    def backward(b, x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        return convolution(b, x, weight, bias, stride, padding, dilation, True, output_padding, groups)

    return backward if transposed else forward


def conv_named_padding(n: int):
    """padding = "same" or "valid"; torch puts the odd one on the high side."""

    def entry(b, x, weight, bias=None, stride=1, padding="valid", dilation=1, groups=1):
        totals = [
            d * (k - 1) if padding == "same" else 0
            for d, k in zip(spread(dilation, n), weight.shape[2:], strict=True)
        ]
        low = [total // 2 for total in totals]
        high = [total - total // 2 for total in totals]
        return _convolved(b, x, weight, bias, stride, low, high, dilation, groups)

    return entry


def windows(kernel, dilation, padding, stride) -> dict:
    """The attributes of im2col and col2im."""
    return {
        "kernel": spread(kernel, 2),
        "dilations": spread(dilation, 2),
        "padding": spread(padding, 2),
        "strides": spread(stride, 2),
    }


def columns_to_image(b, x, size, *form):
    return b.compose("columns_to_image", x, sizes=list(size), **windows(*form))


def image_to_columns(b, x, *form):
    return b.compose("image_to_columns", x, **windows(*form))


TABLE = {
    "aten.convolution.default": convolution,
    **{f"aten.conv{n}d.default": conv(n) for n in (1, 2, 3)},
    **{f"aten.conv{n}d.padding": conv_named_padding(n) for n in (1, 2, 3)},
    "aten.conv_transpose1d.default": conv(1, transposed=True),
    "aten.conv_transpose2d.input": conv(2, transposed=True),
    "aten.conv_transpose3d.input": conv(3, transposed=True),
    "aten.col2im.default": columns_to_image,
    "aten.im2col.default": image_to_columns,
}
