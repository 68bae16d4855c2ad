"""Serves the calls of one graph of dynamo's by compiled code.

Weights are arguments of each call. Their prepared forms belong to the tensors and their versions: a
call with other tensors, or with changed ones, prepares them again, and a graph whose weights keep
changing takes them as plain inputs.

Invariant: a call that compiled code cannot serve runs dynamo's graph, as long as nothing was
written; with ``fallback="error"`` it raises.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ...core import capturing, extension
from ...core.errors import OF_DATA, CompileError, Error
from ...core.options import Options
from ...core.report import of_served
from ..calls.refusals import Refusals
from ..devices.device import placed, refuse_absent
from . import graph_code
from .compilation import Compilation, compilation
from .dynamo_graph import DynamoGraph
from .registry import name_of_subject

_LOG = logging.getLogger("disc.runtime")
#: Weights that changed more often are taken as plain inputs from then on.
_MOST_CHANGES = 2
#: So many preparations, and so many for each set of weights that lives, are one too many: tensors
#: are replaced by others again and again.
_MANY_PREPARATIONS, _MANY_OF_A_SET = 8, 3
#: Sets of weights that are kept prepared: layers of one kind share a graph.
_MOST_SETS = 1024


@dataclass(eq=False)
class Prepared:
    """A set of weights as it was, and code that holds it."""

    watch: Any
    bound: graph_code.Bound
    #: Times that these weights had changed.
    changes: int = 0
    #: Calls with it are native.
    is_warm: bool = False
    #: They call when a weight is gone.
    deaths: tuple[weakref.ref, ...] = ()


class CompiledGraph:
    """A graph of dynamo's that disc compiled; ``call`` takes and gives what the graph does."""

    def __init__(
        self,
        gm: torch.fx.GraphModule,
        graph: DynamoGraph,
        env,
        options: Options,
        milliseconds: float,
        *,
        packs_weights: bool = True,
    ):
        #: Calls that Python served.
        self._calls = 0
        #: Calls that dynamo's graph served.
        self._refusals = Refusals()
        self._eager = gm.forward
        self._finish = graph.finish
        refuse_absent(graph.device)
        options = placed(options, graph.device)
        self._graph, self._env, self._options, self._milliseconds = graph, env, options, milliseconds
        #: Profiles show it.
        self._name = name_of_subject()
        self._code = self._compiled(packs_weights)
        #: By the identities of the weights.
        self._sets: dict[tuple[int, ...], Prepared] = {}
        self._last: Prepared | None = None
        #: Serves calls with weights that were passed before.
        self._warm = extension.warm_graph(graph.leaves, graph.finish, capturing.active)
        self._preparations = 0
        #: No code could be made for weights that keep changing.
        self._failed: Error | None = None
        self._lock = threading.RLock()
        graph.release()

    def _compiled(self, packs_weights: bool) -> graph_code.Code:
        def made(packs: bool) -> Compilation:
            return compilation(self._graph, self._env, packs)

        packs_parts = packs_weights and self._graph.has_weights
        return graph_code.compiled(
            made(packs_weights), lambda: made(packs_parts), self._options, self._milliseconds, self._name
        )

    @property
    def calls(self) -> int:
        """The number of calls."""
        return self._calls + self._warm.calls

    @property
    def call(self) -> Callable:
        """The function that gives the results for the arguments that dynamo passes."""
        return extension.graph_call(self._warm, self._call)

    def _call(self, *args):
        self._calls += 1
        last = self._last
        try:
            if last is None or not last.watch.are_unchanged(args):
                last = self._prepared(args)
        except Error as error:
            return self._run_eager(error, args)
        try:
            outputs = last.bound.run(args) if not capturing.active else self._recorded(last.bound, args)
        except Exception as raised:
            error = raised if isinstance(raised, Error) else CompileError(f"compiled code failed: {raised}")
            last.bound.write_failed(args, error)
            if not last.bound.may_retry(error):
                raise
            return self._run_eager(error, args)
        self._remember(last)
        return self._finish(args, outputs)

    def _remember(self, prepared: Prepared) -> None:
        """Serves calls with these weights natively from here on, where all outputs are new."""
        if prepared.is_warm or type(prepared.bound) is not graph_code.BoundWhole:
            return
        with self._lock:
            is_held = prepared in self._sets.values()
            if is_held and not prepared.is_warm:
                prepared.is_warm = True
                self._warm.remember(prepared.watch, prepared.bound.native, prepared.bound.inputs)

    def _forget(self, prepared: Prepared | None) -> None:
        """Serves no calls natively any more with weights that are gone, or were changed."""
        if prepared is not None and prepared.is_warm:
            self._warm.forget(prepared.bound.native)

    def _recorded(self, bound: graph_code.Bound, args: tuple) -> list:
        with capturing.call_of(self):
            return bound.recorded(args).run(args)

    def _run_eager(self, error: Error, args: tuple):
        # Errors in data are eager's own, where it raises one.
        if self._options.fallback == "error" and error.code not in OF_DATA:
            raise error
        result = self._eager(*args)
        if self._options.fallback == "error":
            raise error
        self._refusals.note(error)
        return result

    def _prepared(self, args: tuple) -> Prepared:
        """Compiled code with the weights of a call, as they are now."""
        with self._lock:
            if self._failed is not None:
                raise self._failed
            positions = self._code.weights
            key = tuple(id(args[position]) for position in positions)
            found = self._sets.get(key)
            if found is not None and found.watch.are_unchanged(args):
                self._last = found
                return found
            changes = found.changes + 1 if found is not None else 0
            if self._keeps_changing(changes, found is None):
                return self._unpacked(args)
            self._preparations += 1
            new = Prepared(extension.watch(args, positions), self._code.bind(args), changes)
            new.deaths = tuple(self._watched(args[position], key) for position in positions)
            self._forget(found)
            if found is None and len(self._sets) >= _MOST_SETS:
                self._forget(self._sets.pop(next(iter(self._sets))))
            self._sets[key] = self._last = new
            return new

    def _keeps_changing(self, changes: int, is_new: bool) -> bool:
        """Returns true if weights are not worth preparing any more."""
        if isinstance(self._code, graph_code.CodeInParts) and is_new and self._sets:
            # Parts hold one set of weights.
            return True
        many = max(_MANY_PREPARATIONS, _MANY_OF_A_SET * (len(self._sets) + 1))
        return changes > _MOST_CHANGES or (is_new and self._preparations >= many)

    def _watched(self, weight: torch.Tensor, key: tuple) -> weakref.ref:
        """Lets go of prepared weights when one of them is gone."""
        ours = weakref.ref(self)

        def forget(_):
            graph = ours()
            held = graph._sets.pop(key, None) if graph is not None else None
            if held is not None:
                graph._forget(held)
                if graph._last is held:
                    graph._last = None

        return weakref.ref(weight, forget)

    def _unpacked(self, args: tuple) -> Prepared:
        """Code that takes the weights as inputs: they keep changing."""
        _LOG.info("the weights of a graph keep changing: they are not prepared any more")
        try:
            self._code = self._compiled(packs_weights=False)
            for held in self._sets.values():
                self._forget(held)
            self._sets.clear()
            self._last = self._sets[()] = Prepared(extension.watch(args, []), self._code.bind(args))
        except Error as error:
            self._failed = error
            raise
        return self._last

    # The report.

    def report_values(self) -> dict[str, Any]:
        """The values of the report that this graph knows."""
        last = self._last
        values = self._code.report_values(last.bound if last is not None else None)
        refused = self._refusals.calls()
        coverage = of_served(values["coverage"], self.calls - refused, refused)
        return {**values, "coverage": coverage, "calls": self.calls}

    def executables(self) -> list[Any]:
        """The compiled code of the sets of weights that are held."""
        held = [*list(self._sets.values()), *([self._last] if self._last is not None else [])]
        return [executable for one in held for executable in one.bound.executables()]

    def fallbacks(self) -> list[dict[str, Any]]:
        """Describes what torch runs in a call."""
        return [*self._code.fallbacks(self.calls), *self._refusals.rows()]
