"""``disc.export``: writes what a front end understands as a package.

A path is the file of a model, which disc reads itself. Everything else is for the front end of the
framework that made it, which is imported then and not before.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from . import importing
from .errors import Error, without_torch
from .options import Options

#: The module with the function ``export`` for modules of a framework, by the framework's name.
_FRONT_ENDS = {"torch": "disc.torch.files.export"}


def export(
    module: Any,
    inputs: Any = None,
    path: str | PathLike[str] | None = None,
    *,
    kwargs: dict[str, Any] | None = None,
    dims: Mapping[Any, Any] | str | None = None,
    target: str | Sequence[str] | None = None,
    options: Options | None = None,
    ir: bool = True,
    prepared: bool = True,
    state: str = "refuse",
) -> bytes | None:
    """Compiles ``module`` for inputs of any size and writes it to ``path`` as a package.

    ``disc.export("model.mlir", path)`` takes a model that another tool wrote: StableHLO as text. It
    needs neither torch nor an example, and its inputs have the names of the file.

    Buffers that calls change (a static cache, statistics of batch norm) are refused, unless
    ``state`` is ``"inputs"``: they are inputs after the others then, by their names in the module.
    A call writes to them in place; what the module assigns anew is an output of that name. The
    caller holds the state, and starts with the values that ``module.named_buffers()`` has.

    Args:
        module: A module, or a mapping ``{"prefill": (module, inputs), "decode": (module, inputs)}``
            that makes one entry each, over one table of weights. Or the path of a model.
        inputs: An example, as for ``disc.optimize``.
        path: The file to write.
        kwargs: The keyword arguments of the example.
        dims: Names and facts of sizes, as for ``disc.optimize``.
        target: A CPU level such as ``"x86-64-v3"`` or ``"aarch64-v8+dotprod"``, whatever this
            machine is, a GPU such as ``"nvptx:sm_90"``, or a list of which the best one that can
            run is picked when the package is loaded; else this machine's, or that of
            ``options.device``. A GPU may name the level of its host program: ``"nvptx:sm_90 on
            x86-64-v3"``; this machine's without.
        options: Options, over those of an enclosing ``with``.
        ir: Keeps the program as text.
        prepared: Keeps weights as kernels read them, which loads faster and takes more room.
        state: ``"refuse"`` or ``"inputs"``, for buffers that calls change.

    Returns:
        The bytes of the package, without a path.

    Raises:
        disc.UnsupportedOp: Ops which torch would have to run, or which disc lacks; the message
            lists them.
        disc.PackageError: Calls change the model, or the file cannot be written.
        disc.Error: The file is no model that disc reads.
    """
    if isinstance(module, (str, os.PathLike)):
        if path is None:
            inputs, path = None, inputs
        _refuse_examples(module, inputs, kwargs, state)
        return importing.export(
            module, path, dims=dims, target=target, options=options, ir=ir, prepared=prepared
        )
    if isinstance(module, importing.Imported):
        if path is None:
            inputs, path = None, inputs
        _refuse_examples(module.name, inputs, kwargs, state)
        return module.export(path, target=target, options=options, ir=ir, prepared=prepared)
    try:
        front_end = importlib.import_module(_FRONT_ENDS["torch"])
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise without_torch("export") from error
    return front_end.export(
        module,
        inputs,
        path,
        kwargs=kwargs,
        dims=dims,
        target=target,
        options=options,
        ir=ir,
        prepared=prepared,
        state=state,
    )


def _refuse_examples(model, inputs, kwargs, state: str) -> None:
    """Raises for arguments that are about a module of a framework."""
    given = {"inputs": inputs is not None, "kwargs": bool(kwargs), "state": state != "refuse"}
    if wrong := [name for name, is_given in given.items() if is_given]:
        raise Error(
            f"{os.fspath(model)} is a file, whose inputs and state are stated in it: no {', '.join(wrong)}",
            code="E0700",
        )
