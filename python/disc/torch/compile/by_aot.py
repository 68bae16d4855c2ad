"""Compiles a graph of dynamo's below AOTAutograd, which resolves what is no op of a dense tensor:
transforms of ``torch.func``, control flow, tensor subclasses.

Its wrapper costs microseconds in each call, so graphs without these are compiled without it.
"""

from __future__ import annotations

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
        found = read(inner, set(context.fw_metadata.static_input_indices))
        milliseconds = (time.perf_counter() - start) * 1e3
        with torch.no_grad(), _disable_current_modes():
            made.append(CompiledGraph(inner, found, env, options, milliseconds))
        return made[-1].call

    build = aot_autograd(
        fw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=table(serves),
        keep_inference_input_mutations=True,
    )
    run = build(gm, example_inputs)
    return made[0], run


def _without_numbers(graph: torch.fx.Graph) -> None:
    """Puts numbers of sizes where they are used, as the tracer writes them."""
    for node in graph.nodes:
        node.args = torch.fx.map_arg(node.args, _number_itself)
        node.kwargs = torch.fx.map_arg(node.kwargs, _number_itself)
    for node in reversed(list(graph.nodes)):
        if node.op == "call_function" and isinstance(node.meta.get("val"), SYMBOLIC) and not node.users:
            graph.erase_node(node)


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
