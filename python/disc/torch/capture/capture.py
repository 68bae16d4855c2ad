"""Capture: a torch module and an example call become an FX graph with symbolic sizes,
plus what is known of the sizes.

Not here: the meaning of the ops in the graph (``torch.lowering``).
"""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import os
import threading
import time
import warnings

import torch

from ...core.dims import DimPlan
from ...core.errors import Error
from ..decompositions.lookup import Serves, serves_all
from ..devices import autocast_state
from ..devices.device import device_of_module
from ..graph.exported import Traced
from ..overrides import (  # noqa: F401 (they register overrides)
    arithmetic,
    assigned_data,
    contiguity,
    division,
    patches,
    reached,
    relations,
    texts,
    transformer,
)
from ..overrides.registry import overridden
from ..overrides.silence import silenced
from ..pytree import kv_caches
from ..pytree.arguments import Arguments, flatten_arguments
from ..pytree.held_values import HeldValues
from ..tracer import deadline
from . import kept_state
from .argument_containers import WritesArgument
from .attempts import Attempts
from .by_export import exported
from .captured_graph import CapturedGraph
from .entry import Entry
from .example_sizes import Sizes
from .function_caches import FunctionCaches

#: torch.export swaps global state while it runs.
_LOCK = threading.RLock()


def _renew_lock() -> None:
    """A child process has none of the threads that may hold the lock."""
    global _LOCK
    _LOCK = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)
#: They report what an attempt with other sizes cures.
_NOISY = (
    "torch.fx.experimental.symbolic_shapes",
    "torch._export.non_strict_utils",
    "torch.export._trace",
    "torch._subclasses.fake_tensor",
)


def capture(
    module: torch.nn.Module,
    args: tuple,
    kwargs: dict | None = None,
    dims=None,
    serves: Serves = serves_all,
    may_export: bool = True,
    in_grad_mode: bool = False,
    held: HeldValues | None = None,
) -> CapturedGraph:
    """Captures ``module(*args, **kwargs)``; the parameters and buffers become inputs of the graph.

    Ops that ``serves`` does not name are captured as the steps that torch makes of them.
    ``in_grad_mode`` is for a module that asks for the mode of its caller. The values in ``held``
    become inputs after the arguments. ``may_export`` allows torch.export, which puts fake tensors
    into the module while it runs: calls of other threads would meet them.
    """
    start = time.perf_counter()
    reached.forget(module)
    arguments, tensors = flatten_arguments(module, args, kwargs or {}, held)
    _check_examples(arguments, tensors)
    device = device_of_module(module, arguments.tensor_names, tensors)
    # After a window it is a slice; the layout of a cache makes no difference to what is computed of
    # it.
    cached = set(kv_caches.leaves_of_caches(arguments.spec))
    tensors = [t.contiguous() if i in cached else t for i, t in zip(arguments.tensors, tensors, strict=True)]
    plan = arguments.plan(dims, tensors)
    try:
        with _LOCK, _quiet(), overridden("capture"), torch.set_grad_enabled(in_grad_mode):
            captured = _first_success(module, arguments, tensors, plan, serves, may_export)
        captured.device = device
        if captured.changes:
            with _LOCK, _quiet():
                kept_state.settle(captured, module, arguments, tensors)
    finally:
        reached.forget(module)
    captured.milliseconds = (time.perf_counter() - start) * 1e3
    return captured


def _first_success(
    module, arguments: Arguments, tensors, plan: DimPlan, serves: Serves, may_export: bool
) -> CapturedGraph:
    caches = FunctionCaches(module)

    def attempts(tracer) -> CapturedGraph:
        return Attempts(module, arguments, tensors, plan, tracer, caches).first_success()

    try:
        return attempts(functools.partial(quick, serves=serves))
    except deadline.TooLong:
        raise
    except Exception as error:
        # Whatever stopped the quick tracer: torch.export succeeds, or says what is wrong.
        from ..tracer.not_traced import Transformed

        reason = error.__cause__ or error
        if isinstance(reason, WritesArgument):
            raise
        if autocast_state.current() or not may_export:
            raise  # torch.export does not record what autocast around the call converts.
        logging.getLogger(__name__).info("traced by torch.export: %s", reason)
        below = isinstance(reason, Transformed)
        captured = attempts(functools.partial(exported, serves=serves, below_transforms=below))
        captured.by = "export"
        return captured


def _check_examples(arguments: Arguments, tensors: list[torch.Tensor]) -> None:
    from torch._subclasses import FakeTensor

    for name, t in zip(arguments.tensor_names, tensors, strict=True):
        if isinstance(t, FakeTensor) or t.is_meta:
            raise Error(
                f"input {name}: a fake or meta tensor has no data; pass an example with data", code="E0601"
            )
        if t.layout is not torch.strided or t.is_quantized or t.is_nested:
            kind = "a nested tensor" if t.is_nested else f"layout {t.layout}, dtype {t.dtype}"
            raise Error(f"input {name}: expected a dense tensor, got {kind}", code="E0601")


def quick(
    entry: Entry, examples, sizes: Sizes | None, oblivious: bool, serves: Serves = serves_all
) -> Traced:
    """Traces by the tracer of disc."""
    from ..tracer.tracer import trace

    if sizes is None:
        return trace(entry, examples, lambda i, axis: False, oblivious, serves)
    return trace(entry, examples, sizes.dynamic, oblivious, serves, sizes.first, sizes.ones)


@contextlib.contextmanager
def _quiet():
    """No garbage collection (a tenth of the time), and no advice about our choice of sizes."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        with silenced(_NOISY), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if collecting:
            gc.enable()
