"""Divides the results of a graph of dynamo into those that compiled code computes and those that
are made of arguments, or of other results, after the call.

An argument that is returned, views, and numbers of sizes are made after the call: they share memory
as in eager mode, and cost no kernel.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any

import sympy
import torch

from ...core.errors import UnsupportedOp
from ..graph.exported import Traced
from ..graph.in_place import RESIZES_MEMORY, written_arguments
from ..partition.clusters import hint_of
from ..partition.effects import family_of, is_view_of_argument
from ..partition.emit import Printer, memory_order
from ..symbolic.expressions import SYMBOLIC, expression, symbols_of

if TYPE_CHECKING:
    from .dynamo_graph import DynamoGraph

aten = torch.ops.aten


def split_results(graph: DynamoGraph) -> None:
    """Leaves in the graph what compiled code gives, ``graph.given``, and makes ``graph.finish``."""
    traced = graph.traced
    _refuse_freed_views(traced)
    printer = Printer()
    _bind_arguments(graph, printer)
    sources = {a.node for a in graph.arguments if a.node is not None}
    for base in _shared(traced, sources):
        printer.values[base] = _dense(base, f"outputs[{len(graph.given)}]")
        graph.given.append(base)
        sources.add(base)
    leaves = []
    for result in traced.results:
        if _is_empty(traced, result, printer):
            sources.add(result)
            printer.op(result)
        leaf = _printed_of(result, sources, printer)
        if leaf is None:
            if result not in graph.given:
                graph.given.append(result)
            leaf = _dense(result, f"outputs[{graph.given.index(result)}]")
            leaf = _with_strides(result, leaf, printer)
        leaves.append(leaf)
    printer.line(f"return ({''.join(f'{leaf}, ' for leaf in leaves)})")
    graph.finish, _ = printer.function("finish", "args, outputs")
    graph.leaves = _as_they_are(leaves)
    (output,) = (n for n in traced.graph.nodes if n.op == "output")
    output.args = (tuple(_in_memory_order(traced.graph, output, node) for node in graph.given),)
    for node in reversed(list(traced.graph.nodes)):
        if node.op == "call_function" and not node.users and (_is_view(node) or node in sources):
            traced.graph.erase_node(node)


#: A result that is an argument, or what compiled code gives.
_PLAIN = re.compile(r"(arg|output)s\[(\d+)\]")


def _as_they_are(leaves: list[str]) -> list[tuple[str, int]] | None:
    """The results by their number among the outputs or the arguments; None if some are made."""
    found = [_PLAIN.fullmatch(leaf) for leaf in leaves]
    return None if None in found else [(match[1], int(match[2])) for match in found if match]


def _refuse_freed_views(traced: Traced) -> None:
    """Raises for a result that is a view of memory which the graph frees: torch makes no view of
    freed memory after the call.
    """
    freed = {family_of(node.args[0]) for node in traced.graph.nodes if node.target is RESIZES_MEMORY}
    results = (node for node in traced.results if isinstance(node, torch.fx.Node))
    if freed and any(node.op == "call_function" and family_of(node) in freed for node in results):
        raise UnsupportedOp("a result is a view of memory that the graph frees")


def _shared(traced: Traced, sources: set) -> list[torch.fx.Node]:
    """The tensors whose memory several results share, as each of them is written through the
    others; not those of arguments.
    """
    results: dict[Any, set] = {}
    for result in traced.results:
        if isinstance(result, torch.fx.Node) and (family := family_of(result)) is not None:
            results.setdefault(family, set()).add(result)
    held = {family_of(node) for node in sources}
    several = {family for family, found in results.items() if len(found) > 1} - held
    bases: dict[Any, torch.fx.Node] = {}
    for node in traced.graph.nodes:
        if (family := family_of(node)) in several and isinstance(node.meta.get("val"), torch.Tensor):
            bases.setdefault(family, node)
    return list(bases.values())


def _bind_arguments(graph: DynamoGraph, printer: Printer) -> None:
    for a in graph.arguments:
        text = f"args[{a.position}]"
        if a.node is not None:
            printer.values[a.node] = text
        elif isinstance(a.example, SYMBOLIC) and isinstance(symbol := a.example.node.expr, sympy.Symbol):
            printer.sizes[symbol] = text
    for a in graph.arguments:
        if a.node is None:
            continue
        for axis, size in enumerate(map(expression, a.node.meta["val"].shape)):
            if isinstance(size, sympy.Symbol):
                printer.sizes.setdefault(size, f"args[{a.position}].size({axis})")


#: Ops that make tensors out of sizes, and leave open what these hold.
_EMPTY = (aten.empty.memory_format, aten.empty_strided.default, aten.empty_permuted.default)


def _is_empty(traced: Traced, result, printer: Printer) -> bool:
    """Returns true for a result that nobody fills: torch makes it, so that it may be resized, as
    the argument ``out`` of an op is.
    """
    if not isinstance(result, torch.fx.Node) or result.target not in _EMPTY or result in printer.values:
        return False
    if symbols_of(result.args) - printer.sizes.keys():
        return False
    calls = (node for node in traced.graph.nodes if node.op == "call_function")
    written = {family_of(target) for node in calls for target in written_arguments(node)}
    return family_of(result) not in written


def _with_strides(result: torch.fx.Node, text: str, printer: Printer) -> str:
    """Prints a dense result with eager mode's strides: with the gaps that the model itself gave its
    memory, and with those of axes of size 1, which a channels-last tensor is known by.
    """
    val = result.meta["val"]
    dense = _dense_strides(val)
    differing = [axis for axis, stride in enumerate(map(expression, val.stride())) if stride != dense[axis]]
    unknown = symbols_of((tuple(val.shape), val.stride())) - printer.sizes.keys()
    if not differing or unknown or 0 in map(hint_of, val.shape):
        return text
    stride = printer.argument(val.stride())
    if all(hint_of(val.shape[axis]) == 1 for axis in differing):
        return f"{text}.as_strided({printer.argument(tuple(val.shape))}, {stride})"
    made = result.meta.get("root")
    if made is None or made.target not in (aten.empty_strided.default, aten.new_empty_strided.default):
        return text
    return f"{printer.constant(_strided)}({text}, {stride})"


def _dense_strides(val: torch.Tensor) -> list:
    """The strides of a tensor in whose memory, in the order of its axes, there are no gaps."""
    strides, size = [sympy.Integer(1)] * val.dim(), sympy.Integer(1)
    for axis in reversed(_dense_order(val) or range(val.dim())):
        strides[axis] = size
        size *= expression(val.shape[axis])
    return strides


def _strided(dense: torch.Tensor, stride: tuple) -> torch.Tensor:
    """A copy with gaps in its memory."""
    made = torch.empty_strided(dense.shape, stride, dtype=dense.dtype, device=dense.device)
    return made.copy_(dense)


def _printed_of(result, sources: set, printer: Printer) -> str | None:
    """Prints a result that is made only of ``sources``; None for what has to be computed."""
    if not isinstance(result, torch.fx.Node):
        if isinstance(result, SYMBOLIC) and result.node.expr.free_symbols - printer.sizes.keys():
            raise UnsupportedOp("a result is a number that depends on data")
        return printer.argument(result)
    chain: list[torch.fx.Node] = []
    result = node = _written_itself(result)
    while node not in sources:
        if not _is_view(node) or symbols_of(node.args) - printer.sizes.keys():
            return None
        chain.append(node)
        node = _written_itself(node.all_input_nodes[0])
    for step in reversed(chain):
        if step not in printer.values:
            (source,) = step.all_input_nodes
            printer.values.setdefault(source, printer.values[_written_itself(source)])
            printer.op(step)
    return printer.values[result]


def _written_itself(node):
    """The tensor that an op writes and returns: what it holds in the end is asked for."""
    while isinstance(node, torch.fx.Node) and node.op == "call_function" and node.args:
        written = written_arguments(node)
        if written != [node.args[0]] or family_of(node) != family_of(node.args[0]):
            break
        node = node.args[0]
    return node


def _is_view(node: torch.fx.Node) -> bool:
    """Returns true if a node is a view of its only tensor, and writes nothing."""
    if node.op != "call_function" or len(node.all_input_nodes) != 1 or written_arguments(node):
        return False
    source = node.all_input_nodes[0]
    if node.target is operator.getitem:
        return _is_view(source)
    if isinstance(node.meta.get("val"), (list, tuple)):
        return getattr(node.target, "is_view", False)
    return is_view_of_argument(node)


def _dense_order(val: torch.Tensor) -> list[int] | None:
    """The order in memory of the axes of a dense tensor; None for one in row-major order, and for
    one with gaps or shared elements.
    """
    strides, sizes = [hint_of(s) for s in val.stride()], [hint_of(s) for s in val.shape]
    order = memory_order(val)
    expected = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != expected:
            return None
        expected *= max(sizes[axis], 1)
    return None if order == sorted(order) or 0 in sizes else order


def _in_memory_order(graph: torch.fx.Graph, output: torch.fx.Node, node: torch.fx.Node) -> torch.fx.Node:
    """``node`` with its axes in the order of eager mode's memory: compiled code gives results in
    row-major order.
    """
    val = node.meta["val"]
    order = _dense_order(val)
    if order is None:
        return node
    with graph.inserting_before(output):
        permuted = graph.call_function(aten.permute.default, (node, order))
        permuted.meta["val"] = val.permute(order)
        permuted.meta["stack_trace"] = node.meta.get("stack_trace")
        layout = {"memory_format": torch.contiguous_format}
        dense = graph.call_function(aten.clone.default, (permuted,), layout)
        dense.meta = {**permuted.meta, "val": permuted.meta["val"].clone(**layout)}
    permuted.meta["root"], dense.meta["root"] = node.meta.get("root", node), dense
    return dense


def _dense(node: torch.fx.Node, text: str) -> str:
    """Prints the result that has the order of eager mode's memory."""
    order = _dense_order(node.meta["val"])
    if order is None:
        return text
    back = [order.index(axis) for axis in range(len(order))]
    return f"{text}.permute({back})"
