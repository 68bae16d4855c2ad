"""The backend "disc" of ``torch.compile``."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._dynamo.exc import RestartAnalysis
from torch._guards import TracingContext

from ...core import environment, extension
from ...core.errors import Error
from ...core.options import Options, effective, refuse_planned
from ...core.progress import Progress
from .. import op_names
from ..devices.device import refuse_unrunnable
from . import fused_steps
from .attributes import lifted, with_attributes
from .dynamo_faults import correct, for_disc
from .opaque import refuse_opaque
from .refused import worded
from .registry import EagerGraph, note
from .resized import with_resizable_results

_LOG = logging.getLogger("disc.compile")


correct()


@for_disc
def backend(
    gm: torch.fx.GraphModule,
    example_inputs: list,
    *,
    options: Mapping[str, Any] | Options | None = None,
    mode: str | None = None,
) -> Callable:
    """Compiles a graph of dynamo's: ``torch.compile(model, backend="disc")``.

    ``options`` has fields of ``disc.Options``, or is one; those that cannot be obeyed are an error.
    Sizes and guards are dynamo's. Where disc compiles nothing (a graph that needs gradients, or an
    error), the graph runs as dynamo made it, and ``disc.report`` says why. ``mode`` is accepted and
    changes nothing.
    """
    chosen = _chosen(options, example_inputs)
    environment.check()
    fused_steps.count()
    made, call = serve(gm, example_inputs, chosen)
    note(made, gm)
    return call


def _chosen(options: Mapping[str, Any] | Options | None, example_inputs: list) -> Options:
    """The options of a graph; raises for what cannot be obeyed, whatever ``fallback`` is."""
    if not isinstance(options, (Mapping, Options, type(None))):
        raise Error(
            f"options: expected a mapping from fields of disc.Options, got {type(options).__name__}",
            help='torch.compile(model, backend="disc", options={"threads": 1})',
        )
    chosen = effective(options if isinstance(options, Options) else Options(**(options or {})))
    refuse_planned(chosen)
    op_names.refuse_unknown(chosen)
    if chosen.release_weights:
        raise Error(
            "torch.compile passes the weights at each call: they cannot be released",
            help="leave out release_weights, or use disc.optimize",
        )
    if chosen.background:
        raise Error(
            "dynamo waits for the code of a graph: background is for disc.optimize alone",
            help="leave out background, or use disc.optimize",
        )
    if chosen.verify:
        raise Error(
            "Options.verify compares calls of disc.optimize alone",
            help='compare with torch.compile(.., backend="eager")',
        )
    if chosen.device is not None and chosen.device not in extension.devices():
        devices = ", ".join(extension.devices())
        raise Error(f"there is no device {chosen.device!r} here", help=f"the devices are {devices}")
    refuse_unrunnable(chosen, example_inputs)
    return chosen


def serve(gm: torch.fx.GraphModule, example_inputs: list, options: Options) -> tuple[Any, Callable]:
    """A ``CompiledGraph`` or an ``EagerGraph`` for a graph of dynamo's, and the function that
    dynamo calls; raises only with ``fallback="error"``.
    """
    try:
        lifting, tensors = lifted(gm)
        made, call = _compiled(lifting, [*example_inputs, *tensors], options)
        return made, with_resizable_results(with_attributes(call, gm, lifting), gm)
    except Exception as error:
        if options.fallback == "error" or isinstance(error, RestartAnalysis):
            # Dynamo starts again, with what it has learned.
            raise
        made, call = _eager(gm, *worded(error))
        _LOG.info("a graph of dynamo's is torch's: %s", made.reason)
        return made, call


def _compiled(gm: torch.fx.GraphModule, example_inputs: list, options: Options):
    context = TracingContext.try_get()
    env = context.fake_mode.shape_env if context is not None and context.fake_mode is not None else None
    if env is None:
        raise Error("dynamo gave no sizes")
    refuse_opaque(gm)
    if _needs_gradient(gm):
        from .training import compiled_for_training

        return compiled_for_training(gm, example_inputs, options)
    from ..tracer.graph_tracer import OtherMemory
    from .dynamo_graph import read
    from .inference import CompiledGraph

    start = time.perf_counter()
    with Progress(options, "graph") as stage, warnings.catch_warnings():
        # torch advises against sizes as arguments.
        warnings.simplefilter("ignore")
        stage("capture")
        try:
            with torch.no_grad():
                found = read(gm, env)
        except (RestartAnalysis, OtherMemory):
            raise
        except Exception as error:
            # Whatever stopped it: AOTAutograd succeeds, or says what is wrong. Gradients that the
            # graph itself asks for (torch.func.grad) are taken while it traces.
            _LOG.info("a graph of dynamo's goes through AOTAutograd: %s", error)
            from .by_aot import compiled_by_aot

            return compiled_by_aot(gm, example_inputs, options)
        captured = (time.perf_counter() - start) * 1e3
        if not any(node.op == "call_function" for node in found.graph.nodes):
            return _eager(gm, None)
        stage("compile")
        with torch.no_grad():
            made = CompiledGraph(gm, found, env, options, captured)
        return made, made.call


def _eager(gm: torch.fx.GraphModule, reason: str | None, op: str | None = None):
    made = EagerGraph(gm, reason, op)
    return made, made.call


def _needs_gradient(gm: torch.fx.GraphModule) -> bool:
    enables = any(node.target is torch._C._set_grad_enabled and node.args[0] for node in gm.graph.nodes)
    if not torch.is_grad_enabled() and not enables:
        return False
    values = (node.meta.get("example_value") for node in gm.graph.nodes if node.op == "placeholder")
    return any(isinstance(value, torch.Tensor) and value.requires_grad for value in values)
