"""Decides how the arguments of a graph of dynamo's go into compiled code: as weights, which are
prepared, as inputs, or not at all.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass

import sympy
import torch

from ..capture import guards
from ..capture.captured_graph import CapturedGraph
from ..graph.exported import Traced
from ..graph.in_place import written_arguments
from ..partition.clusters import number_input, of_tensors
from ..partition.effects import family_of
from ..symbolic.expressions import expression, symbols_of
from .dynamo_graph import Argument, DynamoGraph


@dataclass
class Compilation:
    """The part of a graph that is compiled, and the arguments of dynamo's that it takes."""

    captured: CapturedGraph
    #: Arguments that are inputs, tensors before numbers.
    inputs: list[int]
    #: Arguments that are weights, by name.
    weights: dict[str, int]
    #: Sizes of the inputs of the call that dynamo traced; None if it does not know them.
    sizes: list[list[int]] | None = None

    @functools.cached_property
    def pick(self) -> Callable:
        """Takes the inputs out of the arguments."""
        if len(self.inputs) == 1:
            (only,) = self.inputs
            return lambda args: (args[only],)
        return operator.itemgetter(*self.inputs) if self.inputs else lambda args: ()


def compilation(graph: DynamoGraph, env, packs_weights: bool) -> Compilation:
    """The compilation of a graph: with ``packs_weights`` the weights that it does not write to are
    weights, else they are inputs like any other.
    """
    old = graph.traced
    traced = Traced(old.graph, constants=old.constants, made=old.made, shape_env=env)
    calls = [node for node in old.graph.nodes if node.op == "call_function"]
    written = {family_of(target) for node in calls for target in written_arguments(node)}
    weights, tensors = [], []
    for a in graph.arguments:
        is_written = a.node is not None and family_of(a.node) in written
        if is_written or (a.node is not None and a.node.users):
            (weights if packs_weights and a.is_weight and not is_written else tensors).append(a)
    traced.weights = [(a.node, a.name, a.example) for a in weights]
    traced.inputs = [a.node for a in tensors]
    numbers = _numbers(graph, traced)
    inputs = [*tensors, *numbers.values()]
    sizes = {symbol: graph.numbers[a.position] for symbol, a in numbers.items()}
    conditions = guards.read_conditions(env)
    # Dynamo guards what it asked about sizes of 0 and 1.
    conditions.branches = []
    captured = of_tensors(traced, [a.name for a in inputs], conditions, sizes, graph.device)
    captured.by = "dynamo"
    for i, node in enumerate(traced.inputs):
        for axis, size in enumerate(map(expression, node.meta["val"].shape)):
            if isinstance(size, sympy.Symbol):
                captured.symbols.setdefault(size, (i, axis))
    positions = {a.name: a.position for a in weights}
    return Compilation(captured, [a.position for a in inputs], positions, _sizes(traced.inputs))


def _sizes(inputs: list[torch.fx.Node]) -> list[list[int]] | None:
    def hint(size) -> int | None:
        return size.node.hint if isinstance(size, torch.SymInt) else int(size)

    rows = [[hint(size) for size in node.meta["val"].shape] for node in inputs]
    known = [[size for size in row if size is not None] for row in rows]
    return known if known == rows else None


def _numbers(graph: DynamoGraph, traced: Traced) -> dict[sympy.Symbol, Argument]:
    """The numbers that no shape of an input tells: they become inputs of their own."""
    shapes = [map(expression, node.meta["val"].shape) for node in traced.inputs]
    known = {size for shape in shapes for size in shape if isinstance(size, sympy.Symbol)}
    used = set()
    for node in traced.graph.nodes:
        used |= symbols_of(node.args) | symbols_of(node.kwargs) | symbols_of(node.meta.get("val"))
    numbers: dict[sympy.Symbol, Argument] = {}
    for a in graph.arguments:
        symbol = a.example.node.expr if isinstance(a.example, torch.SymInt) else None
        if not isinstance(symbol, sympy.Symbol) or symbol in known or symbol not in used:
            continue
        if symbol in numbers:
            continue
        numbers[symbol] = a
        if a.position in graph.numbers:
            traced.inputs.append(graph.numbers[a.position])
            continue
        with traced.graph.inserting_before(next(iter(traced.graph.nodes))):
            graph.numbers[a.position] = number_input(traced, symbol)
    return numbers
