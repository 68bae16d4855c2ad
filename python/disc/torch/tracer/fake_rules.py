"""Computes fake results of frequent ops on dense tensors whose sizes are written alike,
without asking torch.

torch describes a result by its strides, and asks for each op which sizes are 0 or 1 and which
strides are larger; where sizes are long expressions of the image's, that is most of the time of a
trace. What these ops give of dense operands is the same whatever the answers are.

Invariants:

- a rule gives the type and the sizes that torch gives, or nothing: sizes that are not written
  alike, types that differ, and whatever is an error fall to torch, which puts conditions on sizes
  or says what is wrong;
- what an op needs of its sizes is asked for by ``torch._check``, as torch does.
"""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..devices.device import TYPES
from ..symbolic.expressions import SYMBOLIC, expression
from .fake_views import VIEWS, Lying, Order, Orders, alike, in_order, view_of

aten = torch.ops.aten

#: A result: its type and sizes.
Plain = tuple[torch.dtype, list]


def _is_number(x) -> bool:
    return isinstance(x, (bool, int, float, *SYMBOLIC))


def _broadcast(*shapes) -> list | None:
    """The sizes of tensors together, where each is 1 or written as the others."""
    out: list = []
    for place in range(1, 1 + max(map(len, shapes))):
        size = 1
        for shape in shapes:
            other = shape[-place] if place <= len(shape) else 1
            if expression(size) == 1:
                size = other
            elif expression(other) != 1 and expression(other) != expression(size):
                return None
        out.append(size)
    return out[::-1]


# Rules: the arguments of the op -> the result, or nothing.


def _unary(x, *rest, **named) -> Plain | None:
    if not x.dtype.is_floating_point or any(isinstance(y, torch.Tensor) for y in (*rest, *named.values())):
        return None
    return x.dtype, list(x.shape)


def _binary(x, y, **named) -> Plain | None:
    tensors = [t for t in (x, y) if isinstance(t, torch.Tensor)]
    if not all(isinstance(t, torch.Tensor) or _is_number(t) for t in (x, y)) or "rounding_mode" in named:
        return None
    dtypes = {t.dtype for t in tensors}
    if len(dtypes) > 1 or not x.dtype.is_floating_point:
        return None
    shape = _broadcast(*(t.shape for t in tensors))
    return None if shape is None else (x.dtype, shape)


def _compared(x, y) -> Plain | None:
    found = _binary(x, y)
    return None if found is None else (torch.bool, found[1])


def _logical(x, *rest) -> Plain | None:
    if any(not isinstance(t, torch.Tensor) or t.dtype != torch.bool for t in (x, *rest)):
        return None
    shape = _broadcast(x.shape, *(t.shape for t in rest))
    return None if shape is None else (torch.bool, shape)


def _where(condition, x, y) -> Plain | None:
    if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor) or x.dtype != y.dtype:
        return None
    shape = _broadcast(condition.shape, x.shape, y.shape)
    return None if shape is None or condition.dtype != torch.bool else (x.dtype, shape)


def _masked_fill(x, mask, value) -> Plain | None:
    if not x.dtype.is_floating_point or mask.dtype != torch.bool or not _is_number(value):
        return None
    shape = _broadcast(x.shape, mask.shape)
    return (x.dtype, shape) if shape is not None and alike(shape, x.shape) else None


def _to_dtype(x, dtype, non_blocking=False, copy=False, memory_format=None) -> Plain | None:
    return None if dtype == x.dtype or memory_format is not None else (dtype, list(x.shape))


def _along(x, dim, *rest, dtype=None) -> Plain | None:
    """A softmax or a running sum."""
    plain = dtype is None and all(y is None for y in rest) and x.dtype.is_floating_point
    return (x.dtype, list(x.shape)) if plain and -x.dim() <= dim < x.dim() else None


def _reduced(x, dims, keepdim=False, dtype=None) -> Plain | None:
    if not x.dtype.is_floating_point or dtype is not None or not dims or not x.dim():
        return None
    axes = {dim % x.dim() for dim in dims if -x.dim() <= dim < x.dim()}
    if len(axes) < len(dims):
        return None
    kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    return x.dtype, kept if keepdim else [size for axis, size in enumerate(kept) if axis not in axes]


def _roll(x, shifts, dims=()) -> Plain | None:
    count = len(shifts) if isinstance(shifts, (list, tuple)) else 1
    fits = len(dims) == count and all(-x.dim() <= dim < x.dim() for dim in dims)
    return (x.dtype, list(x.shape)) if fits else None


def _parameters(x, features, *tensors) -> bool:
    return x.dtype.is_floating_point and all(
        t is None or (t.dtype == x.dtype and alike(t.shape, features)) for t in tensors
    )


def _layer_norm(x, shape, weight=None, bias=None, *rest, **named) -> Plain | None:
    last = x.shape[x.dim() - len(shape) :] if x.dim() >= len(shape) > 0 else ()
    return (x.dtype, list(x.shape)) if alike(last, shape) and _parameters(x, shape, weight, bias) else None


def _rms_norm(x, shape, weight=None, *rest, **named) -> Plain | None:
    return _layer_norm(x, shape, weight)


def _group_norm(x, groups, weight=None, bias=None, *rest, **named) -> Plain | None:
    fits = x.dim() > 2 and isinstance(x.shape[1], int) and groups > 0 and x.shape[1] % groups == 0
    return (x.dtype, list(x.shape)) if fits and _parameters(x, x.shape[1:2], weight, bias) else None


def _batch_norm(x, weight, bias, mean, var, training, *rest) -> Plain | None:
    if training or x.dim() < 2 or mean is None or var is None:
        return None
    fits = _parameters(x, x.shape[1:2], weight, bias, mean, var)
    return (x.dtype, list(x.shape)) if fits else None


def _convolution(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1) -> Plain | None:
    n = weight.dim() - 2
    settings = [[v] * n if isinstance(v, int) else list(v) for v in (stride, padding, dilation)]
    settings = [v * n if len(v) == 1 else v for v in settings]
    plain = (
        x.dim() == n + 2
        and all(len(v) == n and all(type(k) is int for k in v) for v in settings)
        and x.dtype == weight.dtype
        and all(type(size) is int for size in (x.shape[1], *weight.shape))
        and x.shape[1] == weight.shape[1] * groups
        and weight.shape[0] % groups == 0
        and _parameters(x, weight.shape[:1], bias)
    )
    if not plain or any(min(v) < low for v, low in zip(settings, (1, 0, 1), strict=True)):
        return None
    sizes = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip(x.shape[2:], weight.shape[2:], *settings, strict=True)
    ]
    return x.dtype, [x.shape[0], weight.shape[0], *sizes]


def _grid_sampler(x, grid, mode, padding, corners) -> Plain | None:
    n = x.dim() - 2
    fits = grid.dim() == x.dim() and alike([x.shape[0], n], [grid.shape[0], grid.shape[-1]])
    if not fits or n not in (2, 3) or grid.dtype != x.dtype or not x.dtype.is_floating_point:
        return None
    return x.dtype, [*x.shape[:2], *grid.shape[1:-1]]


def _cat(tensors, dim=0) -> Plain | None:
    first = tensors[0]
    axis = dim % first.dim() if first.dim() and -first.dim() <= dim < first.dim() else None
    if axis is None or first.dim() == 1:
        return None  # tensors of one axis without elements are left out, whatever the others are
    if any(t.dtype != first.dtype or t.dim() != first.dim() for t in tensors):
        return None
    rests = [[*t.shape[:axis], *t.shape[axis + 1 :]] for t in tensors]
    if not all(alike(rest, rests[0]) for rest in rests):
        return None
    return first.dtype, [*first.shape[:axis], sum(t.shape[axis] for t in tensors), *first.shape[axis + 1 :]]


def _stack(tensors, dim=0) -> Plain | None:
    first = tensors[0]
    if any(t.dtype != first.dtype or not alike(t.shape, first.shape) for t in tensors):
        return None
    if not -first.dim() - 1 <= dim <= first.dim():
        return None
    axis = dim % (first.dim() + 1)
    return first.dtype, [*first.shape[:axis], len(tensors), *first.shape[axis:]]


def _contiguous(x, memory_format=torch.contiguous_format) -> Plain | None:
    return (x.dtype, list(x.shape)) if memory_format is torch.contiguous_format else None


def _matmul(x, y) -> Plain | None:
    """Of stacks of matrices that are alike in number; torch writes others,
    and errors, by views of them.
    """
    if x.dim() < 3 or x.dtype != y.dtype or not alike([*x.shape[:-2], x.shape[-1]], y.shape[:-1]):
        return None
    return x.dtype, [*x.shape[:-1], y.shape[-1]]


def _linear(x, weight, bias=None) -> Plain | None:
    fits = x.dim() > 2 and weight.dim() == 2 and x.dtype == weight.dtype
    if not fits or not alike(x.shape[-1:], weight.shape[1:]) or not _parameters(x, weight.shape[:1], bias):
        return None
    return x.dtype, [*x.shape[:-1], weight.shape[0]]


#: They give a result in the layout of their operands.
ELEMENTWISE = {
    **{
        getattr(aten, name).default: _unary
        for name in (
            *("abs", "ceil", "clamp", "clamp_max", "clamp_min", "cos", "elu", "erf", "exp", "floor", "gelu"),
            *("hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log", "mish", "neg", "reciprocal"),
            *("relu", "round", "rsqrt", "sigmoid", "silu", "sin", "softplus", "sqrt", "square", "tanh"),
        )
    },
    **{getattr(aten, name).Tensor: _binary for name in ("add", "sub", "mul", "div")},
    aten.maximum.default: _binary,
    aten.minimum.default: _binary,
    aten.pow.Tensor_Scalar: _binary,
    **{
        op: _compared
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
        for op in (getattr(aten, name).Tensor, getattr(aten, name).Scalar)
    },
    **{getattr(aten, f"bitwise_{name}").Tensor: _logical for name in ("and", "or", "xor")},
    **{getattr(aten, f"logical_{name}").default: _logical for name in ("and", "or", "xor", "not")},
    aten.bitwise_not.default: _logical,
    aten.__and__.Tensor: _logical,
    aten.__or__.Tensor: _logical,
    aten.where.self: _where,
    aten.masked_fill.Scalar: _masked_fill,
    aten.to.dtype: _to_dtype,
}
#: Their results are in order, whatever the layout of their operands.
ANYHOW = {
    aten.contiguous.default: _contiguous,
    aten.layer_norm.default: _layer_norm,
    aten.linear.default: _linear,
    aten.matmul.default: _matmul,
}
#: They keep channels last where operands have that layout.
IMAGES = {
    aten.batch_norm.default: _batch_norm,
    aten.conv2d.default: _convolution,
}
#: Of operands in order, their results are in order.
IN_ORDER = {
    **IMAGES,
    aten.softmax.int: _along,
    aten.log_softmax.int: _along,
    aten.cumsum.default: _along,
    aten.mean.dim: _reduced,
    aten.sum.dim_IntList: _reduced,
    aten.roll.default: _roll,
    aten.rms_norm.default: _rms_norm,
    aten.group_norm.default: _group_norm,
    aten.conv1d.default: _convolution,
    aten.conv3d.default: _convolution,
    aten.grid_sampler.default: _grid_sampler,
    aten.cat.default: _cat,
    aten.concat.default: _cat,
    aten.stack.default: _stack,
}


def elementwise_order(shape: list, operands: list[tuple[list, Order]]) -> Order | None:
    """The layout of an elementwise op's result: that of the operands of its own sizes,
    if the others have no say.
    """
    orders = {order for sizes, order in operands if alike(sizes, shape)}
    found = orders.pop() if orders else in_order(len(shape))
    for sizes, order in operands:
        repeated = not alike(sizes, shape) and sum(expression(size) != 1 for size in sizes) > 1
        if repeated and not (order == in_order(len(sizes)) and found == in_order(len(shape))):
            return None
    return None if orders else found


class PlainResults:
    """The results of ops by these rules: types, sizes and orders."""

    def __init__(self):
        self._orders = Orders()
        #: Sizes that are known to be above 0, as they are written.
        self._positive: set = set()

    def lying(self, t: FakeTensor) -> Lying | None:
        return self._orders.of(t) if t.fake_device.type in TYPES and t.layout is torch.strided else None

    def of(self, func, args, kwargs, tensors, lying) -> tuple[torch.dtype, list, Order, bool] | None:
        """Type, sizes, order, and whether it is a view of the first tensor;
        ``lying`` are the layouts of ``tensors``.
        """
        if func in VIEWS:
            found = view_of(func, tensors[0], lying[0], *args[1:], **kwargs)
            return None if found is None else (tensors[0].dtype, *found)
        if func in ELEMENTWISE:
            found = None if None in lying else ELEMENTWISE[func](*args, **kwargs)
            if found is None:
                return None
            operands = [(t.shape, at.order) for t, at in zip(tensors, lying, strict=True)]
            order = elementwise_order(found[1], operands)
            return None if order is None else (*found, order, False)
        if func in ANYHOW:
            if func is aten.contiguous.default and (lying[0] is None or _in_order(lying[0])):
                return None
            found = ANYHOW[func](*args, **kwargs)
            return None if found is None else (*found, in_order(len(found[1])), False)
        if func not in IN_ORDER:
            return None
        last = func in IMAGES and lying[0] == Lying((0, 2, 3, 1))
        if not all(map(_in_order, lying[1:])) or not (last or _in_order(lying[0])):
            return None
        found = IN_ORDER[func](*args, **kwargs)
        if found is not None and IN_ORDER[func] is _convolution:
            self._check_windows(found[1][2:])
        return None if found is None else (*found, (0, 2, 3, 1) if last else in_order(len(found[1])), False)

    def _check_windows(self, sizes: list) -> None:
        for size in sizes:
            if expression(size) not in self._positive:
                torch._check(size > 0, lambda: "the windows of a convolution exceed its input")
                self._positive.add(expression(size))


def _in_order(lying: Lying | None) -> bool:
    return lying is not None and lying == Lying(in_order(len(lying.order)))
