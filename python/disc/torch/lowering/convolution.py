"""Lowers convolutions, im2col and col2im."""

from __future__ import annotations

from ...lowering.sizes import is_int, product, spread
from .matmul import accumulate
from .pooling import elements_at, window_offsets


def convolution(b, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    n = len(weight.shape) - 2
    if not transposed:
        edges = [(p, p) for p in spread(padding, n)]
        return _convolved(b, x, weight, bias, stride, edges, dilation, groups)
    forms = (spread(v, n) for v in (stride, padding, dilation, output_padding))
    return _batched(b, x, n, bias, groups, lambda x, dtype: _transposed(b, x, weight, *forms, groups, dtype))


def _convolved(b, x, weight, bias, stride, edges, dilation, groups):
    """``edges``: the low and the high padding of each spatial axis."""
    n = len(edges)
    forms = {"strides": spread(stride, n), "lhs_dilation": [1] * n, "rhs_dilation": spread(dilation, n)}

    def of_batch(x, dtype):
        return b.convolution(x, weight, padding=edges, groups=groups, dtype=dtype, **forms)

    return _batched(b, x, n, bias, groups, of_batch)


def _batched(b, x, n: int, bias, groups, of_batch):
    """Applies ``of_batch`` to a batch, or to one image as a batch of one,
    and adds the bias of each feature to the sums, which half types round afterwards.
    """
    if not is_int(groups):
        raise b.unsupported(f"a convolution in as many groups as a size says ({groups})")
    single = len(x.shape) == n + 1
    y = of_batch(b.unsqueeze(x, 0) if single else x, x.dtype if bias is None else accumulate(x.dtype))
    if bias is not None:
        y = b.convert(b.add(y, b.broadcast(b.wide(bias), y.shape, [1])), x.dtype)
    return b.squeeze(y, 0) if single else y


def _transposed(b, x, weight, stride, padding, dilation, output_padding, groups, dtype):
    """A convolution of the input, spread by ``stride``, with the weight turned round."""
    for size in x.shape[2:]:
        # torch refuses an empty input too, and what a window leaves of it has no simple form.
        b.require(size, ">=", 1)
    channels, out, *kernel = weight.shape
    w = b.reshape(weight, [groups, channels // groups, out, *kernel])
    w = b.reshape(
        b.transpose(w, [0, 2, 1, *range(3, 3 + len(kernel))]), [groups * out, channels // groups, *kernel]
    )
    w = b.reverse(w, list(range(2, 2 + len(kernel))))
    edges = [
        (d * (k - 1) - p, d * (k - 1) - p + extra)
        for d, k, p, extra in zip(dilation, kernel, padding, output_padding, strict=True)
    ]
    ones = [1] * len(kernel)
    return b.convolution(
        x,
        w,
        strides=ones,
        padding=edges,
        lhs_dilation=stride,
        rhs_dilation=dilation,
        groups=groups,
        dtype=dtype,
    )


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
        edges = [(total // 2, total - total // 2) for total in totals]
        return _convolved(b, x, weight, bias, stride, edges, dilation, groups)

    return entry


def columns_to_image(b, x, size, kernel, dilation, padding, stride):
    """col2im: every column is a window that is added to its place in the image."""
    kernel, dilation, padding, stride = (spread(v, 2) for v in (kernel, dilation, padding, stride))
    single = len(x.shape) == 2
    x = b.unsqueeze(x, 0) if single else x
    batch, depth = x.shape[0], x.shape[1]
    counts = [
        (s + 2 * p - d * (k - 1) - 1) // st + 1
        for s, p, d, k, st in zip(size, padding, dilation, kernel, stride, strict=True)
    ]
    channels = depth // (kernel[0] * kernel[1])
    x = b.reshape(x, [batch, channels, *kernel, *counts])
    total = None
    full = [s + 2 * p for s, p in zip(size, padding, strict=True)]
    for i, j in window_offsets(kernel):
        part = b.squeeze(b.slice(b.slice(x, 2, i, i + 1), 3, j, j + 1), 2, 3)
        low = [0, 0, i * dilation[0], j * dilation[1]]
        inner = [0, 0, stride[0] - 1, stride[1] - 1]
        reach = [lo + (c - 1) * st + 1 for lo, c, st in zip(low[2:], counts, stride, strict=True)]
        high = [0, 0, *(f - r for f, r in zip(full, reach, strict=True))]
        part = b.pad(part, b.lift(0, x.dtype), low, high, inner)
        total = part if total is None else b.add(total, part)
    for axis, (p, s) in enumerate(zip(padding, size, strict=True)):
        total = b.slice(total, 2 + axis, p, p + s)
    return b.squeeze(total, 0) if single else total


def image_to_columns(b, x, kernel, dilation, padding, stride):
    """im2col, the inverse gathering."""
    kernel, dilation, padding, stride = (spread(v, 2) for v in (kernel, dilation, padding, stride))
    single = len(x.shape) == 3
    x = b.unsqueeze(x, 0) if single else x
    batch, channels, *size = x.shape
    counts = [
        (s + 2 * p - d * (k - 1) - 1) // st + 1
        for s, p, d, k, st in zip(size, padding, dilation, kernel, stride, strict=True)
    ]
    x = b.pad(x, b.lift(0, x.dtype), [0, 0, *padding], [0, 0, *padding])
    parts = [
        b.unsqueeze(elements_at(b, x, 2, offset, [1, 1, *stride], [1, 1, *dilation], counts), 2)
        for offset in window_offsets(kernel)
    ]
    y = b.reshape(b.concatenate(parts, 2), [batch, channels * kernel[0] * kernel[1], product(counts)])
    return b.squeeze(y, 0) if single else y


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
