"""Cuts a cluster out of a captured graph, as a captured graph of its own.

Its inputs are the tensors that come over its border, then one scalar for each size that no shape of
these tells. A weight that calls change is an input too: what is computed of weights alone is
computed once. The others keep the names that they have in the module.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.utils import _pytree as pytree

from ...core import capturing
from ...core.dims import DimPlan
from ..capture.captured_graph import CapturedGraph
from ..capture.captured_program import CapturedProgram
from ..graph.call_writer import CallWriter, is_callers
from ..graph.exported import Traced
from ..pytree.arguments import Arguments
from ..symbolic.expressions import SYMBOLIC, expression, symbols_of


@dataclass
class Cluster:
    """A part of a graph; all nodes are those of the whole graph."""

    nodes: list[torch.fx.Node]
    #: The tensors that it takes, in the order of its inputs.
    taken: list[torch.fx.Node]
    #: The sizes that it takes after them.
    sizes: list[sympy.Symbol]
    #: The tensors that it gives.
    given: list[torch.fx.Node]
    graph: CapturedGraph


@dataclass
class CompiledCluster:
    """A cluster, what it was lowered to, and what runs it."""

    cluster: Cluster
    program: CapturedProgram
    executable: Any
    writer: CallWriter

    def run(self, taken: list[torch.Tensor]) -> list:
        """The outputs for the tensors and numbers that the cluster takes."""
        weights = self.program.program.weights
        run = self.executable.run
        try:
            return run(taken) if not capturing.active else self.writer.run(run, taken, weights)
        except Exception as error:
            if not is_callers(error):
                self.writer.write_failed(taken, weights, error)
            raise


def cut(whole: CapturedGraph, nodes: list[torch.fx.Node], given: list[torch.fx.Node]) -> Cluster:
    """The cluster of ``nodes``, which come in program order."""
    changing = changing_weights(whole.traced)
    weights = {node: (name, tensor) for node, name, tensor in whole.traced.weights if node not in changing}
    constants = dict(whole.traced.constants)
    graph = torch.fx.Graph(owning_module=whole.graph.owning_module)
    traced = Traced(graph, shape_env=whole.traced.shape_env)
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    taken: list[torch.fx.Node] = []

    def copied(node: torch.fx.Node):
        if isinstance(val := node.meta.get("val"), (*SYMBOLIC, int, float, bool)):
            return val
        if node in copies:
            return copies[node]
        if node.op == "get_attr":
            copies[node] = graph.node_copy(node)
            return copies[node]
        copy = copies[node] = graph.placeholder(node.name)
        copy.meta = dict(node.meta)
        if node in weights:
            traced.weights.append((copy, *weights[node]))
        elif node in constants:
            traced.constants.append((copy, constants[node]))
        else:
            traced.inputs.append(copy)
            taken.append(node)
        return copy

    with warnings.catch_warnings():
        # torch advises against sizes as arguments.
        warnings.simplefilter("ignore")
        for node in nodes:
            copies[node] = graph.node_copy(node, copied)
    missing = _sizes_apart(traced, [copies[node] for node in nodes]) - counted(whole, set(nodes))
    missing = sorted(missing, key=str)
    sizes = {symbol: number_input(traced, symbol) for symbol in missing}
    graph.output(tuple(copies[node] for node in given))
    names = [f"t{i}" for i in range(len(traced.inputs))]
    part = of_tensors(traced, names, whole.conditions, sizes, whole.device)
    part.is_part = True
    return Cluster(nodes, taken, missing, given, part)


def of_tensors(
    traced: Traced, names: list[str], conditions, sizes: dict, device: torch.device
) -> CapturedGraph:
    """A graph as a capture whose arguments are its inputs, and whose result is flat."""
    plan = DimPlan(tuple((None,) * node.meta["val"].dim() for node in traced.inputs))
    _, leaf = pytree.tree_flatten(None)
    arguments = Arguments(leaf, tuple(names), tuple(range(len(names))), {})
    return CapturedGraph(arguments, plan, traced, leaf, conditions, {}, sizes=sizes, device=device)


def number_type(symbol: sympy.Symbol) -> torch.dtype:
    """The type of the scalar tensor that holds a number."""
    return torch.int64 if symbol.is_integer else torch.float64


def number_input(traced: Traced, symbol: sympy.Symbol) -> torch.fx.Node:
    """A new input that holds a number."""
    node = traced.graph.placeholder(f"size_{len(traced.inputs)}")
    node.meta["val"] = torch.empty((), dtype=number_type(symbol), device="meta")
    traced.inputs.append(node)
    return node


def counted(whole: CapturedGraph, nodes: set[torch.fx.Node]) -> set[sympy.Symbol]:
    """The sizes that ops among ``nodes`` count in their data: nothing tells them before."""
    made, known = set(), set(whole.sizes)
    for node in whole.graph.nodes:
        found = symbols_of(node.meta.get("val")) - known
        known |= found
        if node in nodes:
            made |= found
    return made


def _sizes_apart(traced: Traced, nodes: list[torch.fx.Node]) -> set[sympy.Symbol]:
    """The symbols that are used and that are no size of an input."""
    known, used = set(), set()
    for node in traced.inputs:
        for size in map(expression, node.meta["val"].shape):
            (known if isinstance(size, sympy.Symbol) else used).update(getattr(size, "free_symbols", ()))
    for node in nodes:
        used |= symbols_of(node.args) | symbols_of(node.kwargs) | symbols_of(node.meta.get("val"))
    return used - known


def changing_weights(traced: Traced) -> set[torch.fx.Node]:
    """The placeholders of parameters and buffers that calls write to or assign anew."""
    written, assigned = set(traced.written()), set(traced.assigned)
    return {node for node, name, _ in traced.weights if node in written or name in assigned}


def kept_to_the_end(traced) -> set[torch.fx.Node]:
    """The nodes that the graph returns, stores or assigns."""
    values = [*traced.results, *(v for _, v in traced.stored), *(v for _, v in traced.assignments)]
    return {v for v in values if isinstance(v, torch.fx.Node)}


#: A size that depends on data is taken for that.
_GUESS = 64


def hint_of(size) -> int:
    """The size that the example has."""
    hint = size.node.hint if isinstance(size, torch.SymInt) else size
    return _GUESS if hint is None else int(hint)
