"""Runs a module that no tracer captures whole: dynamo splits it at what it cannot trace, and disc
compiles the parts as the backend of ``torch.compile`` does.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from ...core.errors import Error
from ...core.options import Options
from ...core.report import summed
from ..compile.backend import serve
from ..compile.dynamo_faults import for_disc
from ..compile.registry import EagerGraph, graph_break_of
from ..devices.generators import generator_states
from ..overrides.silence import silenced
from .entry import Entry, Refused

if TYPE_CHECKING:
    from ..compile.inference import CompiledGraph

#: After so many seconds of compilation, PyTorch runs further parts of a module.
MOST_SECONDS = 60.0
#: It advises on graph breaks, which the report has.
_NOISY = ("torch._dynamo.variables.tensor",)


class DynamoEntry(Entry):
    """A module in parts that dynamo made."""

    def __init__(self, original: Callable[[], torch.nn.Module], error: Error, options: Options):
        self._original = original
        self.cause = error
        self._options = options
        self.parts: list[CompiledGraph | EagerGraph] = []
        self.graph_breaks: list[dict[str, Any]] = []
        self.calls = 0
        #: Seconds that parts took to compile.
        self._spent = 0.0
        self._compiled = torch.compile(original(), backend=self._backend, dynamic=True)
        #: No call has come to its end.
        self._is_new = True
        #: Dynamo failed: torch runs the module.
        self._is_eager = False
        self._lock = threading.RLock()

    @property
    def captured_by(self) -> str:
        return "none" if self._is_eager else "dynamo"

    def note_break(self, broken: dict[str, Any]) -> None:
        """Notes that torch runs a part of the module: the reason and the line."""
        if broken not in self.graph_breaks:
            self.graph_breaks.append(broken)

    @for_disc
    def _backend(self, graph: torch.fx.GraphModule, inputs) -> Callable:
        if (broken := graph_break_of(graph)) is not None:
            self.graph_breaks.append(broken)
        if self._spent > MOST_SECONDS and self._options.fallback != "error":
            part = EagerGraph(graph, "the parts before took too long to compile")
            self.parts.append(part)
            return part.call
        start = time.perf_counter()
        part, call = serve(graph, inputs, self._options)
        self._spent += time.perf_counter() - start
        self.parts.append(part)
        return call

    def run(self, args: tuple, kwargs: dict):
        is_eager = self._is_eager
        if (
            not is_eager
            and torch.is_grad_enabled()
            and any(
                isinstance(t, torch.Tensor) and t.requires_grad for t in pytree.tree_leaves((args, kwargs))
            )
        ):
            raise Refused(Error("an input requires a gradient", code="E0610"))
        self.calls += 1
        if is_eager:
            return self._original()(*args, **kwargs)
        if self._is_new:
            with self._lock:
                if self._is_new:
                    return self._first(args, kwargs)
            if self._is_eager:
                return self._original()(*args, **kwargs)
        with torch.no_grad():
            return self._compiled(*args, **kwargs)

    def _first(self, args: tuple, kwargs: dict):
        """The first call; if dynamo fails in it, eager mode starts from the state before."""
        module = self._original()
        state, drawn = {name: t.clone() for name, t in module.named_buffers()}, generator_states()
        given = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        before = [(t, t._version, t.clone()) for t in given if not t.is_inference()]
        try:
            with torch.no_grad(), silenced(_NOISY):
                result = self._compiled(*args, **kwargs)
        except Exception as error:
            # Of dynamo, of a part, or of the model: eager mode says which.
            logging.getLogger("disc.compile").info("dynamo cannot split %s: %s", type(module).__name__, error)
            self._is_eager, self._is_new, self.parts, self.graph_breaks = True, False, [], []
            with torch.no_grad():
                for t, version, copy in before:
                    if t._version != version:
                        t.copy_(copy)
                for name, t in module.named_buffers():
                    if name in state and t.shape == state[name].shape:
                        t.copy_(state[name])
            drawn.restore()
            return module(*args, **kwargs)
        self._is_new = False
        return result

    def reads(self, address: int) -> bool:
        # Each call looks at the memory of the weights that it passes.
        return False

    def executables(self) -> list[Any]:
        return [executable for part in self.parts for executable in part.executables()]

    def report_values(self) -> dict[str, Any]:
        rows = [part.report_values() for part in self.parts]
        return summed(rows, len(self.graph_breaks), self.calls)

    def fallbacks(self) -> list[dict[str, Any]]:
        rows = [row for part in self.parts for row in part.fallbacks()]
        if self._is_eager:
            rows.append(self._whole())
        is_compiled = any(part.executables() for part in self.parts)
        if self.calls and not (rows or self.graph_breaks or is_compiled):
            # Dynamo saw no op of it.
            rows.append(self._whole())
        return rows + [{"op": "Python", **broken, "calls": self.calls} for broken in self.graph_breaks]

    def _whole(self) -> dict[str, Any]:
        return {"op": "module", "reason": self.cause.message, "source": None, "calls": self.calls}
