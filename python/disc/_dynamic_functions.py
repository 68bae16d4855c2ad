"""Functions of torch that fix sizes while they are traced, in terms of others that do not.

They compute the same, so that another thread which meets one of them in the meantime notices nothing.
"""

from __future__ import annotations

import contextlib
from unittest import mock

import torch


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


_REPLACED = {"max_pool1d": _max_pool1d}


@contextlib.contextmanager
def dynamic_functions():
    """Puts the replacements in place of the functions of the module ``torch``."""
    with contextlib.ExitStack() as stack:
        for name, function in _REPLACED.items():
            stack.enter_context(mock.patch.object(torch, name, function))
        yield
