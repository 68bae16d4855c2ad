"""Defines ``CapturedProgram``: a module as a program of the compiler, and what calls need of its
capture.

The lowering makes it of a captured graph, and the cache of what an earlier process stored. It is
apart from both, since a program from the cache needs no code that captures or lowers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from ...core import extension
from ...core.dims import DimPlan
from ...core.options import Options
from ..devices.device import HOST
from ..devices.precision import with_precision
from ..graph import weight_names
from ..graph.model_files import moved, without_lines
from ..graph.program import Program
from ..graph.threads import threads_of
from ..pytree.arguments import Arguments

if TYPE_CHECKING:
    import sympy


@dataclass(frozen=True)
class CapturedProgram:
    """One captured module; ``program.weights`` has the tensors of the module at hand."""

    arguments: Arguments
    plan: DimPlan
    out_spec: pytree.TreeSpec
    #: The input and the axis that a symbol of torch is the size of; by names of symbols where
    #: nothing is computed with them.
    symbols: dict[sympy.Symbol, tuple[int, int]] | dict[str, tuple[int, int]]
    dtypes: list[torch.dtype]
    fixed: list[str]
    #: The lines of the model that fix what is in ``fixed``, as far as they are known.
    fixed_at: dict[str, str]
    program: Program
    #: The ops: a builder of the extension, or the text of a module.
    source: Any
    #: The tracer of the module: "disc" or "export".
    by: str = "disc"
    #: Milliseconds that capture and lowering took.
    stages: dict[str, float] = field(default_factory=dict)
    #: For each cache of the result, the one of the arguments that it is.
    returned_caches: tuple[int | None, ...] = ()
    #: The device of the module, and those of the inputs: scalars of the host may be among them.
    device: torch.device = HOST
    devices: tuple[torch.device, ...] = ()
    #: Attributes that each call assigns, and tables that calls fill, on which no result depends.
    notes: tuple[str, ...] = ()
    #: Of a stored program, the files of the model when it was stored.
    files: dict[str, Any] = field(default_factory=dict)

    def compiled(self, options: Options, directory: str | None, first: Sequence[Sequence[int]] | None = None):
        """Returns the code without weights, from the cache in ``directory`` if it is there.

        ``first`` are the sizes of the inputs of a call that is made at once.
        """
        given = with_precision(options), threads_of(options), directory
        return extension.compile_function(self.source, *given, first)

    def loaded(self, artifact, name: str, weights: Iterable[tuple[str, torch.Tensor]] | None = None):
        """Returns the code with prepared weights, its own or others of the same form; profiles show
        it under ``name``.
        """
        weights = self.program.weights if weights is None else weights
        return extension.load(artifact, weight_names.as_read(weights), outputs="torch", name=name)

    def text(self) -> str:
        """Returns the ops as text, without lines of the model."""
        return without_lines(self.source) if isinstance(self.source, str) else self.source.as_text()

    def stored(self) -> CapturedProgram:
        """Returns the form that is kept on disk: with text for a builder,
        and the names of weights without tensors.
        """
        program = dataclasses.replace(
            self.program, weights=[(name, None) for name, _ in self.program.weights]
        )
        source = self.source if isinstance(self.source, str) else self.source.as_text(lines=True)
        files = self.program.files.kept(source)
        # To load a symbol is to load sympy.
        symbols = self.symbols if program.checks else {str(s): place for s, place in self.symbols.items()}
        return dataclasses.replace(
            self, program=program, source=source, symbols=symbols, stages={}, files=files
        )

    @classmethod
    def from_cache(cls, stored: CapturedProgram, module: torch.nn.Module) -> CapturedProgram | None:
        """Returns a stored program with the weights of ``module``; None if it lacks one of them."""
        weights = [(name, weight_names.find(module, name)) for name, _ in stored.program.weights]
        state = [weight_names.find(module, name) for name in stored.program.state]
        if any(weight is None for _, weight in weights) or any(weight is None for weight in state):
            return None
        program = dataclasses.replace(stored.program, weights=weights)
        source, stages = moved(stored.source, stored.files), {"capture": 0.0, "convert": 0.0}
        return dataclasses.replace(stored, program=program, source=source, stages=stages)
