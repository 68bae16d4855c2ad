"""Runs one graph of dynamo's as compiled code.

Weights are arguments of each call. Their prepared forms belong to the tensors and their versions: a
call with other tensors, or with changed ones, prepares them again, and a graph whose weights keep
changing takes them as plain inputs.

Invariant: a call that compiled code cannot serve runs dynamo's graph, as long as nothing was
written.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from typing import Any

import torch

from ...core import extension
from ...core.errors import DimError, Error, ShapeError, UnsupportedOp
from ...core.options import Options
from ...core.report import collect, nothing, summed
from ..call import signature_of
from ..capture.captured_program import CapturedProgram
from ..lowering.graph import convert
from ..partition.program import PartitionedProgram, partition
from ..pytree.result import Result
from ..state import State
from ..threads import threads_of
from .dynamo_graph import Compilation, DynamoGraph, compilation

_LOG = logging.getLogger("disc")
#: A set of weights that changed so often is taken as plain inputs from then on.
_MOST_CHANGES = 2
#: Sets of weights that are kept prepared: layers of one kind share a graph.
_MOST_SETS = 128


class Code:
    """A compiled graph: whole, or in parts between ops of torch."""

    def __init__(self, made: Compilation, options: Options, stages: dict[str, float]):
        self.compilation = made
        start = time.perf_counter()
        self.parts: PartitionedProgram | None = None
        self.program: CapturedProgram | None = None
        self.options = options
        directory = extension.cache_directory() if options.cache else None

        def artifact(program: CapturedProgram):
            return extension.compile_function(program.source, options, threads_of(options), directory)

        def loaded(program: CapturedProgram):
            return extension.load(artifact(program), _pairs(program.program.weights), outputs="torch")

        try:
            if options.block_ops or options.allow_ops:
                raise UnsupportedOp("the options leave ops to torch")
            self.program = convert(made.captured, extension.builder())
            self.artifact = artifact(self.program)
        except Error as error:
            if options.fallback == "error":
                raise
            _LOG.info("a graph of dynamo's is not compiled whole: %s", error)
            self.parts = partition(made.captured, lambda: None, options, loaded)
            if self.parts is None:
                raise
        self.stages = {**stages, "convert": (time.perf_counter() - start) * 1e3}
        self.weights = list(made.weights.values())

    def loaded(self, args: tuple) -> Executable:
        """Compiled code with the weights that a call passes."""
        weights = [(name, args[position]) for name, position in self.compilation.weights.items()]
        if self.parts is not None:
            self.parts.use({name: t.detach() for name, t in weights})
            return Executable(self, None)
        held = [name for name, _ in self.program.program.weights]
        return Executable(
            self, extension.load(self.artifact, _pairs(w for w in weights if w[0] in held), outputs="torch")
        )


class Executable:
    """Compiled code with weights; ``run`` gives the outputs for the arguments of a call."""

    def __init__(self, code: Code, native):
        self.native = native
        self._pick = code.compilation.pick
        program = code.program.program if native is not None else code.parts.program
        self.writes = bool(program.written)
        self._result = Result(program.outputs, code.compilation.captured.out_spec)
        names = list(code.compilation.captured.arguments.names)
        self._state = State.of(lambda: None, program, names) if native is not None else None
        if native is None:
            self.run = self._run_parts
            self._parts = code.parts
        elif self._state is None and self._result.plain:
            self.run = self._run_plain
        else:
            self.run = self._run_whole

    def _run_plain(self, args: tuple):
        return self.native.run(self._pick(args))

    def _run_whole(self, args: tuple):
        tensors = self._pick(args)
        if self._state is None:
            return self._result.leaves(self.native.run(tensors), tensors)
        held = self._state.take(list(tensors))
        outputs = self.native.run(held.given)
        self._state.store(held, outputs)
        return self._result.leaves(outputs, held.tensors)

    def _run_parts(self, args: tuple):
        if torch._C._is_any_autocast_enabled():
            # Its casts are ops of the graph.
            with torch.autocast("cpu", enabled=False):
                return self._parts.run(self._pick(args))
        return self._parts.run(self._pick(args))


class CompiledGraph:
    """A graph of dynamo's that disc compiled; ``call`` takes and gives what the graph does."""

    def __init__(
        self, gm: torch.fx.GraphModule, read: DynamoGraph, env, options: Options, milliseconds: float
    ):
        self.eager = gm.forward
        self.calls = 0
        #: Calls that dynamo's graph served, and why.
        self.refused: dict[str, int] = {}
        self._read, self._env, self._options = read, env, options
        self._finish = read.finish
        self._stages = {"capture": milliseconds}
        self.code = Code(compilation(read, env, packs_weights=True), options, self._stages)
        #: By the identities of weights: a watch over them, and code that holds them.
        self._sets: dict[tuple[int, ...], tuple[Any, Executable]] = {}
        self._last: tuple[Any, Executable] | None = None
        #: They call when a weight of a set is gone.
        self._deaths: dict[tuple[int, ...], weakref.ref] = {}
        self._changes = 0
        self._lock = threading.Lock()

    def call(self, *args):
        """The results of the graph for the arguments that dynamo passes."""
        self.calls += 1
        last = self._last
        if last is None or not last[0].are_unchanged(args):
            last = self._prepared(args)
        executable = last[1]
        try:
            outputs = executable.run(args)
        except Error as error:
            if executable.writes and not isinstance(error, (DimError, ShapeError)):
                raise
            return self._run_eager(error, args)
        return self._finish(args, outputs)

    def _run_eager(self, error: Error, args: tuple):
        result = self.eager(*args)
        self.refused[error.message] = self.refused.get(error.message, 0) + 1
        return result

    def _prepared(self, args: tuple) -> tuple[Any, Executable]:
        """Compiled code with the weights of a call, as they are now."""
        with self._lock:
            code = self.code
            key = tuple(id(args[position]) for position in code.weights)
            found = self._sets.get(key)
            if found is None or not found[0].are_unchanged(args):
                self._changes += found is not None
                if self._changes > _MOST_CHANGES:
                    return self._unpacked(args)
                found = extension.watch(args, code.weights), code.loaded(args)
                if code.parts is not None or len(self._sets) >= _MOST_SETS:
                    # The clusters of parts hold one set of weights.
                    self._sets.clear()
                self._sets[key] = found
                if code.weights:
                    self._forget_with(args[code.weights[0]], key)
            self._last = found
            return found

    def _forget_with(self, weight: torch.Tensor, key: tuple) -> None:
        """Lets go of prepared weights when the model that has them is gone."""
        ours = weakref.ref(self)

        def forget(_):
            graph = ours()
            if graph is not None and (held := graph._sets.pop(key, None)) is not None:
                graph._deaths.pop(key, None)
                graph._last = None if graph._last is held else graph._last

        self._deaths[key] = weakref.ref(weight, forget)

    def _unpacked(self, args: tuple) -> tuple[Any, Executable]:
        """Code that takes the weights as inputs: they keep changing."""
        _LOG.info("the weights of a graph keep changing: they are not prepared any more")
        code = Code(compilation(self._read, self._env, packs_weights=False), self._options, self._stages)
        self._sets.clear()
        self.code, self._last = code, (extension.watch(args, []), code.loaded(args))
        return self._last

    # The report.

    def report_values(self) -> dict[str, Any]:
        """The values of the report that this graph knows."""
        code = self.code
        if code.parts is not None:
            rows = [
                _collected(made.executable, made.program, {}, code.options) for made in code.parts.clusters
            ]
            report = {**rows[0], **summed(rows, sum(left.computes for left in code.parts.left), self.calls)}
            report["stages_ms"] = {**code.stages, **report["stages_ms"]}
            return report
        last = self._last
        if last is None:
            return {**nothing(), "operations": code.program.program.operations}
        return {**_collected(last[1].native, code.program, code.stages, code.options), "calls": self.calls}

    def fallbacks(self) -> list[dict[str, Any]]:
        """Describes what torch runs in a call."""
        left = self.code.parts.left if self.code.parts is not None else ()
        rows = [
            {"op": one.op, "reason": one.reason, "source": one.source, "calls": self.calls}
            for one in left
            if one.computes
        ]
        for reason, calls in self.refused.items():
            rows.append({"op": "call", "reason": reason, "source": None, "calls": calls})
        return rows


def _collected(executable, program: CapturedProgram, stages: dict, options: Options) -> dict[str, Any]:
    return collect(
        executable,
        signature_of(program),
        stages=stages,
        capture_cache="off",
        operations=program.program.operations,
        weight_bytes=sum(t.numel() * t.element_size() for _, t in program.program.weights),
    )


def _pairs(weights) -> list[tuple[str, torch.Tensor]]:
    return [(name, _plain(t.detach())) for name, t in weights]


def _plain(t: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(t) if t.is_complex() else t
