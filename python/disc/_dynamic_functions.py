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
    return torch.sym_sqrt(x) if isinstance(x, (torch.SymInt, torch.SymFloat)) else _math_sqrt(x)


_math_sqrt = math.sqrt
_REPLACED = (
    (math, "sqrt", _sqrt),
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
