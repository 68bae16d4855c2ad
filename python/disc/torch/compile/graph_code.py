"""Compiles a graph of dynamo's, whole or in parts between ops of torch, and gives the code its
weights.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.graph import increment_version

from ...core import extension
from ...core.errors import DimError, Error, ShapeError
from ...core.options import Options
from ...core.report import collect, nothing
from ...core.signature import Signature
from ..calls.call import signature_of
from ..calls.state import State
from ..capture.captured_program import CapturedProgram
from ..graph.call_writer import CallWriter, is_callers
from ..graph.weight_names import as_read, bytes_of
from ..lowering.graph import convert
from ..partition.program import PartitionedProgram, partition
from ..partition.support import refuse_blocked
from ..pytree.result import Result
from .compilation import Compilation
from .dynamo_graph import without_memory

_LOG = logging.getLogger("disc.compile")


class Bound:
    """Compiled code with its weights."""

    def run(self, args: tuple) -> list:
        """The outputs for the arguments of a call."""
        raise NotImplementedError

    def may_retry(self, error: Error) -> bool:
        """Returns true if a call that failed wrote nothing."""
        raise NotImplementedError

    def recorded(self, args: tuple) -> Bound:
        """The same code for one call, which is written to a file if somebody records it."""
        return self

    def write_failed(self, args: tuple, error: Error) -> None:
        """Writes a call that failed, where it is not written already."""

    def executables(self) -> list[Any]:
        """The compiled code that calls run."""
        raise NotImplementedError


class Code:
    """A compiled graph without weights."""

    def __init__(self, made: Compilation, stages: dict[str, float]):
        self.compilation = made
        self.stages = stages
        #: The positions of the weights among the arguments.
        self.weights = list(made.weights.values())

    def bind(self, args: tuple) -> Bound:
        """Prepares the weights that a call passes."""
        raise NotImplementedError

    def report_values(self, bound: Bound | None) -> dict[str, Any]:
        """The values of the report that the code knows."""
        raise NotImplementedError

    def fallbacks(self, calls: int) -> list[dict[str, Any]]:
        """Describes the ops that torch runs in each of ``calls``."""
        return []


def compiled(
    made: Compilation,
    in_parts: Callable[[], Compilation],
    options: Options,
    milliseconds: float,
    name: str,
) -> Code:
    """Compiles a graph, whose capture took ``milliseconds``: whole as ``made``, else in parts;
    profiles show it under ``name``.
    """
    directory = extension.cache_for(options)
    try:
        refuse_blocked(made.captured.graph, options)
        program = convert(made.captured, extension.builder())
        stages = {"capture": milliseconds, "convert": program.stages["convert"]}
        artifact = program.compiled(options, directory, made.sizes)
        whole = WholeCode(made, stages, program, artifact, options, name)
        _LOG.info("a graph of dynamo's is compiled whole: %d operations", program.program.operations)
        return whole
    except Error as error:
        if options.fallback == "error":
            raise
        _LOG.info("a graph of dynamo's is not compiled whole: %s", error)
        start = time.perf_counter()

        def executable(program: CapturedProgram):
            return program.loaded(program.compiled(options, directory), name)

        made = in_parts()
        parts = partition(made.captured, lambda: None, options, executable)
        if parts is None:
            raise
        stages = {"capture": milliseconds, "convert": (time.perf_counter() - start) * 1e3}
        return CodeInParts(made, stages, parts)


class WholeCode(Code):
    """A graph of which all is compiled."""

    def __init__(
        self,
        made: Compilation,
        stages: dict[str, float],
        program: CapturedProgram,
        artifact,
        options: Options,
        name: str,
    ):
        super().__init__(made, stages)
        # The tensors are those of the first call.
        program.program.weights[:] = [(name, without_memory(t)) for name, t in program.program.weights]
        made.captured.traced.weights = []
        self.program = program
        self.writer = CallWriter(program.source, options)
        self._artifact = artifact
        self._name = name

    def weights_of(self, args: tuple) -> list[tuple[str, torch.Tensor]]:
        """The weights that a call passes, by name."""
        positions = self.compilation.weights
        return as_read((name, args[positions[name]]) for name, _ in self.program.program.weights)

    def bind(self, args: tuple) -> BoundWhole:
        kind = BoundWhole
        if self.program.program.written:
            kind = BoundWriting
        elif not Result(self.program.program.outputs, self.compilation.captured.out_spec).plain:
            kind = BoundMixed
        return kind(self, self.program.loaded(self._artifact, self._name, self.weights_of(args)))

    def report_values(self, bound: Bound | None) -> dict[str, Any]:
        if not isinstance(bound, BoundWhole):
            return {**nothing(), "operations": self.program.program.operations}
        return collect(
            bound.native,
            signature_of(self.program),
            stages=self.stages,
            capture_cache="off",
            operations=self.program.program.operations,
            weight_bytes=bytes_of(self.program.program.weights),
        )


class BoundWhole(Bound):
    """A whole graph with its weights, whose outputs are all new tensors."""

    def __init__(self, code: WholeCode, native):
        self.native = native
        self._code = code
        self._pick = code.compilation.pick
        #: The positions of the inputs among the arguments.
        self.inputs = code.compilation.inputs

    def executables(self) -> list[Any]:
        return [self.native]

    def run(self, args: tuple) -> list:
        return self.native.run(self._pick(args))

    def may_retry(self, error: Error) -> bool:
        return True

    def recorded(self, args: tuple) -> Bound:
        recorded = copy.copy(self)
        recorded.native = RecordedRun(self.native, self._code, self._code.weights_of(args))
        return recorded

    def write_failed(self, args: tuple, error: Error) -> None:
        if not is_callers(error):
            self._code.writer.write_failed(self._pick(args), self._code.weights_of(args), error)


class RecordedRun:
    """Stands in for an executable in one call, which is recorded."""

    def __init__(self, native, code: WholeCode, weights: list):
        self._native, self._code, self._weights = native, code, weights

    def run(self, inputs: tuple) -> list:
        """The outputs of the executable."""
        return self._code.writer.run(self._native.run, inputs, self._weights)


class BoundMixed(BoundWhole):
    """A whole graph with its weights; some of its outputs are inputs, or numbers."""

    def __init__(self, code: WholeCode, native):
        super().__init__(code, native)
        self._result = Result(code.program.program.outputs, code.compilation.captured.out_spec)

    def run(self, args: tuple) -> list:
        tensors = self._pick(args)
        return self._result.leaves(self.native.run(tensors), tensors)


class BoundWriting(BoundMixed):
    """A whole graph with its weights that writes to inputs."""

    def __init__(self, code: WholeCode, native):
        super().__init__(code, native)
        program = code.program.program
        self._state = State.of(lambda: None, program, list(code.compilation.captured.arguments.names))
        self._written = tuple(program.written)
        # The results come first; the new values of what was written are after them.
        self._plain = self._result.plain

    def run(self, args: tuple) -> list:
        tensors = self._pick(args)
        for i in self._written:
            if not tensors[i].is_contiguous():
                return self._run_strided(tensors)
        outputs = self.native.run(tensors)
        # Autograd knows a tensor that it saved by its version; those of inference mode have none.
        increment_version([tensors[i] for i in self._written])
        if self._plain:
            return outputs
        return self._result.leaves(outputs, tensors)

    def _run_strided(self, tensors: tuple) -> list:
        held = self._state.take(list(tensors))
        outputs = self.native.run(held.given)
        self._state.store(held, outputs)
        return self._result.leaves(outputs, held.tensors)

    def may_retry(self, error: Error) -> bool:
        # Facts about sizes are checked before the first store.
        return isinstance(error, (DimError, ShapeError)) or error.code == "E0601"


class CodeInParts(Code):
    """A graph of which torch runs some ops; its clusters hold the weights of one binding."""

    def __init__(self, made: Compilation, stages: dict[str, float], parts: PartitionedProgram):
        super().__init__(made, stages)
        self.parts = parts

    def bind(self, args: tuple) -> BoundParts:
        positions = self.compilation.weights
        if positions:
            self.parts.use({name: args[position].detach() for name, position in positions.items()})
        return BoundParts(self)

    def report_values(self, bound: Bound | None) -> dict[str, Any]:
        names, program = self.compilation.captured.arguments.tensor_names, self.parts.program
        signature = Signature(names, program.dims, program.facts)
        return self.parts.report_values(signature, self.stages, "off", 0)

    def fallbacks(self, calls: int) -> list[dict[str, Any]]:
        return self.parts.fallbacks(calls)


class BoundParts(Bound):
    """A graph in parts with its weights."""

    def __init__(self, code: CodeInParts):
        self._pick = code.compilation.pick
        self._call = code.parts.call
        self._parts = code.parts
        self._writes = bool(code.compilation.captured.traced.written())

    def executables(self) -> list[Any]:
        return self._parts.executables()

    def run(self, args: tuple) -> list:
        return self._call(self._pick(args))

    def may_retry(self, error: Error) -> bool:
        return not self._writes
