"""Reads a graph of dynamo's: what of its arguments are weights, tensors and numbers, and which of
its results compiled code computes.

A result that is an argument, or a view of one, is made of the argument behind the compiled call, as
are numbers of sizes: they share memory as in eager mode, and cost no kernel.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch.utils import _pytree as pytree

from ...core.dims import DimPlan
from ...core.errors import UnsupportedOp
from ..capture import guards
from ..capture.capture import CapturedGraph
from ..graph.exported import Traced
from ..graph.in_place import written_arguments
from ..lowering.interface import Names
from ..lowering.table import serves
from ..partition.clusters import hint_of
from ..partition.effects import family_of
from ..partition.emit import Printer
from ..pytree.arguments import Arguments
from ..symbolic.expressions import SYMBOLIC, expression, symbols_of
from ..tracer.graph_tracer import trace_graph

aten = torch.ops.aten


@dataclass
class Argument:
    """One argument of dynamo's graph."""

    position: int
    #: As the model has it: ``x``, ``encoder.weight``.
    name: str
    #: None for a number.
    node: torch.fx.Node | None
    #: The tensor, real while dynamo compiles and without memory afterwards; the fake number.
    example: object
    #: A parameter or a buffer of a module.
    is_weight: bool


@dataclass
class DynamoGraph:
    """A traced graph and its arguments."""

    traced: Traced
    arguments: list[Argument]
    #: The nodes that compiled code gives, in order.
    given: list[torch.fx.Node] = field(default_factory=list)
    #: Makes the results out of the arguments and of what compiled code gives.
    finish: Callable | None = None

    #: Weights are at hand when the graph is compiled.
    has_weights: bool = True

    @property
    def graph(self) -> torch.fx.Graph:
        return self.traced.graph

    def release(self) -> None:
        """Lets go of the tensors of the first call."""
        for a in self.arguments:
            if isinstance(a.example, torch.Tensor):
                a.example = without_memory(a.example)


def read(gm: torch.fx.GraphModule, env) -> DynamoGraph:
    """Traces a graph of dynamo's over the sizes of ``env``."""
    traced, nodes = trace_graph(gm, env, serves)
    holders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    arguments = [
        _argument(i, holder, node) for i, (holder, node) in enumerate(zip(holders, nodes, strict=True))
    ]
    names = Names()
    for a in arguments:
        a.name = names.fresh(a.name)
    return split_results(DynamoGraph(traced, arguments))


def _argument(position: int, holder: torch.fx.Node, node) -> Argument:
    held = holder.meta.get("grapharg")
    example = held.example if held is not None else holder.meta.get("example_value")
    source = _source_text(getattr(held, "source", None), str(holder.target))
    is_weight = node is not None and (
        isinstance(example, torch.nn.Parameter) or "._buffers[" in source or "._parameters[" in source
    )
    return Argument(position, _name(source) or str(holder.target), node, example, is_weight)


#: Steps of dynamo's sources that name nothing of the model.
_UNNAMED = frozenset(("L", "G", "self", "kwargs", "args", "_modules", "_parameters", "_buffers", "__dict__"))
_LONGEST_NAME = 40


def _source_text(source, target: str) -> str:
    """The expression that dynamo took an argument from."""
    text = source.name if source is not None else target
    return text() if callable(text) else text


def _name(source: str) -> str:
    """The name of what dynamo took an argument from: ``L['self']._modules['l']`` is ``l``."""
    steps = re.findall(r"[A-Za-z_]\w*|\d+", source)
    name = ""
    for step in reversed([step for step in steps if step not in _UNNAMED]):
        if name and len(step) + len(name) >= _LONGEST_NAME:
            break
        name = f"{step}.{name}" if name else step[-_LONGEST_NAME:]
    return name


def split_results(read: DynamoGraph) -> DynamoGraph:
    """Divides the results into those that compiled code computes and those that are made of them
    or of arguments behind the call: views, arguments themselves, numbers of sizes.
    """
    traced = read.traced
    printer = Printer()
    _bind_arguments(read, printer)
    sources = {a.node for a in read.arguments if a.node is not None}
    for base in _shared(traced, sources):
        printer.values[base] = _dense(base, f"outputs[{len(read.given)}]")
        read.given.append(base)
        sources.add(base)
    leaves = []
    for result in traced.results:
        leaf = _printed_of(result, sources, printer)
        if leaf is None:
            if result not in read.given:
                read.given.append(result)
            leaf = _dense(result, f"outputs[{read.given.index(result)}]")
        leaves.append(leaf)
    printer.line(f"return ({''.join(f'{leaf}, ' for leaf in leaves)})")
    read.finish, _ = printer.function("finish", "args, outputs")
    (output,) = (n for n in traced.graph.nodes if n.op == "output")
    output.args = (tuple(_in_memory_order(traced.graph, output, node) for node in read.given),)
    for node in reversed(list(traced.graph.nodes)):
        if node.op == "call_function" and not node.users and _is_view(node):
            traced.graph.erase_node(node)
    return read


def _shared(traced: Traced, sources: set) -> list[torch.fx.Node]:
    """The tensors in whose memory several results lie, as each of them is written through the
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


def _bind_arguments(read: DynamoGraph, printer: Printer) -> None:
    for a in read.arguments:
        text = f"args[{a.position}]"
        if a.node is not None:
            printer.values[a.node] = text
        elif isinstance(a.example, SYMBOLIC) and isinstance(symbol := a.example.node.expr, sympy.Symbol):
            printer.sizes[symbol] = text
    for a in read.arguments:
        if a.node is None:
            continue
        for axis, size in enumerate(map(expression, a.node.meta["val"].shape)):
            if isinstance(size, sympy.Symbol):
                printer.sizes.setdefault(size, f"args[{a.position}].size({axis})")


def _printed_of(result, sources: set, printer: Printer) -> str | None:
    """Prints a result that is made of ``sources`` alone; None for what has to be computed."""
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
            texts = [printer.argument(_written_itself(x)) for x in step.args]
            texts += [f"{name}={printer.argument(x)}" for name, x in step.kwargs.items()]
            call = (
                f"{texts[0]}[{texts[1]}]"
                if step.target is operator.getitem
                else f"{printer.constant(step.target)}({', '.join(texts)})"
            )
            printer.line(f"{printer.name(step)} = {call}")
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
    root = family_of(node)
    if isinstance(node.meta.get("val"), (list, tuple)):
        return getattr(node.target, "is_view", False)
    return root is not None and root is not node and root == family_of(source)


def _memory_order(val: torch.Tensor) -> list[int] | None:
    """The axes of a dense tensor from the slowest to the fastest in memory, in the example; None
    for one in row-major order, and for one with gaps or shared elements.
    """
    strides = [hint_of(s) for s in val.stride()]
    sizes = [hint_of(s) for s in val.shape]
    order = sorted(range(val.dim()), key=lambda axis: -strides[axis])
    expected = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != expected:
            return None
        expected *= max(sizes[axis], 1)
    return None if order == sorted(order) or 0 in sizes else order


def _in_memory_order(graph: torch.fx.Graph, output: torch.fx.Node, node: torch.fx.Node) -> torch.fx.Node:
    """``node`` with its axes in the order of eager mode's memory: compiled code gives what lies in
    row-major order.
    """
    val = node.meta["val"]
    order = _memory_order(val)
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
    """Prints the result that lies in the order of eager mode's memory."""
    order = _memory_order(node.meta["val"])
    if order is None:
        return text
    back = [order.index(axis) for axis in range(len(order))]
    return f"{text}.permute({back})"


def without_memory(t: torch.Tensor) -> torch.Tensor:
    """A tensor of the same type and sizes that holds nothing."""
    return torch.empty(t.shape, dtype=t.dtype, device="meta")


# Graphs to be compiled.


@dataclass
class Compilation:
    """The part of a graph that is compiled, and the arguments of dynamo's that it takes."""

    captured: CapturedGraph
    #: Arguments that are inputs, tensors before numbers.
    inputs: list[int]
    #: Arguments that are weights, by name.
    weights: dict[str, int]

    @functools.cached_property
    def pick(self) -> Callable:
        """Takes the inputs out of the arguments."""
        if len(self.inputs) == 1:
            (only,) = self.inputs
            return lambda args: (args[only],)
        return operator.itemgetter(*self.inputs) if self.inputs else lambda args: ()


def compilation(read: DynamoGraph, env, packs_weights: bool) -> Compilation:
    """The compilation of ``read``: with ``packs_weights`` the weights that it does not write to
    are weights, else they are inputs like any other.
    """
    old = read.traced
    traced = Traced(old.graph, constants=old.constants, made=old.made, shape_env=env)
    written = {
        w for n in old.graph.nodes if n.op == "call_function" for w in map(family_of, written_arguments(n))
    }
    used = [
        a for a in read.arguments if a.node is not None and (a.node.users or family_of(a.node) in written)
    ]
    is_weight = {a.position: packs_weights and a.is_weight and family_of(a.node) not in written for a in used}
    weights = [a for a in used if is_weight[a.position]]
    tensors = [a for a in used if not is_weight[a.position]]
    traced.weights = [(a.node, a.name, a.example) for a in weights]
    traced.inputs = [a.node for a in tensors]
    numbers, sizes = _numbers(read, traced)
    captured = _captured(traced, [a.name for a in (*tensors, *numbers)], sizes)
    return Compilation(
        captured, [a.position for a in (*tensors, *numbers)], {a.name: a.position for a in weights}
    )


def _may_be_prepared(a: Argument) -> bool:
    return a.is_weight and not a.node.meta["val"].is_complex()


def _numbers(read: DynamoGraph, traced: Traced) -> tuple[list[Argument], dict]:
    """The numbers that no shape of an input tells, which are inputs of their own."""
    sizes_of_inputs = [map(expression, node.meta["val"].shape) for node in traced.inputs]
    symbols = {size for row in sizes_of_inputs for size in row if isinstance(size, sympy.Symbol)}
    used = set()
    for node in traced.graph.nodes:
        used |= symbols_of(node.args) | symbols_of(node.kwargs) | symbols_of(node.meta.get("val"))
    numbers, sizes = [], {}
    for a in read.arguments:
        symbol = a.example.node.expr if a.node is None and isinstance(a.example, torch.SymInt) else None
        if not isinstance(symbol, sympy.Symbol) or symbol in symbols or symbol not in used:
            continue
        symbols.add(symbol)
        (first, *_) = traced.graph.nodes
        with traced.graph.inserting_before(first):
            node = traced.graph.placeholder(f"number_{a.position}")
        node.meta["val"] = torch.empty((), dtype=torch.int64, device="meta")
        traced.inputs.append(node)
        numbers.append(a)
        sizes[symbol] = node
    return numbers, sizes


def _captured(traced: Traced, names: list[str], sizes: dict) -> CapturedGraph:
    _, leaf = pytree.tree_flatten(None)
    arguments = Arguments(leaf, tuple(names), tuple(range(len(names))), {})
    plan = DimPlan(tuple((None,) * node.meta["val"].dim() for node in traced.inputs))
    conditions = guards.read_conditions(traced.shape_env)
    # Dynamo guards what it asked about sizes of 0 and 1.
    conditions.branches = []
    captured = CapturedGraph(arguments, plan, traced, leaf, conditions, {}, by="dynamo", sizes=sizes)
    for i, node in enumerate(traced.inputs):
        for axis, expr in enumerate(map(expression, node.meta["val"].shape)):
            if isinstance(expr, sympy.Symbol):
                captured.symbols.setdefault(expr, (i, axis))
    return captured
