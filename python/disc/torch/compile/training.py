"""Compiles a graph of dynamo's that is differentiated: a forward and a backward part, which
AOTAutograd makes of it, each for all sizes.

Invariant: the backward compiler never raises. AOTAutograd would keep its error and raise it at
``backward()``; PyTorch runs a part that is not compiled, and the report says why.
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
from ..graph.exported import Traced
from ..lowering.table import serves
from .by_aot import read
from .inference import CompiledGraph
from .partition_joint import partition
from .refused import worded
from .registry import EagerGraph
from .second_derivatives import SecondDerivatives, newest_function
from .versions import counted_by_aot

_LOG = logging.getLogger("disc.compile")


class DifferentiatedGraph:
    """The parts of a graph that is differentiated: ``forward`` and ``backward``, by their names."""

    def __init__(self, gm: torch.fx.GraphModule):
        self.parts: dict[str, Any] = {}
        #: The most bytes that a call of the forward part kept for the backward part, arguments left
        #: out.
        self.saved_bytes = 0
        #: Why the partitioner did not do what it was asked to.
        self.refusal: str | None = None

    @property
    def calls(self) -> int:
        """Calls of the forward part."""
        forward = self.parts.get("forward")
        return forward.calls if forward is not None else 0

    def report_values(self) -> dict[str, Any]:
        """The values of the report that the parts know, added up."""
        rows = [part.report_values() for part in self.parts.values()]
        first = next((row for row in rows if row["clusters"]), nothing())
        return {**first, **summed(rows, 0, self.calls), "saved_bytes": self.saved_bytes}

    def executables(self) -> list[Any]:
        """The compiled code of both parts."""
        return [executable for part in self.parts.values() for executable in part.executables()]

    def fallbacks(self) -> list[dict[str, Any]]:
        """Describes what torch runs in a step, and in which part."""
        found = [{**row, "part": name} for name, part in self.parts.items() for row in part.fallbacks()]
        if self.refusal is not None:
            found.append(
                {"op": "partition", "reason": self.refusal, "source": None, "calls": 0, "part": "both"}
            )
        return found


def compiled_for_training(
    gm: torch.fx.GraphModule, example_inputs: list, options: Options
) -> tuple[DifferentiatedGraph, Callable]:
    """The parts of ``gm``, and the function that takes its arguments; the backward part follows at
    the latest when the first gradient is asked for.
    """
    made = DifferentiatedGraph(gm)
    again = SecondDerivatives(gm)

    def forward(inner: torch.fx.GraphModule, _) -> Callable:
        metadata = TracingContext.get().fw_metadata
        again.read(inner, metadata)
        returned = metadata.num_forward
        part, computed = _part(inner, options, "forward")
        made.parts["forward"] = part
        saved = [position for position in computed if position >= returned]
        run = counted_by_aot(part.call, metadata, inner.graph)

        def call(args: list):
            results = run(*args)
            args.clear()
            made.saved_bytes = max(made.saved_bytes, sum([results[position].nbytes for position in saved]))
            return results

        call._boxed_call = True
        return call

    def backward(inner: torch.fx.GraphModule, _) -> Callable:
        _keep_donated(TracingContext.try_get())
        part, _ = _part(inner, options, "backward")
        made.parts["backward"] = part
        run = part.call

        def call(args: list):
            results = run(*args)
            # Saved tensors that only the list holds are free now.
            args.clear()
            return results

        call._boxed_call = True
        return call

    def divided(joint: torch.fx.GraphModule, inputs, **kwargs):
        forward_graph, backward_graph, made.refusal = partition(joint, inputs, **kwargs)
        return forward_graph, backward_graph

    build = aot_autograd(
        fw_compiler=forward,
        bw_compiler=backward,
        inference_compiler=forward,
        decompositions=table(serves),
        partition_fn=divided,
        keep_inference_input_mutations=True,
    )
    before = newest_function()
    call = build(gm, example_inputs)
    if (function := newest_function()) is not before:
        again.attach(function)
    return made, call


def _part(
    inner: torch.fx.GraphModule, options: Options, name: str
) -> tuple[CompiledGraph | EagerGraph, list[int]]:
    """A part of a graph, and the positions of the results that it computes itself."""
    start = time.perf_counter()
    try:
        # AOTAutograd compiles while it traces.
        with torch.no_grad(), _disable_current_modes():
            env = TracingContext.get().fake_mode.shape_env
            # What is read is edited; torch runs the graph as it is.
            copied = torch.fx.GraphModule(inner, copy.deepcopy(inner.graph))
            results = Traced(copied.graph).results
            found = read(copied, set())
            if not found.given:
                return EagerGraph(inner, None), []
            computed = [i for i, result in enumerate(results) if result in found.given]
            milliseconds = (time.perf_counter() - start) * 1e3
            return CompiledGraph(inner, found, env, options, milliseconds, packs_weights=False), computed
    except Exception as error:
        if isinstance(error, RestartAnalysis) or (options.fallback == "error" and name == "forward"):
            raise
        part = EagerGraph(inner, *worded(error))
        _LOG.info("a %s graph is torch's: %s", name, part.reason)
        return part, []


def _keep_donated(context: TracingContext | None) -> None:
    """Lets a backward pass run twice: AOTAutograd refuses ``retain_graph=True`` where it has found
    saved tensors that a compiler may write to, which ours does not.
    """
    metadata = context.fw_metadata if context is not None else None
    if metadata is not None and metadata.bw_donated_idxs:
        # The list belongs to the metadata of the wrapper too; None would not do.
        metadata.bw_donated_idxs.clear()
