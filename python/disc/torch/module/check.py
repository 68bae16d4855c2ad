"""``disc.check``: the compiled module against eager, on inputs of the caller's choice."""

from __future__ import annotations

from typing import Any

import torch

from ...core.errors import Error
from ..checks.apart import run_apart
from ..checks.compare import CheckResult, compare
from .optimize import keyword_arguments
from .optimized import OptimizedModule
from .verify import as_compiled


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
