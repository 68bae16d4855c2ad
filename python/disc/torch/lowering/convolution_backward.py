"""Lowers the gradients of convolutions: of the input, as a convolution of the gradient, and of the
weight, as a matmul of the gradient with the elements that each element of the window met.
"""

from __future__ import annotations

from ...lowering.sizes import is_int, spread
from .convolution import convolution
from .matmul import accumulate
from .pooling import elements_at, window_offsets


def convolution_backward(
    b, grad, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask
):
    """The gradients of input, weight and bias, each where ``output_mask`` asks for it."""
    if not is_int(groups):
        raise b.unsupported(f"a convolution in as many groups as a size says ({groups})")
    if not all(is_int(size) for size in weight.shape[2:]):
        raise b.unsupported("a window of a size that changes")
    n = len(weight.shape) - 2
    form = [spread(v, n) for v in (stride, padding, dilation)]
    of_input, of_weight, of_bias = output_mask
    return (
        _of_input(b, grad, x, weight, form, transposed, groups) if of_input else None,
        _of_weight(b, grad, x, weight, form, transposed, groups) if of_weight else None,
        _sums_of_features(b, grad, n) if of_bias else None,
    )


def _of_input(b, grad, x, weight, form, transposed, groups):
    stride, padding, dilation = form
    n = len(stride)
    if transposed:
        return convolution(b, grad, weight, None, stride, padding, dilation, False, [0] * n, groups)
    # The last elements, which no window meets where the stride does not divide, are zeros: as
    # many as may be are computed, and cut off.
    extra = [s - 1 for s in stride]
    wide = convolution(b, grad, weight, None, stride, padding, dilation, True, extra, groups)
    for axis in range(2, 2 + n):
        if extra[axis - 2]:
            wide = b.slice(wide, axis, 0, x.shape[axis])
    return wide


def _of_weight(b, grad, x, weight, form, transposed, groups):
    """Sums, over the batch and all windows, of products of what a window gave and what it read.

    Reference: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016.
    """
    stride, padding, dilation = form
    given, read = (x, grad) if transposed else (grad, x)
    n = len(stride)
    kernel, counts = weight.shape[2:], given.shape[2:]
    read = b.pad(read, b.lift(0, read.dtype), [0, 0, *padding], [0, 0, *padding])
    rows, columns = (t.shape[1] // groups for t in (given, read))
    given = b.reshape(given, [given.shape[0], groups, rows, *counts])
    taps = []
    for offset in window_offsets(kernel):
        met = elements_at(b, read, 2, offset, [1, 1, *stride], [1, 1, *dilation], counts)
        met = b.reshape(met, [met.shape[0], groups, columns, *counts])
        summed = [0, *range(3, 3 + n)]
        products = b.dot(
            given, met, batching=([1], [1]), contracting=(summed, summed), dtype=accumulate(given.dtype)
        )
        taps.append(b.unsqueeze(b.convert(products, weight.dtype), -1))
    whole = b.concatenate(taps, 3) if len(taps) > 1 else taps[0]
    return b.reshape(whole, list(weight.shape))


def _sums_of_features(b, grad, n: int):
    total = b.sum(b.wide(grad), [0, *range(2, 2 + n)])
    return b.convert(total, grad.dtype)


TABLE = {"aten.convolution_backward.default": convolution_backward}
