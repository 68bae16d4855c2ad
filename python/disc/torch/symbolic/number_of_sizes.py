"""Computes a number that a module returns from the sizes of its inputs, on the host.

Compiled code for a GPU would give it in the GPU's memory, and reading that waits for the GPU.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import sympy
import torch
from torch.utils._sympy.printers import PythonPrinter

from .expressions import SYMBOLIC


@dataclass(frozen=True)
class NumberOfSizes:
    """A number as text of Python, over the sizes ``s0``, ``s1``, .. at ``places``: each an input
    and an axis of it.
    """

    text: str
    places: tuple[tuple[int, int], ...]

    def of(self, tensors: Sequence[torch.Tensor]) -> int | float | bool:
        """The number for the inputs of a call."""
        return _function(self.text, len(self.places))(*(tensors[i].size(axis) for i, axis in self.places))


def number_of_sizes(value, places: Mapping[sympy.Symbol, tuple[int, int]]) -> NumberOfSizes | None:
    """``value``, a number of torch, by the sizes that its symbols have ``places`` for; None if it
    depends on something else.
    """
    if not isinstance(value, SYMBOLIC) or not value.node.expr.free_symbols <= places.keys():
        return None
    symbols = sorted(value.node.expr.free_symbols, key=str)
    named = {s: sympy.Symbol(f"s{i}", integer=True) for i, s in enumerate(symbols)}
    text = PythonPrinter().doprint(value.node.expr.xreplace(named))
    kind = next(name for sym, name in _KINDS if isinstance(value, sym))
    return NumberOfSizes(f"{kind}({text})", tuple(places[s] for s in symbols))


_KINDS = ((torch.SymInt, "int"), (torch.SymFloat, "float"), (torch.SymBool, "bool"))


@functools.lru_cache(maxsize=256)
def _function(text: str, count: int) -> Callable:
    names = ", ".join(f"s{i}" for i in range(count))
    return eval(f"lambda {names}: {text}", {"math": math})
