"""``disc.check``: the compiled module against eager, on inputs of the caller's choice."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.utils import _pytree as pytree

from ..core.errors import Error
from .graph.weight_names import find
from .pytree import kv_caches

#: Allowed error relative to the greatest value of an output, by the output's type.
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}


@dataclass(frozen=True)
class Difference:
    """The first difference between compiled and eager: the output's number, and how it differs."""

    output: int
    reason: str
    error: float | None = None


@dataclass(frozen=True)
class CheckResult:
    ok: bool
    max_rel_err: float
    first_difference: Difference | None = None

    def __bool__(self) -> bool:
        return self.ok


def check(module, inputs, kwargs: dict | None = None) -> CheckResult:
    """Runs a module that ``disc.optimize`` returned and its original on ``inputs``,
    and compares each output.

    Where calls change inputs or the state of the module, both run on copies, and these are compared
    too.
    """
    from .module import OptimizedModule, keyword_arguments

    if not isinstance(module, OptimizedModule):
        raise Error(f"check: expected a module that disc.optimize returned, got {type(module).__name__}")
    args = tuple(inputs) if isinstance(inputs, tuple) else (inputs,)
    kwargs = keyword_arguments(kwargs)
    ours = _results(module, module, args, kwargs)
    theirs = _results(module, module.original, args, kwargs)
    greatest, first = 0.0, None
    for i, (a, e) in enumerate(zip(ours, theirs, strict=True)):
        error, reason = _compare(a, e)
        greatest = max(greatest, error)
        if reason is not None and first is None:
            first = Difference(i, reason, error)
    return CheckResult(first is None, greatest, first)


def _results(compiled, module, args: tuple, kwargs: dict) -> list:
    """Runs ``module`` (``compiled`` or its original); its results, and what it may have changed."""
    state = compiled.state
    if state is None:
        with torch.no_grad():
            return pytree.tree_leaves(module(*args, **kwargs))
    from .capture.side_effects import as_it_was, copied

    leaves, spec = kv_caches.flatten((args, kwargs))
    leaves = [x.clone() if isinstance(x, torch.Tensor) else x for x in leaves]
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    original = compiled.original
    with torch.no_grad(), as_it_was(original):
        copied(original, state.changed)
        results = pytree.tree_leaves(module(*args, **kwargs))
        changed = [find(original, name).clone() for name in state.changed]
    return [*results, *(x for x in leaves if isinstance(x, torch.Tensor)), *changed]


def _compare(a, e) -> tuple[float, str | None]:
    if not isinstance(e, torch.Tensor):
        return (0.0, None) if a == e else (float("inf"), f"{a!r}, eager gives {e!r}")
    if a.shape != e.shape or a.dtype != e.dtype:
        return float("inf"), f"{list(a.shape)} {a.dtype}, eager gives {list(e.shape)} {e.dtype}"
    if not e.numel():
        return 0.0, None
    x, y = a.double(), e.double()
    if not torch.equal(x.isnan(), y.isnan()) or not torch.equal(x[x.isinf()], y[y.isinf()]):
        return float("inf"), "NaN or infinities in other places"
    finite = y.isfinite() & x.isfinite()
    if not finite.any():
        return 0.0, None
    scale = max(float(y[finite].abs().max()), 1e-12)
    error = float((x[finite] - y[finite]).abs().max()) / scale
    allowed = _TOLERANCE.get(e.dtype, 0.0)
    return error, None if error <= allowed else f"relative error {error:.1e}, allowed {allowed:.0e}"
