"""Partitions a captured graph, compiles its clusters and prints the function that runs them.

Invariant: the function gives what the graph gives; a cluster that cannot be lowered or compiled
goes to torch.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable
from dataclasses import dataclass, field

import sympy
import torch
from torch.utils import _pytree as pytree

from ...core import extension
from ...core.errors import Error, UnsupportedOp
from ...core.options import Options
from ..capture.capture import CapturedGraph
from ..graph.origin import source_line
from ..graph.randomness import draws
from ..lowering.graph import convert
from ..lowering.table import ITEMS
from ..pytree.result import Result
from ..symbolic.expressions import SYMBOLIC, expression
from .clusters import Cluster, cut, symbols_of
from .effects import Families, family_of, followed
from .emit import Printer
from .support import Trial

aten = torch.ops.aten
#: Checks of sizes that capture knows, and of types.
_DROPPED = ("sym_constrain_range", "_assert_tensor_metadata")
#: A size that depends on data is taken for that.
_GUESS = 64
_CASTS = (aten.to.dtype, aten._to_copy.default, aten.lift_fresh_copy.default, aten.clone.default)


@dataclass
class Left:
    """Says what torch runs in a compiled module, and why."""

    op: str
    reason: str
    source: str | None
    #: It computes something: it is no view and allocates no memory alone.
    computes: bool


@dataclass
class CompiledCluster:
    """A cluster, what it was lowered to, and what runs it."""

    cluster: Cluster
    program: object
    executable: object
    operations: int


@dataclass
class PartitionedProgram:
    """A graph in clusters, and the function that runs it on the flat tensors of a call."""

    #: The trial: its interface is that of the whole.
    program: object
    clusters: list[CompiledCluster]
    left: list[Left]
    run: Callable
    text: str
    #: The name in ``run`` of each weight that torch reads.
    weights: dict[str, str] = field(default_factory=dict)
    #: The parameters and buffers that it writes to.
    changed: list[str] = field(default_factory=list)

    def use(self, weights: dict[str, torch.Tensor]) -> None:
        """Makes the function read these weights from here on."""
        for name, variable in self.weights.items():
            self.run.__globals__[variable] = weights[name]


def partition(
    graph: CapturedGraph, original: Callable, options: Options, compiled: Callable
) -> PartitionedProgram | None:
    """Partitions the graph of ``original()``; ``compiled`` makes executables of clusters.

    None if nothing of it is worth compiling. Raises UnsupportedOp where a graph of control flow
    would have to be divided.
    """
    families = Families(graph.graph)
    trial = Trial(graph, extension.builder(), families.outside(), options)
    trial.lower()
    left = trial.left
    for node in left:
        if isinstance(node.target, torch._ops.HigherOrderOperator) or node.graph is not graph.graph:
            raise UnsupportedOp(f"{node.target}: {left[node]}", op=str(node.target))
    nodes = [n for n in graph.graph.nodes if n.op == "call_function" and _stays(n, left)]
    while True:
        steps = _steps(graph, nodes, left, families, options)
        part_of = {node: i for i, (whole, held) in enumerate(steps) if whole for node in held}
        divided = families.divided(lambda node: part_of.get(node, node))  # noqa: B023
        if new := {node: why for node, why in divided.items() if node not in left}:
            left |= new
            continue
        failed = _compile(graph, steps, compiled)
        if isinstance(failed, dict):
            left |= failed
            continue
        return _printed(graph, original, trial, steps, failed, left) if failed else None


def _stays(node: torch.fx.Node, left: dict) -> bool:
    """Returns true for a node that is run: numbers of sizes are printed where they are used."""
    if any(part in str(node.target) for part in _DROPPED):
        return False
    return node in left or not isinstance(node.meta.get("val"), (*SYMBOLIC, int, float, bool))


def _steps(graph, nodes: list, left: dict, families: Families, options: Options):
    """The steps: whether it is a cluster, and its nodes."""
    place = {node: i for i, node in enumerate(nodes)}
    results = kept_to_the_end(graph.traced)
    after = followed(nodes, families)
    makers: dict[sympy.Symbol, int] = {}
    known = set(graph.symbols)
    rows = []
    for i, node in enumerate(nodes):
        used = symbols_of(node.args) | symbols_of(node.kwargs)
        reads = {place[source] for source in node.all_input_nodes if source in place}
        reads |= {makers[s] for s in used | symbols_of(node.meta.get("val")) if s in makers}
        if node in left or symbols_of(node.meta.get("val")) - known:
            makers |= dict.fromkeys(symbols_of(node.meta.get("val")) - known - makers.keys(), i)
        follows = sorted(place[n] for n in after.get(node, ()))
        is_view = _is_view(node)
        cheap = is_view or node.target in _CASTS or not any(s in place for s in node.all_input_nodes)
        row = (
            node not in left,
            cheap,
            node in results,
            0 if is_view else 1,
            _bytes(node),
            sorted(reads),
            follows,
        )
        rows.append(row)
    return [
        (is_cluster, [nodes[i] for i in held])
        for is_cluster, held in extension.partition(rows, options.min_cluster_size)
    ]


def kept_to_the_end(traced) -> set[torch.fx.Node]:
    """The nodes that the graph returns, stores or assigns."""
    values = [*traced.results, *(v for _, v in traced.stored), *(v for _, v in traced.assignments)]
    return {v for v in values if isinstance(v, torch.fx.Node)}


def _is_view(node: torch.fx.Node) -> bool:
    if node.target is torch.ops.aten.detach.default or getattr(node.target, "__name__", "") == "getitem":
        return True
    root = family_of(node)
    return root is not None and root is not node and any(family_of(n) == root for n in node.all_input_nodes)


def _bytes(node: torch.fx.Node) -> int:
    total = 0
    for t in pytree.tree_leaves(node.meta.get("val")):
        if isinstance(t, torch.Tensor):
            count = t.element_size()
            for size in t.shape:
                count *= _hint(size)
            total += count
    return min(total, 2**62)


def _hint(size) -> int:
    hint = size.node.hint if isinstance(size, torch.SymInt) else size
    return _GUESS if hint is None else int(hint)


def _compile(graph, steps, compiled) -> list[CompiledCluster] | dict[torch.fx.Node, str]:
    """The compiled clusters, or the nodes of one that cannot be."""
    made = []
    held = [nodes for is_cluster, nodes in steps if is_cluster]
    results = kept_to_the_end(graph.traced)
    for nodes in held:
        inside = set(nodes)
        given = [
            n
            for n in nodes
            if isinstance(n.meta.get("val"), torch.Tensor)
            and (n in results or any(user not in inside for user in n.users))
        ]
        cluster = cut(graph, nodes, given)
        try:
            program = convert(cluster.graph, extension.builder())
            executable = compiled(program)
        except Error as error:
            logging.getLogger("disc").info("a cluster of %d ops goes to torch: %s", len(nodes), error)
            return dict.fromkeys(nodes, f"its cluster could not be compiled: {error.message}")
        made.append(CompiledCluster(cluster, program, executable, program.program.operations))
    return made


# The function.


def _printed(
    graph, original, trial, steps, clusters: list[CompiledCluster], left: dict
) -> PartitionedProgram:
    printer = Printer({})
    weights: dict[str, str] = {}
    _print_head(graph, printer, weights)
    uses = _last_uses(graph, steps, clusters)
    made = iter(clusters)
    notes = []
    for i, (is_cluster, nodes) in enumerate(steps):
        if is_cluster:
            _print_cluster(printer, next(made))
        else:
            _print_op(printer, nodes[0])
            if nodes[0].target is not operator.getitem:
                notes.append(_note(nodes[0], left.get(nodes[0])))
        gone = [printer.values[n] for n in uses.get(i, ()) if n in printer.values]
        if gone:
            printer.line(f"del {', '.join(gone)}")
    _print_end(graph, original, printer)
    run, text = printer.function("run", "tensors")
    written = set(graph.traced.written())
    changed = [name for node, name, _ in graph.traced.weights if node in written]
    return PartitionedProgram(trial.program, clusters, notes, run, text, weights, changed)


def _print_head(graph: CapturedGraph, printer: Printer, weights: dict[str, str]) -> None:
    names = [f"i{i}" for i in range(len(graph.inputs))]
    if names:
        printer.line(f"{', '.join(names)}, = tensors")
    printer.values |= dict(zip(graph.inputs, names, strict=True))
    composite = []
    for node, name in zip(graph.inputs, names, strict=True):
        for axis, size in enumerate(map(expression, node.meta["val"].shape)):
            if isinstance(size, sympy.Symbol) and size not in printer.sizes:
                printer.bind(size, f"{name}.size({axis})")
            elif not isinstance(size, (int, sympy.Symbol)):
                composite.append((size, f"{name}.size({axis})"))
    for size, text in composite:
        unknown = [s for s in size.free_symbols if s not in printer.sizes]
        if len(unknown) == 1:
            step, offset = size.coeff(unknown[0], 1), size.coeff(unknown[0], 0)
            printer.bind(unknown[0], f"({text} - ({printer.size(offset)})) // ({printer.size(step)})")
    for node, name, tensor in graph.traced.weights:
        printer.values[node] = weights.setdefault(name, f"w{len(weights)}")
        printer.names[weights[name]] = tensor.detach()
    for node, tensor in graph.traced.constants:
        printer.values[node] = printer.constant(tensor)


def _print_cluster(printer: Printer, made: CompiledCluster) -> None:
    cluster = made.cluster
    result = Result(made.program.program.outputs, made.program.out_spec)
    taken = [printer.argument(n) for n in cluster.taken]
    taken += [f"{printer.constant(torch.tensor)}({printer.size(s)})" for s in cluster.sizes]
    call = f"{printer.constant(made.executable.run)}([{', '.join(taken)}])"
    if not result.plain:
        held = [f"[{', '.join(taken)}]", f"{printer.constant(made.executable.run)}(taken)"]
        printer.line(f"taken = {held[0]}")
        call = f"{printer.constant(result.leaves)}({held[1]}, taken)"
    for node in cluster.given:
        printer.name(node)
    given = [printer.values[n] for n in cluster.given]
    printer.line(f"{', '.join(given)}, = {call}" if given else call)
    for node, name in zip(cluster.given, given, strict=True):
        printer.bind_sizes(node.meta["val"], name)
        order = _memory_order(node.meta["val"])
        if order != sorted(order) and any(_sees_memory(user) for user in node.users):
            back = [order.index(axis) for axis in range(len(order))]
            printer.line(f"{name} = {name}.permute({order}).contiguous().permute({back})")


def _memory_order(val: torch.Tensor) -> list[int]:
    """The axes of a tensor from the slowest to the fastest in memory, as eager mode has them."""
    strides = [_hint(stride) for stride in val.stride()]
    return sorted(range(val.dim()), key=lambda axis: -strides[axis])


def _sees_memory(node: torch.fx.Node) -> bool:
    """Returns true for an op whose result depends on the order of its argument in memory: random
    numbers are drawn in that order.
    """
    return draws(node) or node.target is aten.as_strided.default


def _print_op(printer: Printer, node: torch.fx.Node) -> None:
    arguments = [printer.argument(x) for x in node.args]
    if getattr(node.target, "__name__", "") == "getitem":
        text = f"{arguments[0]}[{arguments[1]}]"
    else:
        arguments += [f"{name}={printer.argument(x)}" for name, x in node.kwargs.items()]
        text = f"{printer.constant(node.target)}({', '.join(arguments)})"
    name = printer.name(node)
    printer.line(f"{name} = {text}")
    val = node.meta.get("val")
    if str(node.target) in ITEMS and isinstance(val, SYMBOLIC):
        for symbol in val.node.expr.free_symbols - printer.sizes.keys():
            printer.sizes[symbol] = name
        return
    for i, part in enumerate(val if isinstance(val, (list, tuple)) else (val,)):
        if isinstance(part, torch.Tensor):
            held = f"{name}[{i}]" if isinstance(val, (list, tuple)) else name
            printer.bind_sizes(part, held)


def _last_uses(graph, steps, clusters) -> dict[int, list[torch.fx.Node]]:
    """For each step the values that nothing reads behind it."""
    last: dict[torch.fx.Node, int] = {}
    made = iter(clusters)
    for i, (is_cluster, nodes) in enumerate(steps):
        read = next(made).cluster if is_cluster else None
        held = [*read.taken, *read.given] if read is not None else [*nodes[0].all_input_nodes, nodes[0]]
        last |= dict.fromkeys(held, i)
    kept = kept_to_the_end(graph.traced)
    kept |= {node for node, *_ in (*graph.traced.weights, *graph.traced.constants)}
    uses: dict[int, list[torch.fx.Node]] = {}
    for node, i in last.items():
        if node not in kept:
            uses.setdefault(i, []).append(node)
    return uses


def _print_end(graph: CapturedGraph, original: Callable, printer: Printer) -> None:
    """Stores what the graph computes for inputs and buffers, and returns the results."""
    traced = graph.traced
    for target, value in traced.stored:
        printer.line(f"{printer.values[target]}.copy_({printer.argument(value)})")
    for name, value in traced.assignments:
        path, _, leaf = name.rpartition(".")
        printer.names["module"] = original
        printer.line(f"module().get_submodule({path!r})._buffers[{leaf!r}] = {printer.argument(value)}")
    leaves = "".join(f"{printer.argument(result)}, " for result in traced.results)
    printer.line(f"return [{leaves}]")


def _note(node: torch.fx.Node, reason: str | None) -> Left:
    if draws(node):
        reason = "torch draws random numbers"
    free = _is_view(node) or getattr(node.target, "_opname", "").startswith(("empty", "new_empty"))
    why = reason or "its cluster would be too small"
    return Left(str(node.target), why, source_line(node), not free)
