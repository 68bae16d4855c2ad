"""Answers ``x.is_contiguous()`` for all sizes: axes of size 1 have any stride, and a tensor without
elements is contiguous. Torch answers for sizes from 2 on, whatever a call has.

Not here: inputs that are not contiguous themselves (``watch.inputs``).
"""

from __future__ import annotations

import sys

import torch
from torch._subclasses import FakeTensor

from .reached import is_left
from .registry import Override, is_active, register

_plain = torch.Tensor.is_contiguous
#: The axes from the innermost one.
_ORDERS = {
    torch.channels_last: (1, 3, 2, 0),
    torch.channels_last_3d: (1, 4, 3, 2, 0),
}


def _is_contiguous(self, memory_format=torch.contiguous_format):
    is_own = type(self) is FakeTensor and is_active("trace")
    if not is_own or is_left(sys._getframe(1).f_globals.get("__name__")):
        return _plain(self, memory_format=memory_format)
    order = _ORDERS.get(memory_format, tuple(reversed(range(self.dim()))))
    if len(order) != self.dim():
        return False
    # Conditions on sizes, as the model's own: those that decide are facts of the program.
    if memory_format is torch.contiguous_format and any(size == 0 for size in self.shape):
        return True
    expected = 1
    for axis in order:
        if self.shape[axis] != 1:
            if self.stride(axis) != expected:
                return False
            expected = expected * self.shape[axis]
    return True


register(
    [
        Override(
            torch.Tensor, "is_contiguous", _is_contiguous, "torch leaves sizes of 0 and 1 out", is_direct=True
        )
    ]
)
