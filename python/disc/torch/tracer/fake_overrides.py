"""Computes fake results of ops whose meta functions in torch would specialise sizes,
or write them in a way hard to read.
"""

from __future__ import annotations

import math

import torch
import torch._prims_common
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from ..decompositions import basic
from ..devices.device import HOST
from ..symbolic.expressions import shortened
from .fake_views import Orders

aten = torch.ops.aten


def _recurrent(x, given, weights, has_biases, layers, dropout, train, bidirectional, batch_first):
    states = given if isinstance(given, (list, tuple)) else [given]
    torch._check(len(x.shape) == 3, lambda: f"expected an input of rank 3, got {len(x.shape)}")
    features = weights[0].shape[1]
    torch._check(x.shape[2] == features, lambda: f"expected {features} features, got {x.shape[2]}")
    batch = x.shape[0 if batch_first else 1]
    torch._check(
        all(state.shape[1] == batch for state in states), lambda: f"expected states of batch {batch}"
    )
    width = states[0].shape[2] * (2 if bidirectional else 1)
    return x.new_empty([*x.shape[:2], width]), *(s.new_empty(list(s.shape)) for s in states)


def _affine_grid(theta, size, align_corners):
    torch._check(len(size) in (4, 5), lambda: f"expected a size of 4 or 5 numbers, got {len(size)}")
    matrix = [size[0], len(size) - 2, len(size) - 1]
    torch._check(list(theta.shape) == matrix, lambda: f"expected theta of {matrix}, got {list(theta.shape)}")
    return theta.new_empty([size[0], *size[2:], len(size) - 2])


def _fill_diagonal(x, value, wrap=False):
    torch._check(x.dim() >= 2, lambda: f"expected at least 2 axes, got {x.dim()}")
    return x


def _narrow(x, dim, start, length):
    # torch asks for the sign of the place where it begins; the compiled code checks that it is
    # within.
    sizes, strides = list(x.shape), x.stride()
    axis = torch._prims_common.canonicalize_dim(x.dim(), dim)
    if isinstance(start, int):
        start = start + sizes[axis] if start < 0 else start
        torch._check(
            start + length <= sizes[axis], lambda: f"narrow: {start} + {length} exceeds {sizes[axis]}"
        )
    sizes[axis] = length
    return x.as_strided(sizes, strides, x.storage_offset() + torch.sym_max(start, 0) * strides[axis])


def _unflatten(x, dim, sizes):
    # Whatever the layout of a tensor, each of its axes can be split; torch asks for sizes to find
    # that.
    axis, sizes = torch._prims_common.canonicalize_dim(x.dim(), dim), list(sizes)
    open_at = [i for i, size in enumerate(sizes) if type(size) is int and size < 0]
    known = math.prod(size for i, size in enumerate(sizes) if i not in open_at)
    if len(open_at) > 1 or not x.dim() or (type(known) is int and known == 0):
        return aten.unflatten.int(x, dim, sizes)
    for i in open_at:
        sizes[i] = x.shape[axis] // known
    whole = math.prod(sizes)
    torch._check(whole == x.shape[axis], lambda: f"unflatten: {sizes} do not multiply to {x.shape[axis]}")
    strides = [math.prod(sizes[i + 1 :]) * x.stride(axis) for i in range(len(sizes))]
    shape = [*x.shape[:axis], *sizes, *x.shape[axis + 1 :]]
    return x.as_strided(shape, [*x.stride()[:axis], *strides, *x.stride()[axis + 1 :]], x.storage_offset())


def _index_put(op):
    """torch does not ask whether the values fit. (How many places a mask has is not known here.)"""

    def shape(x, indices, values, accumulate=False):
        if not any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices):
            values.expand(aten.index.Tensor(x, indices).shape)
        return op(x, indices, values, accumulate)

    return shape


def _diff(x, n=1, dim=-1, prepend=None, append=None):
    # torch takes a part whose length it asks for, and then there is a first element.
    axis = torch._prims_common.canonicalize_dim(x.dim(), dim)
    parts = [t for t in (prepend, x, append) if t is not None]
    torch._check(n >= 0, lambda: f"diff: expected order to be at least 0, got {n}")
    torch._check(all(t.dim() == x.dim() for t in parts), lambda: "diff: expected tensors of one rank")
    whole = torch.cat(parts, axis) if len(parts) > 1 else x
    sizes = list(whole.shape)
    sizes[axis] = shortened(torch.sym_max(sizes[axis] - n, 0))
    return whole.new_empty(sizes)


def _logsumexp(x, dim, keepdim=False):
    # torch asks whether there is anything to reduce, and then needs that there is.
    shape, dims = list(x.shape), [dim] if isinstance(dim, int) else dim
    axes = torch._prims_common.canonicalize_dims(x.dim(), dims) if dims else range(x.dim())
    for axis in sorted(set(axes), reverse=True):
        if not x.dim():
            break
        shape[axis : axis + 1] = [1] if keepdim else []
    dtype = x.dtype if x.is_floating_point() or x.is_complex() else torch.get_default_dtype()
    return x.new_empty(shape, dtype=dtype)


def _resampled(op):
    """A shape is known without the steps that torch takes for it."""

    def shape(x, output_size, *args, **kwargs):
        factors = kwargs.get("scale_factors", args[-1] if args else None)
        sizes = output_size
        if output_size is None and factors is not None and x.dim() == len(factors) + 2:
            pairs = zip(x.shape[2:], factors, strict=True)
            sizes = [n * int(f) if int(f) == f else torch.sym_int(n * f) for n, f in pairs]
        if sizes is None or x.dim() != len(sizes) + 2 or (output_size is not None and factors is not None):
            return op(x, output_size, *args, **kwargs)
        return x.new_empty([*x.shape[:2], *sizes])

    return shape


def _shorter(op):
    """Sizes by short expressions: those of parts of parts, and of parts that are joined again,
    double with each.
    """

    def shape(*args, **kwargs):
        out = op(*args, **kwargs)
        sizes = [shortened(size) for size in out.shape]
        if all(size is before for size, before in zip(sizes, out.shape, strict=True)):
            return out
        if op is aten.slice.Tensor:
            return out.as_strided(sizes, out.stride(), out.storage_offset())
        # The strides of a new tensor contain the sizes.
        lying = Orders().of(out)
        if lying is None or not lying.dense:
            return out
        strides = torch._prims_common.make_contiguous_strides_for([sizes[axis] for axis in lying.order])
        return out.as_strided(sizes, [strides[lying.order.index(axis)] for axis in range(out.dim())], 0)

    return shape


def _shifted(op):
    """torch's description of a shift refuses a bool that is converted to the type of the other."""

    def shape(x, y):
        if x.dtype is torch.bool and torch.result_type(x, y) is not torch.bool:
            x = x.to(torch.result_type(x, y))
        return op(x, y)

    return shape


def _as_on_host(op):
    """torch describes a result on a CUDA device by the kernel that it would choose for the sizes,
    and asks for them; on the host it does not.
    """

    def moved(t, device):
        with torch._C._DisableTorchDispatch():
            meta = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")
        return FakeTensor(t.fake_mode, meta, device)

    def shape(*args, **kwargs):
        tensors = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, FakeTensor)]
        device = tensors[0].fake_device
        if device == HOST or any(t.fake_device != device for t in tensors):
            return op(*args, **kwargs)
        args, kwargs = pytree.tree_map_only(FakeTensor, lambda t: moved(t, HOST), (args, kwargs))
        return moved(op(*args, **kwargs), device)

    return shape


_SHIFTS = (
    aten.__lshift__.Scalar,
    aten.__lshift__.Tensor,
    aten.__rshift__.Scalar,
    aten.__rshift__.Tensor,
    aten.bitwise_left_shift.Tensor,
    aten.bitwise_left_shift.Tensor_Scalar,
    aten.bitwise_right_shift.Tensor,
    aten.bitwise_right_shift.Tensor_Scalar,
)
_RESAMPLING = (
    aten.upsample_linear1d.vec,
    aten.upsample_bilinear2d.vec,
    aten.upsample_bicubic2d.vec,
    aten.upsample_trilinear3d.vec,
    aten.upsample_nearest1d.vec,
    aten.upsample_nearest2d.vec,
    aten.upsample_nearest3d.vec,
)

SHAPES = {
    aten.kron.default: basic.kron,
    aten.take_along_dim.default: basic.take_along_dim,
    aten.affine_grid_generator.default: _affine_grid,
    aten.fill_diagonal_.default: _fill_diagonal,
    aten.diff.default: _diff,
    aten.index_put.default: _index_put(aten.index_put.default),
    aten.index_put_.default: _index_put(aten.index_put_.default),
    aten.logsumexp.default: _logsumexp,
    aten.narrow.default: _narrow,
    aten.slice.Tensor: _shorter(aten.slice.Tensor),
    aten.cat.default: _shorter(aten.cat.default),
    aten.pad.default: _shorter(aten.pad.default),
    aten.constant_pad_nd.default: _shorter(aten.constant_pad_nd.default),
    aten.unflatten.int: _unflatten,
    aten.lstm.input: _recurrent,
    aten.gru.input: _recurrent,
    aten.rnn_tanh.input: _recurrent,
    aten.rnn_relu.input: _recurrent,
    aten.scaled_dot_product_attention.default: _as_on_host(aten.scaled_dot_product_attention.default),
}
SHAPES |= {op: _shifted(op) for op in _SHIFTS}
SHAPES |= {op: _resampled(op) for op in _RESAMPLING}
