"""Compiles a graph of dynamo's that is differentiated: a forward and a backward part, which
AOTAutograd makes of it, each for all sizes.

Invariant: the backward compiler never raises. AOTAutograd would keep its error and raise it at
``backward()``; a part that is not compiled is torch's, and the report says why.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import RestartAnalysis
from torch._guards import TracingContext
from torch.utils._python_dispatch import _disable_current_modes

from ...core.options import Options
from ...core.report import nothing, summed
from ..decompositions.lookup import table
from ..lowering.table import serves
from .by_aot import read
from .inference import CompiledGraph
from .partition_joint import partition
from .registry import EagerGraph
from .refused import worded

_LOG = logging.getLogger("disc.compile")


class DifferentiatedGraph:
    """The parts of a graph that is differentiated: ``forward`` and ``backward``, by their names."""

    def __init__(self, gm: torch.fx.GraphModule):
        self.parts: dict[str, Any] = {}
        self._operations = sum(node.op.startswith("call") for node in gm.graph.nodes)

    @property
    def calls(self) -> int:
        """Calls of the forward part."""
        forward = self.parts.get("forward")
        return forward.calls if forward is not None else 0

    def report_values(self) -> dict[str, Any]:
        """The values of the report that the parts know, added up."""
        rows = [part.report_values() for part in self.parts.values()]
        first = next((row for row in rows if row["clusters"]), nothing())
        return {**first, **summed(rows, 0, self.calls)}

    def executables(self) -> list[Any]:
        """The compiled code of both parts."""
        return [executable for part in self.parts.values() for executable in part.executables()]

    def fallbacks(self) -> list[dict[str, Any]]:
        """Describes what torch runs in a step, and in which part."""
        return [
            {**row, "part": name} for name, part in self.parts.items() for row in part.fallbacks()
        ]


def compiled_for_training(
    gm: torch.fx.GraphModule, example_inputs: list, options: Options
) -> tuple[DifferentiatedGraph, Callable]:
    """The parts of ``gm``, and the function that takes its arguments; the backward part follows at
    the latest when the first gradient is asked for.
    """
    made = DifferentiatedGraph(gm)

    def compiler(name: str) -> Callable:
        def compile_part(inner: torch.fx.GraphModule, _) -> Callable:
            if name == "backward":
                _keep_donated(TracingContext.try_get())
            part = _part(inner, options, name)
            made.parts[name] = part

            def call(args: list):
                # The function keeps ``made``, which the report shows. Tensors that only the list
                # holds are free behind the call.
                results = made.parts[name].call(*args)
                args.clear()
                return results

            call._boxed_call = True
            return call

        return compile_part

    build = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("forward"),
        decompositions=table(serves),
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )
    return made, build(gm, example_inputs)


def _part(inner: torch.fx.GraphModule, options: Options, name: str) -> CompiledGraph | EagerGraph:
    start = time.perf_counter()
    try:
        # AOTAutograd compiles while it traces.
        with torch.no_grad(), _disable_current_modes():
            context = TracingContext.get()
            env = context.fake_mode.shape_env
            # What is read is edited; torch runs the graph as it is.
            found = read(torch.fx.GraphModule(inner, copy.deepcopy(inner.graph)), set())
            if not found.given:
                return EagerGraph(inner, None)
            milliseconds = (time.perf_counter() - start) * 1e3
            return CompiledGraph(inner, found, env, options, milliseconds, packs_weights=False)
    except Exception as error:
        if isinstance(error, RestartAnalysis) or (options.fallback == "error" and name == "forward"):
            raise
        part = EagerGraph(inner, *worded(error))
        _LOG.info("a %s graph is torch's: %s", name, part.reason)
        return part


def _keep_donated(context: TracingContext | None) -> None:
    """Lets a backward pass run twice: AOTAutograd refuses ``retain_graph=True`` where it has found
    saved tensors that a compiler may write to, which ours does not.
    """
    metadata = context.fw_metadata if context is not None else None
    if metadata is not None and metadata.bw_donated_idxs:
        # The list belongs to the metadata of the wrapper too; None would not do.
        metadata.bw_donated_idxs.clear()
