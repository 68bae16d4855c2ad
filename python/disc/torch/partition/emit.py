"""Prints a partitioned graph as one straight-line function of Python.

Between clusters nothing runs but the ops that torch was left, and Python for sizes. A name is
deleted where nothing reads it any more, so that memory lives as long as in eager mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch.utils._sympy.printers import PythonPrinter

from ...core.errors import UnsupportedOp
from ..symbolic.expressions import SYMBOLIC, expression

#: Constants that are printed as they are.
_LITERALS = (int, bool, str, type(None))


class Printer:
    """Prints the function; ``names`` holds what it calls and reads."""

    def __init__(self, sizes: dict[sympy.Symbol, str]):
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        #: Each symbol and the Python that gives its value.
        self.sizes = dict(sizes)
        self.values: dict[torch.fx.Node, str] = {}
        self._held: dict[int, str] = {}
        self.names["math"] = math
        self._expressions = PythonPrinter()

    def line(self, text: str) -> None:
        self.lines.append(f"    {text}")

    def constant(self, value) -> str:
        """The name of an object that the function holds."""
        if id(value) not in self._held:
            name = self._held[id(value)] = f"k{len(self._held)}"
            self.names[name] = value
        return self._held[id(value)]

    def name(self, node: torch.fx.Node) -> str:
        """A variable for the value of a node."""
        return self.values.setdefault(node, f"v{len(self.values)}")

    def bind(self, symbol: sympy.Symbol, text: str) -> None:
        """A variable for a size."""
        name = self.sizes[symbol] = f"s{len(self.sizes)}"
        self.line(f"{name} = {text}")

    def bind_sizes(self, tensor: torch.Tensor, name: str) -> None:
        """Variables for the sizes of a tensor that are not known yet."""
        for axis, size in enumerate(map(expression, tensor.shape)):
            if isinstance(size, sympy.Symbol) and size not in self.sizes:
                self.bind(size, f"{name}.size({axis})")

    def size(self, value) -> str:
        """A number that depends on sizes."""
        expr = value.node.expr if isinstance(value, SYMBOLIC) else sympy.sympify(value)
        if expr.is_number and not isinstance(value, SYMBOLIC):
            return str(value)
        if unknown := expr.free_symbols - self.sizes.keys():
            raise UnsupportedOp(f"the size {min(map(str, unknown))} is known within a cluster alone")
        renamed = expr.xreplace(
            {s: sympy.Symbol(text, integer=s.is_integer) for s, text in self.sizes.items()}
        )
        return self._expressions.doprint(renamed)

    def argument(self, value) -> str:
        """An argument of an op, nested as it may be."""
        if isinstance(value, torch.fx.Node):
            held = value.meta.get("val")
            if value not in self.values and isinstance(held, (*SYMBOLIC, int, float, bool)):
                return self.argument(held)
            return self.values[value]
        if isinstance(value, SYMBOLIC):
            return self.size(value)
        if isinstance(value, tuple):
            return f"({''.join(f'{self.argument(x)}, ' for x in value)})"
        if isinstance(value, list):
            return f"[{', '.join(self.argument(x) for x in value)}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{k!r}: {self.argument(x)}' for k, x in value.items())}}}"
        if isinstance(value, slice):
            return f"slice({', '.join(map(self.argument, (value.start, value.stop, value.step)))})"
        if type(value) in _LITERALS:
            return repr(value)
        return self.constant(value)

    def function(self, name: str, parameters: str) -> tuple[Callable, str]:
        """The function and its text."""
        text = "\n".join([f"def {name}({parameters}):", *self.lines]) + "\n"
        namespace = dict(self.names)
        exec(compile(text, f"<disc {name}>", "exec"), namespace)
        return namespace[name], text
