"""``disc.check``: the compiled module against eager, on inputs of the caller's choice."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from ..core.errors import Error
from .devices.generators import generator_states
from .pytree import kv_caches
from .quantised_eager import quantised

if TYPE_CHECKING:
    from ..core.options import Options
    from .module.dispatcher import Dispatcher

#: Allowed error relative to the greatest value of an output, by the output's type.
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
#: The least that is allowed where rows are rounded to steps of int8.
_INT8_TOLERANCE = 2e-2


@dataclass(frozen=True)
class Difference:
    """The first difference between compiled and eager: the output's number, and how it differs."""

    output: int
    reason: str
    error: float | None = None


@dataclass(frozen=True)
class CheckResult:
    """The outcome of ``disc.check``; true if every output is close to eager's.

    Attributes:
        ok: True if nothing differs by more than its tolerance.
        max_rel_err: The largest error relative to the greatest value of its output.
        first_difference: The first output that differs: its number, the reason, the error.
    """

    ok: bool
    max_rel_err: float
    first_difference: Difference | None = None

    def __bool__(self) -> bool:
        return self.ok


def check(module: torch.nn.Module, inputs: Any, kwargs: dict[str, Any] | None = None) -> CheckResult:
    """Runs a module that ``disc.optimize`` returned and its original on ``inputs``,
    and compares each output.

    Both run on copies of the inputs, with the same random numbers and from the same state of the
    module: what they change is compared too, and is as before in the end. The tolerance is that of
    an output's type, 1e-4 of its greatest value for f32. A module of ``Options(weights="int8")``
    and the like is compared with its original with weights that are quantised the same way.
    With ``activations="int8"`` its rows are quantised too, and 2e-2 of the greatest value is
    allowed.

    Args:
        module: The result of ``disc.optimize``.
        inputs: A tensor, or a tuple of positional arguments.
        kwargs: Keyword arguments.

    Returns:
        The result, true if nothing differs.

    Raises:
        disc.Error: The module is no result of ``disc.optimize``.
    """
    from .module.optimize import keyword_arguments
    from .module.optimized import OptimizedModule

    if not isinstance(module, OptimizedModule):
        raise Error(f"check: expected a module that disc.optimize returned, got {type(module).__name__}")
    args = tuple(inputs) if isinstance(inputs, tuple) else (inputs,)
    kwargs = keyword_arguments(kwargs)
    dispatcher = module._dispatcher
    dispatcher.prepare(args, kwargs)
    with torch.no_grad():
        ours = run_apart(module.original, module, args, kwargs, dispatcher.changed())
        with as_compiled(dispatcher, args, kwargs):
            theirs = run_apart(module.original, module.original, args, kwargs, dispatcher.changed())
    return compare(ours, theirs, dispatcher.options)


def as_compiled(dispatcher: Dispatcher, args: tuple, kwargs: dict) -> AbstractContextManager:
    """Within it the original has its weights in the form that the code of a call has them in."""
    from .module.entry import GraphEntry

    options = dispatcher.options
    if options.weights == "exact" or not dispatcher.is_compiled(args, kwargs):
        return nullcontext()
    original, changed = dispatcher.original(), dispatcher.changed()
    named = [*original.named_parameters(), *original.named_buffers()]
    entries = dispatcher.entries()
    if all(isinstance(entry, GraphEntry) for entry in entries):
        # What torch runs between compiled parts reads other weights, which are exact.
        named = [(name, t) for name, t in named if dispatcher.reads(t.untyped_storage().data_ptr())]
    return quantised(options, [t for name, t in named if name not in changed])


def run_apart(original: torch.nn.Module, runs, args: tuple, kwargs: dict, changed: list[str]) -> list:
    """Calls ``runs`` on copies of the inputs; its results, then the inputs, the buffers of
    ``original`` and its parameters ``changed`` as they are afterwards. The state of the module and
    of random numbers is put back, and other attributes of the original where it is what runs.
    """
    from .capture.side_effects import as_it_was

    leaves, spec = kv_caches.flatten((args, kwargs))
    leaves = [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in leaves]
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    buffers = {name: (t, t.clone()) for name, t in original.named_buffers()}
    parameters = [(t, t.detach().clone()) for name, t in original.named_parameters() if name in changed]
    drawn = generator_states()
    try:
        with as_it_was(original) if runs is original else nullcontext():
            results = [_kept(x) for x in pytree.tree_leaves(runs(*args, **kwargs))]
            inputs = [x for x in leaves if isinstance(x, torch.Tensor)]
            state = [*(t for _, t in original.named_buffers()), *(t for t, _ in parameters)]
            return [*results, *inputs, *(t.detach().clone() for t in state)]
    finally:
        drawn.restore()
        for name, (t, before) in buffers.items():
            path, _, leaf = name.rpartition(".")
            original.get_submodule(path)._buffers[leaf] = t
            with torch.no_grad():
                t.copy_(before)
        with torch.no_grad():
            for t, before in parameters:
                t.copy_(before)


def _kept(x):
    """A result that no later write changes."""
    return x.clone() if isinstance(x, torch.Tensor) else x


def compare(ours: list, theirs: list, options: Options) -> CheckResult:
    """Compares leaves of results."""
    greatest, first = 0.0, None
    # A number halfway between two steps is rounded up or down by the last bit of an earlier sum.
    least = _INT8_TOLERANCE if options.activations == "int8" else 0.0
    for i, (a, e) in enumerate(zip(ours, theirs, strict=True)):
        error, reason = _compare(a, e, least)
        greatest = max(greatest, error)
        if reason is not None and first is None:
            first = Difference(i, reason, error)
    return CheckResult(first is None, greatest, first)


def _compare(a, e, least: float) -> tuple[float, str | None]:
    if not isinstance(e, torch.Tensor):
        return (0.0, None) if a == e else (float("inf"), f"{a!r}, eager gives {e!r}")
    if a.shape != e.shape or a.dtype != e.dtype:
        return float("inf"), f"{list(a.shape)} {a.dtype}, eager gives {list(e.shape)} {e.dtype}"
    if not e.numel():
        return 0.0, None
    x, y = a.detach().double(), e.detach().double()
    if not torch.equal(x.isnan(), y.isnan()) or not torch.equal(x[x.isinf()], y[y.isinf()]):
        return float("inf"), "NaN or infinities in other places"
    finite = y.isfinite() & x.isfinite()
    if not finite.any():
        return 0.0, None
    scale = max(float(y[finite].abs().max()), 1e-12)
    error = float((x[finite] - y[finite]).abs().max()) / scale
    allowed = max(_TOLERANCE[e.dtype], least) if e.dtype in _TOLERANCE else 0.0
    return error, None if error <= allowed else f"relative error {error:.1e}, allowed {allowed:.0e}"
