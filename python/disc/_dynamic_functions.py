"""Functions of torch that fix sizes or layouts of the example while they are traced, in terms of others that do not.

They compute the same, so that another thread which meets one of them in the meantime notices nothing.
"""

from __future__ import annotations

import contextlib
import math
from unittest import mock

import torch
from torch._subclasses import FakeTensor


def _max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    def plane(value, other):
        return [other, value[0] if isinstance(value, (list, tuple)) else value]

    stride = kernel_size if stride is None or stride == [] or stride == () else stride
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
    # The method of tensors takes the tensor for its result before any mode sees that, if the example is contiguous.
    if isinstance(self, FakeTensor) and memory_format is torch.contiguous_format:
        return torch.ops.aten.contiguous.default(self)
    return torch._C.TensorBase.contiguous(self, memory_format=memory_format)


def _sqrt(x):
    # A root of a size is taken of the example's otherwise.
    return torch.sym_sqrt(x) if isinstance(x, _SYMBOLIC) else _math_sqrt(x)


def _log2(x):
    return torch._sym_log2(x) if isinstance(x, _SYMBOLIC) else _math_log2(x)


def _log(x, *base):
    if not isinstance(x, _SYMBOLIC) or any(isinstance(b, _SYMBOLIC) for b in base):
        return _math_log(x, *base)
    return _log2(x) * (_math_log(2) if not base else 1 / _math_log2(*base))


def _log10(x):
    return _log(x, 10) if isinstance(x, _SYMBOLIC) else _math_log10(x)


_SYMBOLIC = (torch.SymInt, torch.SymFloat)
_math_log, _math_log2, _math_log10 = math.log, math.log2, math.log10
_math_sqrt = math.sqrt
_REPLACED = (
    (math, "sqrt", _sqrt),
    (math, "log", _log),
    (math, "log2", _log2),
    (math, "log10", _log10),
    (torch, "max_pool1d", _max_pool1d),
    (torch.Tensor, "contiguous", _contiguous),
)


@contextlib.contextmanager
def dynamic_functions():
    """Puts the replacements in place of functions of ``torch`` and ``math``."""
    with contextlib.ExitStack() as stack:
        for owner, name, function in _REPLACED:
            stack.enter_context(mock.patch.object(owner, name, function))
        yield
