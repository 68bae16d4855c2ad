"""The state of the process while a module is traced, and its restoration.

Invariant: after each scope everything is as it was before, whatever the module did or raised.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import math

import torch
import torch._meta_registrations

from ._symbols import SYMBOLIC, has_symbol, shortened


@contextlib.contextmanager
def as_exporting():
    """Models ask whether they are exported, and then avoid what depends on values; torch chooses no library by sizes."""
    compiler, backends = torch.compiler, torch.backends
    before = compiler._is_compiling_flag, compiler._is_exporting_flag
    mkldnn, nnpack = backends.mkldnn.set_flags(False), backends.nnpack.set_flags(False)
    compiler._is_compiling_flag = compiler._is_exporting_flag = True
    try:
        yield
    finally:
        compiler._is_compiling_flag, compiler._is_exporting_flag = before
        backends.mkldnn.set_flags(*mkldnn)
        backends.nnpack.set_flags(*nnpack)


@contextlib.contextmanager
def symbolic_builtins():
    """``max``, ``min`` and ``math.pow`` of sizes are expressions, not branches, as in torch.export, and ``divmod`` knows them."""
    before = builtins.max, builtins.min, math.pow, builtins.divmod
    builtins.max = functools.partial(_extreme, before[0], torch.sym_max, torch.maximum)
    builtins.min = functools.partial(_extreme, before[1], torch.sym_min, torch.minimum)
    math.pow = lambda x, y: x**y if has_symbol((x, y)) else before[2](x, y)
    builtins.divmod = lambda x, y: (x // y, x % y) if has_symbol((x, y)) else before[3](x, y)
    try:
        yield
    finally:
        builtins.max, builtins.min, math.pow, builtins.divmod = before


@contextlib.contextmanager
def symbolic_pooling():
    """How many windows ``ceil_mode`` gives is an expression, where torch asks whether the last one begins behind the input."""
    meta = torch._meta_registrations
    before = meta.pooling_output_shape_pad_lr
    meta.pooling_output_shape_pad_lr = _windows
    try:
        yield
    finally:
        meta.pooling_output_shape_pad_lr = before


def _windows(size, kernel, low, high, stride, dilation, ceil_mode):
    reach = dilation * (kernel - 1) + 1
    count = (size + low + high - reach + (stride - 1 if ceil_mode else 0)) // stride + 1
    # A window ends in the padding at most: it begins there only where padding and stride leave it room.
    if not ceil_mode or high - reach <= -stride:
        return count
    return torch.sym_min(count, (size + low + stride - 1) // stride)


def _extreme(plain, of_symbols, of_tensors, *args, **kwargs):
    if kwargs or not args:
        return plain(*args, **kwargs)
    items = list(args) if len(args) > 1 or isinstance(args[0], torch.Tensor) else list(args[0])
    if not any(isinstance(x, (*SYMBOLIC, torch.Tensor)) for x in items) or len(items) < 2:
        return plain(*args) if len(args) > 1 or isinstance(args[0], torch.Tensor) else plain(items)
    result = items[0]
    for x in items[1:]:
        tensors = [isinstance(y, torch.Tensor) for y in (result, x)]
        if all(tensors):
            result = of_tensors(result, x)
        elif any(tensors):
            result = plain(result, x)
        else:
            result = shortened(of_symbols(result, x))
    return result
