"""Functions of torch that fix sizes or layouts of the example while they are traced,
in terms of others that do not.
"""

from __future__ import annotations

import math
import sys
import threading

import sympy
import torch
import torch._meta_registrations
from torch._decomp import decomposition_table
from torch._library.fake_impl import FakeImplCtx
from torch._subclasses import FakeTensor
from torch.utils._sympy import functions as tsf

from ...core.errors import UnsupportedOp
from ..compat import extremes_replacements, plain_slice_index, slice_replacement
from ..symbolic.expressions import NUMBERS, expression, shortened
from .registry import Override, register


def _max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    def plane(value, other):
        return [other, value[0] if isinstance(value, (list, tuple)) else value]

    stride = kernel_size if stride is None or stride == [] or stride == () else stride
    if not input.is_floating_point():
        # torch refuses what it pools in two dimensions.
        return torch.ops.aten.max_pool1d.default(
            input, *(plane(value, 0)[1:] for value in (kernel_size, stride, padding, dilation)), ceil_mode
        )
    pooled = torch.max_pool2d(
        input.unsqueeze(-2),
        plane(kernel_size, 1),
        plane(stride, 1),
        plane(padding, 0),
        plane(dilation, 1),
        ceil_mode,
    )
    return pooled.squeeze(-2)


def _contiguous(self, memory_format=torch.contiguous_format):
    # The method of tensors takes the tensor for its result before any mode sees that, if the
    # example is contiguous.
    if isinstance(self, FakeTensor) and memory_format is torch.contiguous_format:
        return torch.ops.aten.contiguous.default(self)
    return torch._C.TensorBase.contiguous(self, memory_format=memory_format)


def _sqrt(x):
    # A root of a size is taken of the example's otherwise.
    return torch.sym_sqrt(x) if isinstance(x, NUMBERS) else _math_sqrt(x)


def _isqrt(x):
    return torch.sym_int(torch.sym_sqrt(x)) if isinstance(x, torch.SymInt) else _math_isqrt(x)


def _log2(x):
    return torch._sym_log2(x) if isinstance(x, NUMBERS) else _math_log2(x)


def _log(x, *base):
    if not isinstance(x, NUMBERS) or any(isinstance(b, NUMBERS) for b in base):
        return _math_log(x, *base)
    return _log2(x) * (_math_log(2) if not base else 1 / _math_log2(*base))


def _log10(x):
    return _log(x, 10) if isinstance(x, NUMBERS) else _math_log10(x)


def _getitem(self, index):
    # ``x[size - 1]`` takes the size for the example's, and ``x[i]`` wants the number of a tensor.
    if type(self) is FakeTensor and (found := _selected(self, index)) is not None:
        view, rest = found
        return torch._C.TensorBase.__getitem__(view, rest) if rest else view
    return torch._C.TensorBase.__getitem__(self, index)


def _setitem(self, index, value):
    if type(self) is not FakeTensor or (found := _selected(self, index)) is None:
        torch._C.TensorBase.__setitem__(self, index, value)
        return
    view, rest = found
    if not all(item is ... or (type(item) is slice and item == slice(None)) for item in rest):
        torch._C.TensorBase.__setitem__(view, rest, value)
    elif isinstance(value, torch.Tensor):
        view.copy_(value)
    else:
        view.fill_(value)


def _selected(x, index):
    """``x`` with ``select`` for each size and each traced number in ``index``, and the rest of the
    index; None where there is none.
    """
    items = index if isinstance(index, tuple) else (index,)
    if not any(map(_is_number, items)):
        return None
    taken = sum(map(_axes_of, items))
    axis, selected, rest = 0, [], []
    for item in items:
        if _is_number(item):
            selected.append((axis, item))
        else:
            rest.append(item)
        axis += x.dim() - taken if item is ... else _axes_of(item)
    for axis, item in reversed(selected):
        x = x.select(axis, item if isinstance(item, torch.SymInt) else item.item())
    return x, tuple(rest)


def _is_number(item) -> bool:
    """Returns true for an index that is an open size, or a traced integer."""
    if type(item) is not FakeTensor:
        return isinstance(item, torch.SymInt)
    is_integer = not (item.is_floating_point() or item.is_complex())
    return not item.dim() and is_integer and item.dtype not in (torch.bool, torch.uint8)


def _axes_of(item) -> int:
    """Counts the axes that an item of an index takes."""
    if item is None or item is ... or isinstance(item, bool):
        return 0
    is_mask = isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8)
    return item.dim() if is_mask else 1


def _trapezoid(y, x=None, *, dx=1, dim=-1):
    # torch asks whether there are any points, and then takes the first. It subtracts a half of both
    # ends from the sum, so that an infinite end gives NaN.
    if not isinstance(y, FakeTensor) or x is not None:
        return _torch_trapezoid(y, x, dim=dim) if x is not None else _torch_trapezoid(y, dx=dx, dim=dim)
    y = y.movedim(dim, -1)
    return (y.sum(-1) - (y[..., :1].sum(-1) + y[..., -1:].sum(-1)) * 0.5) * dx


def _cumulative_trapezoid(y, x=None, *, dx=1, dim=-1):
    if not isinstance(y, FakeTensor) or x is not None:
        plain = _torch_cumulative_trapezoid
        return plain(y, x, dim=dim) if x is not None else plain(y, dx=dx, dim=dim)
    y = y.movedim(dim, -1)
    return ((y[..., 1:] + y[..., :-1]).cumsum(-1) * (dx / 2.0)).movedim(-1, dim)


def _tensor_split(self, indices_or_sections, dim=0):
    # Of parts of unequal size torch asks how many are longer.
    size = self.shape[dim] if isinstance(self, FakeTensor) and -self.dim() <= dim < self.dim() else 0
    count = indices_or_sections
    if type(count) is not int or count < 1 or not isinstance(size, torch.SymInt):
        return _torch_tensor_split(self, indices_or_sections, dim)
    at = [i * (size // count) + torch.sym_min(i, size % count) for i in range(count + 1)]
    length = [size // count + torch.sym_min(torch.sym_max(size % count - i, 0), 1) for i in range(count)]
    return tuple(self.narrow(dim, start, n) for start, n in zip(at, length, strict=False))


def _unbind(x, dim=0):
    # torch splits and squeezes, and takes a size that is 1 for one that may be more: the parts keep
    # the axis.
    return tuple(x.select(dim, i) for i in range(int(x.shape[dim])))


def _gaussian_nll_loss(input, target, var, *args, **kwargs):
    # torch asks the data whether a variance is negative; the compiled code does in each call.
    if not isinstance(var, FakeTensor):
        return _torch_gaussian_nll_loss(input, target, var, *args, **kwargs)
    torch._assert_async(~(var < 0).any(), "var has negative entry/entries")
    _answering.no = True
    try:
        return _torch_gaussian_nll_loss(input, target, var, *args, **kwargs)
    finally:
        _answering.no = False


def _any(*args, **kwargs):
    return False if getattr(_answering, "no", False) else _torch_any(*args, **kwargs)


#: ``no``: what this thread asks of ``torch.any`` is known to be false.
_answering = threading.local()


def _without_remainders(index):
    """``n - n % 4`` as ``n // 4 * 4``, of which more is known."""
    expr = expression(index)
    if isinstance(expr, int) or not expr.has(tsf.Mod):
        return index
    written = sympy.expand(expr.replace(tsf.Mod, lambda a, k: a - k * tsf.FloorDiv(a, k)))
    if written.count_ops() > expr.count_ops():
        return index
    return index.node.shape_env.create_symintnode(written, hint=index.node.hint)


def _is_multiple_below(index, size) -> bool:
    """Returns true if ``index`` is ``size // k * k``."""
    expr = expression(index)
    if isinstance(expr, int):
        return False
    k, part = expr.as_coeff_Mul()
    return isinstance(part, tsf.FloorDiv) and k > 0 and part.args == (expression(size), k)


def _slice_index(size, index):
    """The begin of ``x[index:]``: an expression also if the sign of ``index`` depends on sizes,
    as in ``x[size - 3:]``.
    """
    index = _without_remainders(index)
    if _is_multiple_below(index, size):
        return index
    known = plain_slice_index(size, index)
    if known is not None or _is_of_data(index):
        return shortened(known)
    behind = sympy.expand(expression(size) - expression(index))
    if behind not in (1, 2):
        index = index + size * torch.sym_min(torch.sym_max(-index, 0), 1)
    return torch.sym_min(torch.sym_max(index, 0), size)


def _is_of_data(index) -> bool:
    """Returns true if ``index`` contains a number out of a tensor that is no size."""
    node = getattr(index, "node", None)
    return node is not None and any(
        node.shape_env.bound_sympy(symbol).lower < 0 for symbol in node.expr.free_symbols
    )


def _size_of_data(self, *, min=0, max=None):
    # The old name of ``new_dynamic_size`` takes a size that nobody bounds for at least 2, and
    # torch.export asserts it: ``torchvision.ops.nms`` may keep one box, or none.
    return self.new_dynamic_size(min=min, max=max)


def _resize_memory(self, size):
    # torch itself frees the memory of what stands in for a tensor without memory.
    caller = sys._getframe(2)  # below what chooses this override
    if caller.f_globals.get("__name__", "").startswith("torch."):
        return _plain_resize(self, size)
    # No op says it: a trace would leave it out, and that of a weight would free the weight.
    raise UnsupportedOp("the model frees or allocates memory of a tensor (untyped_storage().resize_)")


_plain_resize = torch.UntypedStorage.resize_
_math_log, _math_log2, _math_log10 = math.log, math.log2, math.log10
_math_sqrt, _math_isqrt = math.sqrt, math.isqrt
_torch_trapezoid, _torch_cumulative_trapezoid = torch.trapezoid, torch.cumulative_trapezoid
_torch_tensor_split = torch.tensor_split
_torch_gaussian_nll_loss = torch.nn.functional.gaussian_nll_loss
_torch_any = torch.any
_SYMBOLIC = "of a size it is an expression"
_ASKS = "torch asks for the example's size"
register(
    (
        Override(torch, "trapezoid", _trapezoid, _ASKS),
        Override(torch, "trapz", _trapezoid, _ASKS),
        Override(torch, "cumulative_trapezoid", _cumulative_trapezoid, _ASKS),
        Override(torch, "tensor_split", _tensor_split, "torch asks how many parts are longer"),
        Override(torch.Tensor, "tensor_split", _tensor_split, "torch asks how many parts are longer"),
        Override(torch.nn.functional, "gaussian_nll_loss", _gaussian_nll_loss, "torch asks the data"),
        Override(torch, "any", _any, "the question of gaussian_nll_loss is one of the compiled code"),
        Override(*slice_replacement(_slice_index), "where a slice begins is an expression"),
        *(
            Override(*found, "in torch 2.7 an extreme of sizes fixes which is smaller")
            for found in extremes_replacements()
        ),
        Override(
            decomposition_table, torch.ops.aten.unbind.int, _unbind, "torch squeezes what may be longer"
        ),
        Override(math, "sqrt", _sqrt, _SYMBOLIC),
        Override(math, "isqrt", _isqrt, _SYMBOLIC),
        Override(math, "log", _log, _SYMBOLIC),
        Override(math, "log2", _log2, _SYMBOLIC),
        Override(math, "log10", _log10, _SYMBOLIC),
        Override(
            FakeImplCtx, "create_unbacked_symint", _size_of_data, "torch takes a size of data for at least 2"
        ),
        Override(torch.UntypedStorage, "resize_", _resize_memory, "no op says that memory is freed"),
        Override(torch, "max_pool1d", _max_pool1d, "torch flattens by the example's sizes"),
        Override(torch.Tensor, "contiguous", _contiguous, "no mode sees it of a contiguous example"),
        Override(torch.Tensor, "__getitem__", _getitem, "an index that is a size becomes a number"),
        Override(torch.Tensor, "__setitem__", _setitem, "an index that is a size becomes a number"),
    )
)


def _windows(size, kernel, low, high, stride, dilation, ceil_mode):
    reach = dilation * (kernel - 1) + 1
    count = (size + low + high - reach + (stride - 1 if ceil_mode else 0)) // stride + 1
    # A window ends in the padding at most: it begins there only where padding and stride leave it
    # room.
    if not ceil_mode or high - reach <= -stride:
        return count
    return torch.sym_min(count, (size + low + stride - 1) // stride)


register(
    [
        Override(
            torch._meta_registrations,
            "pooling_output_shape_pad_lr",
            _windows,
            "torch asks whether the last window of ceil_mode begins behind the input",
            scope="trace",
        )
    ]
)
