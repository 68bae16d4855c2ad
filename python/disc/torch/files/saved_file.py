"""Reads models of torch from files: exported programs (``.pt2``), archives of TorchScript and
pickled modules (``.pt``), with an example of their inputs.

Invariant: a pickle is read only if the user said so, since that runs what code is in it.
"""

from __future__ import annotations

import inspect
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...core.errors import Error
from ..lowering.promotion import DTYPES
from ..pytree.parameters import Parameters


@dataclass
class SavedModel:
    """A module, and an example of a call."""

    module: torch.nn.Module
    args: tuple
    kwargs: dict[str, Any]
    #: The program is right only for the sizes of the example.
    is_static: bool = False


def exported(path: str) -> SavedModel:
    """Reads what ``torch.export.save`` wrote."""
    try:
        program = torch.export.load(path)
    except Exception as error:
        raise Error(
            f"{path} is no file of torch.export.save: {error}",
            code="E0101",
            help="torch.export.save(torch.export.export(module, inputs), 'model.pt2')",
        ) from error
    if program.example_inputs is None:
        raise Error(f"{path} has no example inputs, which capturing it needs", code="E0906")
    return SavedModel(program.module(), *program.example_inputs)


def saved(path: str, inputs: Sequence[dict[str, Any]], is_trusted: bool) -> SavedModel:
    """Reads what ``torch.jit.save`` or ``torch.save`` wrote, in evaluation mode.

    An input has ``name``, and ``file`` (.npy), or sizes: ``random`` with ``seed``, or ``zeros``, or
    ``dtype`` and ``axes`` with ``seed``: a size each, or a name that stands for any size.
    """
    inputs = _with_sizes(inputs)
    if _is_script(path):
        return _script(path, inputs)
    return _pickled(path, inputs, is_trusted)


def _with_sizes(inputs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """``inputs`` with a size of the example for each name of an axis. Models divide sizes, into
    heads and patches: those of the example are multiples of 8.
    """
    names = dict.fromkeys(axis for row in inputs for axis in row.get("axes", ()) if isinstance(axis, str))
    sizes = {name: 8 * (i + 1) for i, name in enumerate(names)}
    return [
        {**row, "axes": [sizes.get(axis, axis) for axis in row["axes"]]} if "axes" in row else row
        for row in inputs
    ]


def _is_script(path: str) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("/constants.pkl") for name in archive.namelist())


def _pickled(path: str, inputs: Sequence[dict[str, Any]], is_trusted: bool) -> SavedModel:
    if not is_trusted:
        raise Error(
            f"{path} is a pickle, and reading one runs whatever code is in it",
            code="E0700",
            help="--unsafe-pickle, if you trust the file; torch.export.save writes files without code",
        )
    try:
        module = torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:
        raise Error(
            f"{path} cannot be unpickled: {type(error).__name__}: {error}",
            code="E0101",
            help="the classes of the model must be importable: PYTHONPATH names their folder",
        ) from error
    if not isinstance(module, torch.nn.Module):
        raise Error(
            f"{path} holds a {type(module).__name__}, expected a torch.nn.Module",
            code="E0906",
            help="torch.save(module, 'model.pt') saves the module; a state dict has weights alone",
        )
    if _is_optimized(module):
        module = module.original
    parameters = Parameters(module)
    args, kwargs = _arguments(parameters.positional, inputs)
    if unknown := [name for name in kwargs if name not in parameters.order and not parameters.takes_any]:
        raise _no_input(path, unknown[0], parameters.order)
    return SavedModel(module.eval(), args, kwargs)


def _is_optimized(module: torch.nn.Module) -> bool:
    from ..module.optimized import OptimizedModule

    return OptimizedModule in type(module).__mro__


def _script(path: str, inputs: Sequence[dict[str, Any]]) -> SavedModel:
    try:
        script = torch.jit.load(path, map_location="cpu").eval()
    except Exception as error:
        raise Error(f"{path} is no archive of TorchScript: {error}", code="E0101") from error
    names = [argument.name for argument in script.forward.schema.arguments[1:]]
    args, kwargs = _arguments(names, inputs)
    for name in kwargs:
        if name not in names:
            raise _no_input(path, name, names)
        raise Error(f"{path} needs the inputs before {name} too", code="E0601")
    module = _converted(path, script, args)
    _compare(path, script, module, args)
    return SavedModel(_Named(module, names[: len(args)]), args, {}, is_static=True)


def _converted(path: str, script: torch.jit.ScriptModule, args: tuple) -> torch.nn.Module:
    try:
        from torch._export.converter import TS2EPConverter

        return TS2EPConverter(script, args).convert().module()
    except Exception as error:
        raise Error(
            f"{path}: torch cannot convert this TorchScript: {type(error).__name__}: {error}",
            code="E0906",
            help="export the module of Python that it was made from: torch.export.save",
        ) from error


def _compare(path: str, script: torch.nn.Module, module: torch.nn.Module, args: tuple) -> None:
    """The converter is experimental: a program that computes something else is refused."""
    with torch.no_grad():
        wanted, ours = (_leaves(m(*_copies(args))) for m in (script, module))
    try:
        torch.testing.assert_close(ours, wanted, equal_nan=True)
    except AssertionError as error:
        raise Error(
            f"{path}: what torch converts this TorchScript to computes something else: {error}",
            code="E0906",
            help="export the module of Python that it was made from: torch.export.save",
        ) from error


def _leaves(result: Any) -> list:
    return torch.utils._pytree.tree_leaves(result)


def _copies(args: tuple) -> tuple:
    return tuple(arg.clone() for arg in args)


class _Named(torch.nn.Module):
    """Gives ``forward`` the names of the inputs of an archive."""

    def __init__(self, module: torch.nn.Module, names: list[str]):
        super().__init__()
        self.module = module
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self._signature = inspect.Signature([inspect.Parameter(name, kind) for name in names])

    @property
    def forward(self):
        def forward(*args):
            return self.module(*args)

        forward.__signature__ = self._signature
        return forward


def _arguments(
    positional: Sequence[str], inputs: Sequence[dict[str, Any]]
) -> tuple[tuple, dict[str, torch.Tensor]]:
    """The inputs of a call: by position as far as they are the first ones, else by name."""
    given = {row["name"]: _tensor(row) for row in inputs}
    args = []
    for name in positional:
        if name not in given:
            break
        args.append(given.pop(name))
    return tuple(args), given


def _no_input(path: str, name: str, names: Sequence[str]) -> Error:
    known = ", ".join(names) or "none"
    return Error(f"{path} has no input {name}: its inputs are {known}", code="E0601")


def _tensor(row: dict[str, Any]) -> torch.Tensor:
    if "file" in row:
        try:
            return torch.from_numpy(np.load(row["file"], allow_pickle=False))
        except Exception as error:
            raise Error(
                f"input {row['name']}: {row['file']} cannot be read: {error}", code="E0101"
            ) from error
    if "zeros" in row:
        return torch.zeros(row["zeros"])
    if "axes" in row:
        return _typed(row)
    return torch.rand(row["random"], generator=torch.Generator().manual_seed(row["seed"]))


def _typed(row: dict[str, Any]) -> torch.Tensor:
    """Random numbers of a type, or zeros, which are indices of any table."""
    dtype = DTYPES.get(row["dtype"])
    if dtype is None:
        known = ", ".join(DTYPES)
        raise Error(f"input {row['name']}: torch has no type {row['dtype']}: there are {known}", code="E0601")
    if not dtype.is_floating_point:
        return torch.zeros(row["axes"], dtype=dtype)
    return torch.rand(row["axes"], generator=torch.Generator().manual_seed(row["seed"])).to(dtype)
