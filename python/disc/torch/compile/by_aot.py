"""Compiles a graph of dynamo's below AOTAutograd, which resolves what is no op of a dense tensor:
transforms of ``torch.func``, control flow, tensor subclasses.

Its wrapper costs microseconds in each call, so graphs without these are compiled without it.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.utils._python_dispatch import _disable_current_modes

from ...core.options import Options
from ..decompositions.lookup import table
from ..graph.exported import Traced
from ..lowering.table import ITEMS, serves
from ..symbolic.expressions import SYMBOLIC
from .dynamo_graph import Argument, DynamoGraph
from .inference import CompiledGraph
from .results import split_results
from .versions import counted_by_aot

aten = torch.ops.aten


def compiled_by_aot(
    gm: torch.fx.GraphModule, example_inputs: list, options: Options
) -> tuple[CompiledGraph, Callable]:
    """The compiled graph of ``gm``, and the function that takes the arguments of ``gm``."""
    made: list[CompiledGraph] = []
    start = time.perf_counter()

    def compiler(inner: torch.fx.GraphModule, _) -> Callable:
        context = TracingContext.get()
        env = context.fake_mode.shape_env
        # Its code is made of the graph as it is, which is edited below.
        _LazyGraphModule.force_recompile(inner)
        metadata = context.fw_metadata
        found = read(inner, set(metadata.static_input_indices))
        milliseconds = (time.perf_counter() - start) * 1e3
        with torch.no_grad(), _disable_current_modes():
            made.append(CompiledGraph(inner, found, env, options, milliseconds))
        return counted_by_aot(made[-1].call, metadata, inner.graph)

    build = aot_autograd(
        fw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=table(serves),
        keep_inference_input_mutations=True,
    )
    _assert_of_tensors(gm)
    run = build(gm, example_inputs)
    return made[0], run


def _assert_of_tensors(gm: torch.fx.GraphModule) -> None:
    """Asserts of a tensor what the graph asserts of its number where that equals a size: to
    AOTAutograd both are one, and the assertion says nothing any more.
    """
    items = [node for node in gm.graph.nodes if node.target == "item" and _is_another(node)]
    for item in items:
        for node in (user for user in item.users if user.target is operator.eq):
            asserts = any(user.target is aten._assert_scalar.default for user in node.users)
            (other,) = [x for x in node.args if x is not item] or (None,)
            if not asserts or other is None:
                continue
            with gm.graph.inserting_after(node):
                holds = gm.graph.call_function(torch.eq, (item.args[0], other))
            with gm.graph.inserting_after(holds):
                message = f"a number that depends on data is not {other}"
                gm.graph.call_function(aten._assert_async.msg, (holds, message))
    gm.recompile()


def _is_another(item: torch.fx.Node) -> bool:
    """Returns true if a number out of a tensor is known to equal a size."""
    value = item.meta.get("example_value")
    return isinstance(value, torch.SymInt) and value.node.expr != value.node._expr


def _without_numbers(graph: torch.fx.Graph) -> None:
    """Puts numbers of sizes where they are used, as the tracer writes them."""
    asserted = _asserted_items(graph)
    for node in graph.nodes:
        node.args = torch.fx.map_arg(node.args, _number_itself)
        node.kwargs = torch.fx.map_arg(node.kwargs, _number_itself)
    for node in reversed(list(graph.nodes)):
        is_number = node.op == "call_function" and isinstance(node.meta.get("val"), SYMBOLIC)
        if is_number and not node.users and node not in asserted:
            graph.erase_node(node)


def _asserted_items(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """The numbers out of tensors that assertions are about, which may have no other use."""
    found: set[torch.fx.Node] = set()
    for node in reversed(list(graph.nodes)):
        is_number = isinstance(node.meta.get("val"), SYMBOLIC)
        if node.target is aten._assert_scalar.default or (is_number and node in found):
            found |= set(node.all_input_nodes)
    return {node for node in found if str(node.target) in ITEMS}


def _number_itself(node: torch.fx.Node):
    value = node.meta.get("val")
    return value if isinstance(value, SYMBOLIC) and str(node.target) not in ITEMS else node


def read(inner: torch.fx.GraphModule, static: set[int]) -> DynamoGraph:
    """Reads a graph of AOTAutograd's, and edits it; ``static`` are the positions of weights."""
    _without_numbers(inner.graph)
    holders = [node for node in inner.graph.nodes if node.op == "placeholder"]
    arguments = []
    for i, node in enumerate(holders):
        value = node.meta["val"]
        is_tensor = isinstance(value, torch.Tensor)
        arguments.append(
            Argument(i, node.name, node if is_tensor else None, value, i in static and is_tensor)
        )
    graph = DynamoGraph(Traced(inner.graph), arguments, has_weights=False)
    split_results(graph)
    return graph
