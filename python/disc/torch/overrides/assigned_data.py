"""Refuses ``x.data = y`` for a tensor of a trace: no op says that ``x`` has other memory from there
on, and what follows would be computed of the memory that it had.

Not here: ``weight.data = value`` (``capture.side_effects``), whose tensor is a real one.
"""

from __future__ import annotations

import torch
from torch._subclasses import FakeTensor

from ...core.errors import Error
from .registry import Override, is_active, register

_plain = torch.Tensor.data


def _set(self: torch.Tensor, value: torch.Tensor) -> None:
    if type(self) is FakeTensor and is_active():
        raise Error(
            "the model gives a tensor that it computes, or an input, other memory (x.data = y)",
            code="E0405",
            help="use the tensor itself: x = y for x.data = y",
        )
    _plain.__set__(self, value)


register(
    [
        Override(
            torch.Tensor,
            "data",
            property(_plain.__get__, _set),
            "no op says that a tensor gets other memory",
            is_direct=True,
        )
    ]
)
