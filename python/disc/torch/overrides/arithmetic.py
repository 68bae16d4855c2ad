"""Bits, roots, digits and order of sizes as expressions, also as numpy and ``sorted`` ask for them.

A function of numpy that has no expression here gets the number of the example, which a condition
then fixes, as where a model reads the text of a size (``overrides.texts``).
"""

from __future__ import annotations

import builtins
import math
import operator
from typing import Any

import numpy
import torch

from ..symbolic.expressions import NUMBERS, SYMBOLIC, has_symbol, shortened
from .registry import Override, is_active, register
from .texts import read

#: Longer lists of sizes are sorted as those of the example.
_MOST_SORTED = 6


def _and(x, y):
    """The bits that a size and a number share, one run of bits after the other."""
    if type(x) is int:
        x, y = y, x
    if type(y) is not int or not isinstance(x, torch.SymInt):
        return None
    if y < 0:
        rest = _and(x, ~y)
        return x - rest
    total = 0
    while y:
        low = y & -y
        run = (y // low) ^ (y // low + 1)
        width = (run + 1) // 2
        total = total + (x // low % width) * low
        y &= ~((width - 1) * low)
    return total


def _bits(plain, of_shared):
    def entry(x, y):
        shared = _and(x, y) if is_active() else None
        return plain(x, y) if shared is None else of_shared(x, y, shared)

    return entry


def _invert(x):
    return -x - 1


def rounded_size(x, ndigits=None):
    """``round(n, -1)``: the nearest multiple of a power of ten; of two as near, the even one."""
    digits = 0 if ndigits is None else operator.index(ndigits)
    if digits >= 0:
        return x
    unit = 10**-digits
    twice, step = 2 * x + unit, 2 * unit
    up = twice // step
    # 1 where the number is in the middle, and the upper multiple is odd.
    return (up - torch.sym_max(1 - twice % step, 0) * (up % 2)) * unit


def _sorted(iterable, /, *, key=None, reverse=False):
    items = list(iterable)
    are_sizes = has_symbol(items) and all(isinstance(x, (int, float, *NUMBERS)) for x in items)
    if not are_sizes or key is not None or not 1 < len(items) <= _MOST_SORTED:
        return _plain_sorted(items, key=key, reverse=reverse)
    for end in range(len(items) - 1, 0, -1):
        for i in range(end):
            a, b = items[i], items[i + 1]
            items[i], items[i + 1] = shortened(torch.sym_min(a, b)), shortened(torch.sym_max(a, b))
    return items[::-1] if reverse else items


#: Functions of numpy as those of Python.
_UFUNCS = {
    numpy.sqrt: lambda x: math.sqrt(x),
    numpy.log: lambda x: math.log(x),
    numpy.log2: lambda x: math.log2(x),
    numpy.log10: lambda x: math.log10(x),
    numpy.ceil: lambda x: torch.sym_float(math.ceil(x)),
    numpy.floor: lambda x: torch.sym_float(math.floor(x)),
    numpy.negative: operator.neg,
    numpy.add: operator.add,
    numpy.subtract: operator.sub,
    numpy.multiply: operator.mul,
    numpy.true_divide: operator.truediv,
    numpy.floor_divide: operator.floordiv,
    numpy.remainder: operator.mod,
    numpy.minimum: torch.sym_min,
    numpy.maximum: torch.sym_max,
}


def _array_ufunc(self, ufunc, method: str, *inputs, **kwargs):
    """Replaces a function of numpy one of whose operands is a size."""
    numbers = [_as_python(x) for x in inputs]
    if method == "__call__" and not kwargs and ufunc in _UFUNCS and is_active() and None not in numbers:
        return _UFUNCS[ufunc](*numbers)
    return getattr(ufunc, method)(*map(_read_any, inputs), **kwargs)


def _as_python(x: Any):
    """A number that computes with sizes as numpy's would; None if there is none."""
    if isinstance(x, NUMBERS) or type(x) in (int, float):
        return x
    return x.item() if isinstance(x, (numpy.int64, numpy.float64)) else None


def _read_any(x: Any):
    return read(x) if isinstance(x, SYMBOLIC) else x


def _arange(*args, **kwargs):
    return _plain_arange(*map(_read_any, args), **{name: _read_any(x) for name, x in kwargs.items()})


_plain_sorted, _plain_arange = builtins.sorted, numpy.arange
_BITS = "torch has no size for it"
_NUMPY = "numpy takes a size for an object"
register(
    [
        Override(builtins, "sorted", _sorted, "of sizes it is their extremes", scope="trace"),
        *(
            Override(torch.SymInt, name, _bits(getattr(torch.SymInt, name), of_shared), _BITS)
            for name, of_shared in (
                ("__and__", lambda x, y, shared: shared),
                ("__rand__", lambda x, y, shared: shared),
                ("__or__", lambda x, y, shared: x + y - shared),
                ("__ror__", lambda x, y, shared: x + y - shared),
                ("__xor__", lambda x, y, shared: x + y - 2 * shared),
                ("__rxor__", lambda x, y, shared: x + y - 2 * shared),
            )
            if hasattr(torch.SymInt, name)
        ),
        Override(torch.SymInt, "__invert__", _invert, _BITS, is_direct=True),
        Override(torch.SymInt, "__round__", rounded_size, "torch leaves the digits out"),
        *(Override(kind, "__array_ufunc__", _array_ufunc, _NUMPY, is_direct=True) for kind in NUMBERS),
        Override(numpy, "arange", _arange, _NUMPY, scope="trace"),
    ]
)
