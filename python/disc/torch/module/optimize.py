"""Compiles a torch module into a torch module: ``disc.optimize``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import torch

from ...core import environment
from ...core.errors import Error
from ...core.options import DEFAULTS, Options, current, effective, refuse_planned
from .. import op_names
from ..devices.device import refuse_unrunnable
from .optimized import OptimizedModule

#: Wrappers that only training needs: what they hold is compiled.
_WRAPPERS = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)


def optimize(
    module: torch.nn.Module,
    inputs: Any = None,
    *,
    kwargs: dict[str, Any] | None = None,
    examples: Sequence[tuple] | None = None,
    dims: Mapping[Any, Any] | str | None = None,
    options: Options | None = None,
    background: bool | None = None,
) -> OptimizedModule:
    """Compiles ``module`` for inputs of any size.

    The form of each example (structure, optional arguments, constants, types, ranks) is ready at
    once; any other form is compiled when it is called first, and without an example that is so for
    all. What disc does not compile, torch runs, and ``disc.report`` says what and why;
    ``Options(fallback="error")`` makes it an error.

    Every dimension is dynamic unless ``dims`` says otherwise. An example size of 0 or 1 fixes
    nothing, unless it is broadcast against another size, or the model branches on it (``if
    x.shape[0] == 1``): it stays what it is then, and ``disc.report`` says so, with the line of the
    model. A call that breaks a fact about a dim that ``dims`` names or fixes is an error; one that
    breaks another fact that the model implied is served by torch, and by a further compilation if
    it comes again.

    The result computes what ``module`` computes, in the mode that it is in, also after ``module``
    was changed: each call looks at its weights, attributes, hooks and layers, prepares changed
    weights again, and compiles again what was changed otherwise. Compiled code gives no gradients:
    in grad mode, a call with an input that requires one runs in PyTorch. It runs on the device of
    the module, unless ``Options.device`` names another one for a module on the CPU.

    Of what this function returned, it gives that back, with further examples compiled; other
    ``dims`` or ``options`` compile the module anew that it was made from.

    Args:
        module: The module; it keeps working, and shares its weights with the result.
        inputs: An example: a tensor, or a tuple of positional arguments.
        kwargs: The keyword arguments of the example.
        examples: Several examples, each ``(args, kwargs)``.
        dims: A mapping from parameter name or position to ``{axis: name, disc.Dim or int}``, where
            one name in two places is an equality; ``"static"`` fixes all sizes to the example's.
        options: Options, over those of an enclosing ``with``.
        background: Sets ``Options.background``: PyTorch serves calls while disc compiles.

    Returns:
        A module that stands in for ``module``.

    Raises:
        disc.Error: An argument is wrong, or breaks with ``fallback="error"``.
    """
    if not isinstance(module, torch.nn.Module):
        raise Error(
            f"optimize: expected a torch.nn.Module, got {type(module).__name__}",
            help="wrap a function in a module",
        )
    if type(module) in _WRAPPERS:
        module = module.module
    if isinstance(module, torch.jit.ScriptModule):
        raise Error(
            "optimize: the module is a module of TorchScript",
            help="pass the module of Python that it was made from",
        )
    if background is not None:
        options = replace(options or Options(), background=background)
    chosen = effective(options)
    refuse_planned(chosen)
    if chosen.background and (chosen.fallback == "error" or chosen.release_weights):
        other = (
            'fallback="error" forbids'
            if chosen.fallback == "error"
            else "release_weights=True leaves no weights for"
        )
        raise Error(f"background=True has PyTorch run calls, which {other}", help="choose one of them")
    op_names.refuse_unknown(chosen)
    refuse_unrunnable(chosen, chain(module.parameters(), module.buffers()))
    environment.check()
    fast = _as_it_is(module, dims, options, chosen) or OptimizedModule(_original(module), dims, chosen)
    if inputs is not None or kwargs:
        args = tuple(inputs) if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
        fast._dispatcher.prepare(args, keyword_arguments(kwargs))
    for args, named in map(_example, examples or ()):
        fast._dispatcher.prepare(args, named)
    return fast


def _as_it_is(module: torch.nn.Module, dims, options, chosen: Options) -> OptimizedModule | None:
    """A result of ``optimize`` that is what is asked for; None for another module."""
    if not isinstance(module, OptimizedModule):
        return None
    says_options = options is not None or current() is not DEFAULTS
    is_other = (says_options and chosen != module.options) or dims not in (None, module._dispatcher.dims)
    return None if is_other else module


def _original(module: torch.nn.Module) -> torch.nn.Module:
    return module.original if isinstance(module, OptimizedModule) else module


def _example(example) -> tuple[tuple, dict[str, Any]]:
    """``(args, kwargs)`` of an entry of ``examples``."""
    if isinstance(example, tuple) and len(example) == 2 and isinstance(example[1], Mapping):
        args, kwargs = example
        return tuple(args) if isinstance(args, tuple) else (args,), keyword_arguments(kwargs)
    if isinstance(example, Mapping):
        return (), keyword_arguments(example)
    return example if isinstance(example, tuple) else (example,), {}


def keyword_arguments(kwargs) -> dict[str, Any]:
    """``kwargs`` as a user gave them: None, or a mapping from names."""
    if kwargs is None:
        return {}
    if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
        raise Error(f"kwargs: expected a mapping from names to arguments, got {_kind_of(kwargs)}")
    return dict(kwargs)


def _kind_of(kwargs) -> str:
    if not isinstance(kwargs, Mapping):
        return type(kwargs).__name__
    return f"the name {next(name for name in kwargs if not isinstance(name, str))!r}"
