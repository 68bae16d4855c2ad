"""Writes calls of a compiled program to files: those that somebody records, and those that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch

from ...core import capturing, extension
from ...core.errors import DimError, Error, ShapeError
from ...core.options import Options
from .threads import threads_of

#: Weights by name.
Weights: TypeAlias = Iterable[tuple[str, torch.Tensor]]


class CallWriter:
    """Writes calls of a program; ``source`` is a builder or IR text."""

    def __init__(self, source: Any, options: Options):
        self._source = source
        self._options = options

    def run(self, run: Callable, inputs: Sequence[torch.Tensor], weights: Weights) -> list:
        """The outputs of ``run(inputs)``; writes the call if somebody records it."""
        recordings = capturing.recordings()
        if not recordings:
            return run(inputs)
        # A call may write to its inputs.
        before = [t.detach().clone() for t in inputs]
        try:
            outputs = run(inputs)
        except Exception as error:
            text = str(error)
            capturing.record_failed(lambda path: self._write(path, before, weights, (), text))
            raise
        for recording in recordings:
            self._write(recording.next_path(), before, weights, outputs, None)
        return outputs

    def write_failed(self, inputs: Iterable[torch.Tensor], weights: Weights, error: Exception) -> None:
        """Writes a call that raised ``error``, if ``DISC_CAPTURE`` names a folder."""
        capturing.write_failed(lambda path: self._write(path, inputs, weights, (), str(error)))

    def _write(self, path: Path, inputs, weights: Weights, outputs, error: str | None) -> None:
        options = self._options
        weights = [(name, _on_host(t)) for name, t in weights]
        inputs, outputs = map(_on_host, inputs), map(_on_host, outputs)
        extension.write_capture(
            path, self._source, inputs, weights, outputs, error, options, threads_of(options)
        )


def _on_host(value):
    """A tensor as a file holds it; arguments may be numbers of Python too."""
    return value.detach().cpu() if isinstance(value, torch.Tensor) and not value.is_cpu else value


def is_callers(error: Exception) -> bool:
    """Returns true for an error that names sizes or a form that the code was not made for."""
    return isinstance(error, (DimError, ShapeError)) or (isinstance(error, Error) and error.code == "E0601")
