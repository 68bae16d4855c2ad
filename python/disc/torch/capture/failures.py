"""Tells failures of a trace that other sizes may cure from others, and words their errors."""

from __future__ import annotations

import traceback

import torch

from ...core.errors import Error, UnsupportedOp
from ..symbolic.source_lines import DISC, TORCH, written


def _data_dependent() -> tuple[type[Exception], ...]:
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    return DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode


def is_shape_failure(error: Exception) -> bool:
    """Returns true for errors that other sizes may cure.

    What a model raises about its data or what torch cannot trace is not among them.
    """
    if isinstance(error, _data_dependent()):
        return False
    return isinstance(
        error, (RuntimeError, ValueError, IndexError, TypeError, AssertionError, NotImplementedError)
    )


def capture_error(module, error: Exception) -> Error:
    text = str(error).strip().splitlines()
    first = text[0] if text else type(error).__name__
    name, at = type(module).__name__, _model_line(error)
    if isinstance(error, _data_dependent()):
        op = str(getattr(error, "func", "") or "")
        return UnsupportedOp(
            f"{name} depends on values of its inputs{at}: "
            + (op or "the value of a tensor decides what is computed"),
            op=op or None,
            code="E0402",
            help="branches that depend on data are not compiled yet: torch.where computes both sides, torch.cond takes "
            "one; an index or a size may come of a tensor (x[i], x[:, :int(n.max())])",
        )
    return Error(
        f"{name} could not be captured{at}: {type(error).__name__}: {first}",
        code="E0404",
        help="the original error is the cause of this one",
    )


def _model_line(error: Exception) -> str:
    """The innermost line of the model that led to the error, as `` (file:line: code)``."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith((TORCH, DISC, "<"))]
    return f" ({written((own[-1].filename, own[-1].lineno))})" if own else ""


def symbol_places(shapes) -> dict[str, tuple[int, int]]:
    """The input and the axis of each symbol in the shapes of a trace."""
    places = {}
    for t, shape in enumerate(shapes):
        for axis, size in enumerate(shape):
            if isinstance(size, torch.SymInt):
                places[str(size.node._expr)] = (t, axis)
    return places
