"""Cuts a cluster out of a captured graph, as a captured graph of its own.

Its inputs are the tensors that come over its border, then one scalar for each size that no shape of
these tells; its weights keep the names that they have in the module.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch
from torch.utils import _pytree as pytree

from ...core.dims import DimPlan
from ..capture.capture import CapturedGraph
from ..graph.exported import Traced
from ..pytree.arguments import Arguments
from ..symbolic.expressions import SYMBOLIC, expression


@dataclass
class Cluster:
    """A part of a graph; all nodes are those of the whole graph."""

    nodes: list[torch.fx.Node]
    #: The tensors that it takes, in the order of its inputs.
    taken: list[torch.fx.Node]
    #: The sizes that it takes behind them.
    sizes: list[sympy.Symbol]
    #: The tensors that it gives.
    given: list[torch.fx.Node]
    graph: CapturedGraph


def cut(whole: CapturedGraph, nodes: list[torch.fx.Node], given: list[torch.fx.Node]) -> Cluster:
    """The cluster of ``nodes``, which come in program order."""
    weights = {node: (name, tensor) for node, name, tensor in whole.traced.weights}
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

    for node in nodes:
        copies[node] = graph.node_copy(node, copied)
    missing = _sizes_apart(traced, [copies[node] for node in nodes])
    sizes = {symbol: _scalar(traced) for symbol in missing}
    graph.output(tuple(copies[node] for node in given))
    names = tuple(f"t{i}" for i in range(len(traced.inputs)))
    plan = DimPlan(tuple((None,) * node.meta["val"].dim() for node in traced.inputs))
    arguments = Arguments(pytree.LeafSpec(), names, tuple(range(len(names))), {})
    captured = CapturedGraph(arguments, plan, traced, pytree.LeafSpec(), whole.conditions, {}, sizes=sizes)
    return Cluster(nodes, taken, missing, given, captured)


def _scalar(traced: Traced) -> torch.fx.Node:
    node = traced.graph.placeholder(f"size_{len(traced.inputs)}")
    node.meta["val"] = torch.empty((), dtype=torch.int64, device="meta")
    traced.inputs.append(node)
    return node


def _sizes_apart(traced: Traced, nodes: list[torch.fx.Node]) -> list[sympy.Symbol]:
    """The symbols that are used and that are no size of an input, in order."""
    known, used = set(), set()
    for node in traced.inputs:
        for size in map(expression, node.meta["val"].shape):
            (known if isinstance(size, sympy.Symbol) else used).update(getattr(size, "free_symbols", ()))
    for node in nodes:
        used |= symbols_of(node.args) | symbols_of(node.kwargs) | symbols_of(node.meta.get("val"))
    return sorted(used - known, key=str)


def symbols_of(data) -> set[sympy.Symbol]:
    """The symbols in a nested structure of numbers, tensors and nodes."""
    found: set[sympy.Symbol] = set()
    for leaf in pytree.tree_leaves(data):
        if isinstance(leaf, SYMBOLIC):
            found |= leaf.node.expr.free_symbols
        elif isinstance(leaf, torch.Tensor):
            found |= symbols_of(tuple(leaf.shape))
        elif isinstance(leaf, torch.fx.Node) and isinstance(leaf.meta.get("val"), SYMBOLIC):
            found |= leaf.meta["val"].node.expr.free_symbols
    return found
