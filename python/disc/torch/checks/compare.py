"""Compares the results of compiled code with those of eager mode, by tolerances of their types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from ...core.options import Options

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
