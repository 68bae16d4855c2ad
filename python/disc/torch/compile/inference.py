"""Serves the calls of one graph of dynamo's by compiled code.

Weights are arguments of each call. Their prepared forms belong to the tensors and their versions: a
call with other tensors, or with changed ones, prepares them again, and a graph whose weights keep
changing takes them as plain inputs.

Invariant: a call that compiled code cannot serve runs dynamo's graph, as long as nothing was
written.
"""

from __future__ import annotations

import logging
import threading
import weakref
from typing import Any

import torch

from ...core import extension
from ...core.errors import Error
from ...core.options import Options
from . import code
from .dynamo_graph import DynamoGraph, compilation

_LOG = logging.getLogger("disc")
#: Weights that changed more often are taken as plain inputs from then on.
_MOST_CHANGES = 2
#: Sets of weights that are kept prepared: layers of one kind share a graph.
_MOST_SETS = 128


class CompiledGraph:
    """A graph of dynamo's that disc compiled; ``call`` takes and gives what the graph does."""

    def __init__(
        self, gm: torch.fx.GraphModule, read: DynamoGraph, env, options: Options, milliseconds: float
    ):
        self.calls = 0
        #: Calls that dynamo's graph served, and why.
        self.refused: dict[str, int] = {}
        self._eager = gm.forward
        self._finish = read.finish
        self._read, self._env, self._options, self._milliseconds = read, env, options, milliseconds
        self._code = self._compiled(packs_weights=True)
        #: By the identities of weights: a watch over them, and code that holds them.
        self._sets: dict[tuple[int, ...], tuple[Any, code.Bound]] = {}
        self._last: tuple[Any, code.Bound] | None = None
        #: They call when a weight of a set is gone.
        self._deaths: dict[tuple[int, ...], weakref.ref] = {}
        self._changes = 0
        self._lock = threading.Lock()

    def _compiled(self, packs_weights: bool) -> code.Code:
        made = compilation(self._read, self._env, packs_weights)
        return code.compiled(made, self._options, self._milliseconds)

    def call(self, *args):
        """The results of the graph for the arguments that dynamo passes."""
        self.calls += 1
        last = self._last
        if last is None or not last[0].are_unchanged(args):
            last = self._prepared(args)
        try:
            outputs = last[1].run(args)
        except Error as error:
            if not last[1].may_retry(error):
                raise
            result = self._eager(*args)
            self.refused[error.message] = self.refused.get(error.message, 0) + 1
            return result
        return self._finish(args, outputs)

    def _prepared(self, args: tuple) -> tuple[Any, code.Bound]:
        """Compiled code with the weights of a call, as they are now."""
        with self._lock:
            positions = self._code.weights
            key = tuple(id(args[position]) for position in positions)
            found = self._sets.get(key)
            if found is not None and found[0].are_unchanged(args):
                self._last = found
                return found
            is_parted = isinstance(self._code, code.CodeInParts)
            # Parts hold one set of weights.
            self._changes += found is not None or (is_parted and self._last is not None)
            if self._changes > _MOST_CHANGES:
                return self._unpacked(args)
            found = extension.watch(args, positions), self._code.bind(args)
            if is_parted or len(self._sets) >= _MOST_SETS:
                self._sets.clear()
            self._sets[key] = self._last = found
            if positions:
                self._forget_with(args[positions[0]], key)
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

    def _unpacked(self, args: tuple) -> tuple[Any, code.Bound]:
        """Code that takes the weights as inputs: they keep changing."""
        _LOG.info("the weights of a graph keep changing: they are not prepared any more")
        self._code = self._compiled(packs_weights=False)
        self._sets.clear()
        self._last = extension.watch(args, []), self._code.bind(args)
        return self._last

    # The report.

    def report_values(self) -> dict[str, Any]:
        """The values of the report that this graph knows."""
        last = self._last
        return {**self._code.report_values(last[1] if last is not None else None), "calls": self.calls}

    def fallbacks(self) -> list[dict[str, Any]]:
        """Describes what torch runs in a call."""
        rows = [
            {"op": left.op, "reason": left.reason, "source": left.source, "calls": self.calls}
            for left in self._code.left()
        ]
        for reason, calls in self.refused.items():
            rows.append({"op": "call", "reason": reason, "source": None, "calls": calls})
        return rows
