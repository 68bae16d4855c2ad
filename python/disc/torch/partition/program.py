"""Partitions a captured graph and compiles its clusters.

Invariant: the result gives what the graph gives; a cluster that cannot be lowered or compiled goes
to torch.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.utils import _pytree as pytree

from ...core import extension
from ...core.errors import Error, UnsupportedOp
from ...core.options import Options
from ...core.report import collect, summed
from ...core.signature import Signature
from ..capture.captured_graph import CapturedGraph
from ..devices import autocast_state
from ..graph.call_writer import CallWriter
from ..graph.origin import source_line
from ..graph.other_devices import nodes_elsewhere
from ..graph.program import Program
from ..graph.randomness import DRAWN_AGAIN, draws
from ..graph.weight_names import bytes_of
from ..lowering.graph import convert
from ..symbolic.expressions import SYMBOLIC, symbols_of
from .clusters import CompiledCluster, changing_weights, counted, cut, hint_of, kept_to_the_end
from .effects import Families, followed, is_view_of_argument
from .emit import Printed, printed
from .support import Trial

aten = torch.ops.aten
#: Checks of sizes that capture knows, and of types.
_DROPPED = ("sym_constrain_range", "_assert_tensor_metadata")
_COPIES = (aten.to.dtype, aten._to_copy.default, aten.lift_fresh_copy.default, aten.clone.default)


@dataclass
class Left:
    """Says what torch runs in a compiled module, and why."""

    op: str
    reason: str
    source: str | None
    #: It computes something: it is no view, and does more than to allocate memory.
    computes: bool


@dataclass
class PartitionedProgram:
    """A graph in clusters, and the function that runs it on the flat tensors of a call."""

    #: The interface of the whole.
    program: Program
    clusters: list[CompiledCluster]
    left: list[Left]
    printed: Printed
    #: The parameters and buffers that it writes to or assigns anew.
    changed: list[str]

    @property
    def run(self) -> Callable:
        return self.printed.run

    def call(self, tensors) -> list:
        """The results for the flat tensors of a call, whatever autocast is on around it."""
        if torch._C._is_any_autocast_enabled():
            # Its casts are ops of the graph.
            with autocast_state.off():
                return self.run(tensors)
        return self.run(tensors)

    def report_values(
        self, signature: Signature, stages: dict[str, float], capture_cache: str, calls: int
    ) -> dict[str, Any]:
        """The values of the report, with the stages of the front end."""
        rows = [
            collect(
                made.executable,
                signature,
                stages={},
                capture_cache=capture_cache,
                operations=made.program.program.operations,
                weight_bytes=bytes_of(made.program.program.weights),
            )
            for made in self.clusters
        ]
        report = {**rows[0], **summed(rows, sum(left.computes for left in self.left), calls)}
        stages = {**stages, **{k: v for k, v in report["stages_ms"].items() if k != "total"}}
        report["stages_ms"] = {**stages, "total": round(sum(stages.values()), 3)}
        for name in ("dims", "facts", "fixed", "asked_at", "cache"):
            report[name] = rows[0][name]
        # Kernels of clusters share names.
        del report["layers"], report["lines"]
        report["parts"] = [
            {
                "operations": row["operations"],
                "kernels": row["kernels"],
                "layers": row["layers"],
                "lines": row["lines"],
                "inputs": len(made.cluster.taken),
                "outputs": len(made.cluster.given),
            }
            for made, row in zip(self.clusters, rows, strict=True)
        ]
        return report

    def fallbacks(self, calls: int) -> list[dict[str, Any]]:
        """Describes the ops that torch runs in each of ``calls``."""
        return [
            {"op": left.op, "reason": left.reason, "source": left.source, "calls": calls}
            for left in self.left
            if left.computes
        ]

    def executables(self) -> list[Any]:
        """The compiled code of the clusters."""
        return [made.executable for made in self.clusters]

    def held_weights(self) -> list[tuple[str, torch.Tensor]]:
        """The weights that stay from call to call, each once."""
        held = dict(weight for made in self.clusters for weight in made.program.program.weights)
        names = self.printed.weights
        held |= {name: self.run.__globals__[variable] for name, variable in names.items()}
        return [(name, t.detach()) for name, t in held.items()]

    def use(self, weights: dict[str, torch.Tensor]) -> None:
        """Reads these weights from here on."""
        for made in self.clusters:
            fresh = [(name, weights[name]) for name, _ in made.program.program.weights]
            made.executable.set_weights(fresh)
            made.program.program.weights[:] = fresh
        for name, variable in self.printed.weights.items():
            self.run.__globals__[variable] = weights[name]


def partition(
    graph: CapturedGraph, original: Callable, options: Options, compiled: Callable
) -> PartitionedProgram | None:
    """Partitions the graph of ``original()``; ``compiled`` makes executables of clusters.

    None if nothing of it is worth compiling. Raises UnsupportedOp where a graph of control flow
    would have to be divided.
    """
    families = Families(graph.graph)
    trial = _lowered_for_trial(graph, families.outside(), options)
    left = trial.left
    for node in left:
        if _holds_graph(node) or node.graph is not graph.graph:
            raise UnsupportedOp(f"{node.target}: {left[node]}", op=str(node.target))
    left = {node: why for node, why in left.items() if not _always_holds(graph, node)}
    nodes = [n for n in graph.graph.nodes if n.op == "call_function" and _stays(n, left)]
    made: dict[tuple, CompiledCluster] = {}
    while True:
        steps = _steps(graph, nodes, left, families, options)
        new = _divided(families, steps, left) or _compile(graph, steps, compiled, options, made)
        if not new:
            break
        left |= new
        left |= nodes_elsewhere(graph.traced, graph.device, left)
    held = [made[tuple(part)] if is_cluster else part[0] for is_cluster, part in steps]
    clusters = [step for step in held if isinstance(step, CompiledCluster)]
    if not clusters:
        return None
    notes = [_note(step, left.get(step)) for step in held if isinstance(step, torch.fx.Node)]
    changing = changing_weights(graph.traced)
    changed = list(dict.fromkeys(name for node, name, _ in graph.traced.weights if node in changing))
    notes = [note for note in notes if note is not None]
    return PartitionedProgram(trial.program, clusters, notes, printed(graph, original, held), changed)


def _holds_graph(node: torch.fx.Node) -> bool:
    """Returns true for control flow, and false for what draws by a state of the generator."""
    return isinstance(node.target, torch._ops.HigherOrderOperator) and str(node.target) not in DRAWN_AGAIN


def _lowered_for_trial(graph: CapturedGraph, left: dict, options: Options) -> Trial:
    """A trial after which no node of disc shares a tensor on another device with one of torch."""
    left |= nodes_elsewhere(graph.traced, graph.device, left)
    while True:
        trial = Trial(graph, extension.builder(), left, options)
        trial.lower()
        if not (new := nodes_elsewhere(graph.traced, graph.device, trial.left)):
            return trial
        left = trial.left | new


def _divided(families: Families, steps, left: dict) -> dict[torch.fx.Node, str]:
    """Nodes that go to torch too, since they share memory with nodes of another step."""
    part_of = {node: i for i, (is_cluster, held) in enumerate(steps) if is_cluster for node in held}
    divided = families.divided(lambda node: part_of.get(node, node))
    return {node: why for node, why in divided.items() if node not in left}


def _always_holds(graph: CapturedGraph, node: torch.fx.Node) -> bool:
    """Returns true for an assertion of the trace that a size which an op counts is at least 0."""
    if node.target is not aten._assert_scalar.default:
        return False
    condition = getattr(node.args[0], "meta", {}).get("val")
    if not isinstance(condition, torch.SymBool):
        return False
    fact = condition.node.expr
    makers = {n for n in graph.graph.nodes if not isinstance(n.meta.get("val"), SYMBOLIC)}
    return isinstance(fact, sympy.Ge) and fact.rhs == 0 and fact.lhs in counted(graph, makers)


def _stays(node: torch.fx.Node, left: dict) -> bool:
    """Returns true for a node that is run: numbers of sizes are printed where they are used."""
    if node.target is aten._assert_scalar.default and node not in left:
        return False
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
        makers |= dict.fromkeys(symbols_of(node.meta.get("val")) - known - makers.keys(), i)
        follows = sorted(place[n] for n in after.get(node, ()))
        is_view = _is_view(node)
        cheap = is_view or node.target in _COPIES or not any(s in place for s in node.all_input_nodes)
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


def _is_view(node: torch.fx.Node) -> bool:
    if node.target in (aten.detach.default, operator.getitem):
        return True
    return is_view_of_argument(node)


def _bytes(node: torch.fx.Node) -> int:
    total = 0
    for t in pytree.tree_leaves(node.meta.get("val")):
        if isinstance(t, torch.Tensor):
            count = t.element_size()
            for size in t.shape:
                count *= hint_of(size)
            total += count
    return min(total, 2**62)


def _compile(graph, steps, compiled: Callable, options: Options, made: dict) -> dict[torch.fx.Node, str]:
    """Compiles clusters that are not in ``made``; returns the nodes of one that cannot be."""
    kept = kept_to_the_end(graph.traced)
    for is_cluster, nodes in steps:
        if not is_cluster or tuple(nodes) in made:
            continue
        inside = set(nodes)
        given = [
            n
            for n in nodes
            if isinstance(n.meta.get("val"), torch.Tensor)
            and (n in kept or any(user not in inside for user in n.users))
        ]
        cluster = cut(graph, nodes, given)
        try:
            program = convert(cluster.graph, extension.builder())
            made[tuple(nodes)] = CompiledCluster(
                cluster, program, compiled(program), CallWriter(program.source, options)
            )
        except Error as error:
            logging.getLogger("disc.compile").info("a cluster of %d ops goes to torch: %s", len(nodes), error)
            return dict.fromkeys(nodes, f"its cluster could not be compiled: {error.message}")
    return {}


def _note(node: torch.fx.Node, reason: str | None) -> Left | None:
    if node.target is operator.getitem:
        return None
    if draws(node):
        reason = "torch draws random numbers"
    free = _is_view(node) or getattr(node.target, "_opname", "").startswith(("empty", "new_empty"))
    why = reason or "its cluster would be too small"
    return Left(str(node.target), why, source_line(node), not free)
