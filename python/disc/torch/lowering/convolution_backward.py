"""Lowers the gradients of convolutions: of the input, as a convolution of the gradient, and of the
weight, as matmuls of the gradient with the elements that the windows read.
"""

from __future__ import annotations

from ...lowering.sizes import is_int, product, same, spread
from .convolution import convolution
from .matmul import accumulate

#: Windows of at most this many elements get a matmul for each of them, which reads its elements as
#: they are stored; one matmul for all gathers them, and compiles as fast for any window.
MOST_MATMULS = 9
#: With fewer features in a group these matmuls are too narrow, and one for all is faster.
LEAST_FEATURES = 16


def convolution_backward(
    b, grad, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask
):
    """The gradients of input, weight and bias, each where ``output_mask`` asks for it."""
    if not is_int(groups):
        raise b.unsupported(f"a convolution in as many groups as a size says ({groups})")
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
        given = convolution(b, grad, weight, None, stride, padding, dilation, False, [0] * n, groups)
        return _front(b, given, range(2, 2 + n), x.shape[2:])
    # The last elements, which no window meets where the stride does not divide, are zeros: as
    # many as may be are computed, and cut off.
    extra = [s - 1 for s in stride]
    wide = convolution(b, grad, weight, None, stride, padding, dilation, True, extra, groups)
    cut = [axis for axis in range(2, 2 + n) if extra[axis - 2]]
    return _front(b, wide, cut, [x.shape[axis] for axis in cut])


def _front(b, x, axes, sizes):
    """Cuts the axes to these sizes: the output padding of a transposed convolution may leave room
    for more windows than it has inputs.
    """
    for axis, size in zip(axes, sizes, strict=True):
        if not same(x.shape[axis], size):
            x = b.slice(x, axis, 0, size)
    return x


def _of_weight(b, grad, x, weight, form, transposed, groups):
    """Sums, over the batch and all windows, of products of what a window gave and what it read.

    Reference: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016.
    """
    given, read = (x, grad) if transposed else (grad, x)
    rows, columns = (t.shape[1] // groups for t in (given, read))
    given = b.reshape(given, [given.shape[0], groups, rows, *given.shape[2:]])
    kernel = weight.shape[2:]
    few = all(is_int(size) for size in kernel) and product(kernel) <= MOST_MATMULS
    wide = is_int(columns) and columns >= LEAST_FEATURES
    by_elements = few and (wide or product(kernel) == 1)
    whole = _by_elements if by_elements else _by_windows
    return b.reshape(whole(b, given, read, columns, kernel, form, weight.dtype), list(weight.shape))


def _by_elements(b, given, read, columns, kernel, form, dtype):
    """One matmul for each element of the window."""
    stride, padding, dilation = form
    groups, counts = given.shape[1], given.shape[3:]
    read = b.pad(read, b.lift(0, read.dtype), [0, 0, *padding], [0, 0, *padding])
    taps = []
    for offset in window_offsets(kernel):
        met = elements_at(b, read, 2, offset, [1, 1, *stride], [1, 1, *dilation], counts)
        met = b.reshape(met, [met.shape[0], groups, columns, *counts])
        summed = list(range(3, 3 + len(stride)))
        taps.append(b.unsqueeze(_summed(b, given, met, summed, summed, dtype), -1))
    return b.concatenate(taps, 3) if len(taps) > 1 else taps[0]


def window_offsets(kernel):
    offsets = [()]
    for k in kernel:
        offsets = [(*o, i) for o in offsets for i in range(k)]
    return offsets


def elements_at(b, x, lead, offset, strides, dilation, out):
    """The element at ``offset`` of every window."""
    for i, place in enumerate(offset):
        axis = lead + i
        start = place * dilation[axis]
        x = b.slice(x, axis, start, start + (out[i] - 1) * strides[axis] + 1, strides[axis])
    return x


def _by_windows(b, given, read, columns, kernel, form, dtype):
    """One matmul with the windows as they are gathered (im2col), whatever their size."""
    stride, padding, dilation = form
    n, counts = len(stride), given.shape[3:]
    read = b.reshape(read, [read.shape[0], given.shape[1], columns, *read.shape[2:]])
    met = b.op(
        "im2col",
        read,
        window_dimensions=list(kernel),
        window_strides=list(stride),
        window_dilations=list(dilation),
        padding_low=list(padding),
        padding_high=list(padding),
    )
    summed = list(range(3, 3 + n))
    counted = [axis + n for axis in summed]
    met = _front(b, met, counted, counts)
    return _summed(b, given, met, summed, counted, dtype)


def _summed(b, given, met, summed, counted, dtype):
    """The matmul of each group, which sums over the batch and the windows, in the given type."""
    products = b.dot(
        given,
        met,
        batching=([1], [1]),
        contracting=([0, *summed], [0, *counted]),
        dtype=accumulate(given.dtype),
    )
    return b.convert(products, dtype)


def _sums_of_features(b, grad, n: int):
    total = b.sum(b.wide(grad), [0, *range(2, 2 + n)])
    return b.convert(total, grad.dtype)


TABLE = {"aten.convolution_backward.default": convolution_backward}
