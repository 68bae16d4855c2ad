"""Decides who runs each node of a captured graph: the graph is lowered for trial,
and a node whose lowering fails runs in PyTorch.

So arguments, dtypes and devices decide, not only names. The results of a node that is left are new
inputs of the trial.

Invariants:

- what the trial lowered, the lowering of a cluster lowers too;
- a node within a graph of control flow does not fall back by itself: the op that holds the graph
  does.
"""

from __future__ import annotations

import itertools
import operator

import sympy
import torch

from ...core import extension
from ...core.errors import Error, UnsupportedOp
from ...core.options import Options
from ...lowering.emitter import MISSING
from ..lowering.graph import Walk
from ..lowering.promotion import name_of
from ..lowering.table import CHECKS, ITEMS
from ..symbolic.expressions import SYMBOLIC, expression


class Trial(Walk):
    """Lowers a graph for trial: ``left`` says why torch runs a node."""

    def __init__(self, captured, builder, left: dict[torch.fx.Node, str], options: Options):
        super().__init__(captured, builder)
        self.left = dict(left)
        self.allowed = frozenset(options.allow_ops)
        self.blocked = frozenset(options.block_ops)
        self._numbers = itertools.count()

    def lack(self, name: str, reason: str, help: str | None = None, *, node) -> None:
        super().lack(name, reason, help, node=node)
        self.left.setdefault(node, reason)

    def _call(self, node) -> None:
        if node.graph is not self.captured.graph:
            return super()._call(node)
        name = str(node.target)
        self.node = node
        if name in ITEMS or name in CHECKS or "assert" in name:
            why = (
                "Python needs the number" if name in ITEMS else "it is there for the error that it may raise"
            )
            self.left.setdefault(node, why)
            self.values[node] = self._stand_in(node.meta.get("val"))
            return None
        if node not in self.left and (reason := self._forbidden(node, name)) is not None:
            self.left[node] = reason
        if node not in self.left:
            self._try(node)
        if node in self.left:
            self.values[node] = self._stand_in(node.meta.get("val"))
        return None

    def _try(self, node) -> None:
        try:
            super()._call(node)
        except Error as error:
            self.left[node] = error.message
            return
        if self.values.get(node) is MISSING:
            self.left.setdefault(node, "disc has no form of one of its arguments")

    def _forbidden(self, node, name: str) -> str | None:
        if node.target is operator.getitem and node.args[0] in self.left:
            return self.left[node.args[0]]
        if name in self.blocked:
            return "Options.block_ops names it"
        if self.allowed and name not in self.allowed and name.partition(".")[0] in ("aten", "prims"):
            return "Options.allow_ops does not name it"
        return None

    def _stand_in(self, val):
        """A new input for what torch computes; MISSING for what disc has no form of."""
        if isinstance(val, (list, tuple)):
            return tuple(self._stand_in(part) for part in val)
        if isinstance(val, SYMBOLIC):
            self._bind_number(val.node.expr)
            return val
        if not isinstance(val, torch.Tensor):
            return val
        try:
            dtype = name_of(val.dtype)
        except Error:
            return MISSING
        if val.device != self.captured.device or val.layout is not torch.strided:
            return MISSING
        return self._input(val, dtype)

    def _bind_number(self, symbol: sympy.Basic) -> None:
        """Makes an input of a number that is not known yet."""
        known = self.emitter.expressions
        if not symbol.is_Symbol or symbol in known.symbols or symbol in known.numbers:
            return
        name = f"number_{next(self._numbers)}"
        if symbol.is_integer:
            known.bind(symbol, self.emitter.bind_dim(self.builder.input(name, [], "i64"), str(symbol)))
        else:
            known.numbers[symbol] = self.builder.input(name, [], "f64")

    def _input(self, val: torch.Tensor, dtype: str):
        known = self.emitter.expressions
        name = f"left_{next(self._numbers)}"
        for axis, symbol in enumerate(map(expression, val.shape)):
            if not isinstance(symbol, int) and symbol.is_Symbol and symbol not in known.symbols:
                known.bind(symbol, extension.dim(f"{name}_{axis}"))
        return self.builder.input(name, self.emitter.shape_of(val), dtype)


def refuse_blocked(graph: torch.fx.Graph, options: Options) -> None:
    """Raises UnsupportedOp if an option leaves an op of the graph to torch."""
    for node in graph.nodes:
        name = str(node.target)
        if node.op == "call_function" and (
            name in options.block_ops or (options.allow_ops and name not in options.allow_ops)
        ):
            raise UnsupportedOp(f"the options leave {name} to torch", op=name)
