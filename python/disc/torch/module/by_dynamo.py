"""Runs a module that no tracer captures whole: dynamo splits it at what it cannot trace, and disc
compiles the parts.

Each part has a dispatcher of its own. Weights, which dynamo hands over at each call, are weights of
the part; a number is read from the shape of a tensor where one has it, else it comes as a scalar
tensor.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch.utils import _pytree as pytree

from ...core.errors import Error
from ...core.report import summed
from ..overrides.silence import silenced
from ..symbolic.expressions import expression
from .entry import Entry, Refused

if TYPE_CHECKING:
    from .dispatcher import Dispatcher

#: It advises on graph breaks, which the report has.
_NOISY = ("torch._dynamo.variables.tensor",)


class DynamoEntry(Entry):
    """A module in parts that dynamo made; ``dispatcher_for`` makes a dispatcher for a part."""

    def __init__(self, original: Callable[[], torch.nn.Module], error: Error, dispatcher_for: Callable):
        self._original = original
        self._error = error
        self.parts: list[Part] = []
        self.graph_breaks: list[dict[str, Any]] = []
        self.calls = 0
        self._dispatcher_for = dispatcher_for
        self._compiled = torch.compile(original(), backend=self._backend, dynamic=True)
        #: No call has come to its end.
        self._is_new = True
        #: Dynamo failed: torch runs the module.
        self._is_eager = False
        self._lock = threading.RLock()

    @property
    def captured_by(self) -> str:
        return "none" if self._is_eager else "dynamo"

    def _backend(self, graph: torch.fx.GraphModule, inputs) -> Callable:
        part = Part(graph, self._dispatcher_for)
        self.parts.append(part)
        return part.call

    def run(self, args: tuple, kwargs: dict):
        self.calls += 1
        if self._is_eager:
            return self._original()(*args, **kwargs)
        if torch.is_grad_enabled() and any(
            isinstance(t, torch.Tensor) and t.requires_grad for t in pytree.tree_leaves((args, kwargs))
        ):
            raise Refused(Error("an input requires a gradient", code="E0610"))
        if self._is_new:
            with self._lock:
                if self._is_new:
                    return self._first(args, kwargs)
        with torch.no_grad():
            return self._compiled(*args, **kwargs)

    def _first(self, args: tuple, kwargs: dict):
        """The first call; if dynamo fails in it, eager mode starts from the state before."""
        module = self._original()
        state, drawn = {name: t.clone() for name, t in module.named_buffers()}, torch.get_rng_state()
        breaks = torch._dynamo.utils.graph_break_reasons
        known = len(breaks)
        try:
            with torch.no_grad(), silenced(_NOISY):
                result = self._compiled(*args, **kwargs)
        except torch._dynamo.exc.TorchDynamoException as error:
            logging.getLogger("disc").info("dynamo cannot split %s: %s", type(module).__name__, error)
            self._is_eager, self._is_new, self.parts = True, False, []
            with torch.no_grad():
                for name, t in module.named_buffers():
                    if name in state and t.shape == state[name].shape:
                        t.copy_(state[name])
            torch.set_rng_state(drawn)
            return module(*args, **kwargs)
        self._is_new = False
        self.graph_breaks += map(_worded, breaks[known:])
        return result

    def _dispatchers(self) -> list[Dispatcher]:
        return [part.bound.dispatcher for part in self.parts if part.bound is not None]

    def reads(self, address: int) -> bool:
        return any(dispatcher.reads(address) for dispatcher in self._dispatchers())

    def use(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        for dispatcher in self._dispatchers():
            dispatcher.refresh()

    def copy_weights(self) -> None:
        for dispatcher in self._dispatchers():
            dispatcher.copy_weights()

    def report_values(self) -> dict[str, Any]:
        rows = [dispatcher.report_values() for dispatcher in self._dispatchers()]
        return summed(rows, len(self.graph_breaks), self.calls)

    def fallbacks(self) -> list[dict[str, Any]]:
        rows = [row for dispatcher in self._dispatchers() for row in dispatcher.report_values()["fallbacks"]]
        if self._is_eager:
            rows.append({"op": "module", "reason": self._error.message, "source": None, "calls": self.calls})
        return rows + [{"op": "Python", **broken, "calls": self.calls} for broken in self.graph_breaks]


@dataclass(frozen=True)
class Bound:
    """The dispatcher of a part, and those of dynamo's arguments that it takes."""

    dispatcher: Dispatcher
    weights: tuple[tuple[int, torch.Tensor], ...]
    tensors: tuple[int, ...]
    #: Numbers that no shape tells.
    numbers: tuple[int, ...]


class Part:
    """One graph of dynamo's."""

    def __init__(self, graph: torch.fx.GraphModule, dispatcher_for: Callable):
        self._dispatcher_for = dispatcher_for
        self._nodes = [n for n in graph.graph.nodes if n.op == "placeholder"]
        self._graph = graph
        #: None before the first call.
        self.bound: Bound | None = None
        self._lock = threading.Lock()

    def call(self, *args):
        """The results of the graph for the arguments that dynamo passes."""
        bound = self.bound
        if bound is None or any(args[i] is not held for i, held in bound.weights):
            with self._lock:
                bound = self.bound = self._bind(args)
        tensors = [args[i] for i in bound.tensors]
        tensors += [torch.tensor(args[i]) for i in bound.numbers]
        return bound.dispatcher.serve(tuple(tensors), {})

    def _bind(self, args: tuple) -> Bound:
        values = [node.meta.get("example_value") for node in self._nodes]
        weights = tuple((i, args[i]) for i, node in enumerate(self._nodes) if _is_static(node))
        held = {i for i, _ in weights}
        tensors = tuple(i for i, t in enumerate(args) if isinstance(t, torch.Tensor) and i not in held)
        places = _places({i: values[i] for i in tensors})
        numbers = [i for i, x in enumerate(args) if not isinstance(x, torch.Tensor) and self._nodes[i].users]
        known = {i: places[expression(values[i])] for i in numbers if expression(values[i]) in places}
        rest = tuple(i for i in numbers if i not in known)
        flat = _Flat(self._graph, weights, (*tensors, *rest), known, rest, len(args))
        return Bound(self._dispatcher_for(flat), weights, tensors, rest)


class _Flat(torch.nn.Module):
    """A graph of dynamo's as a module of tensors alone; ``given`` has the places of these."""

    def __init__(self, graph, weights, given: tuple[int, ...], known: dict, numbers: tuple, count: int):
        super().__init__()
        object.__setattr__(self, "graph_module", graph)
        self.places = {i: f"weight_{i}" for i, _ in weights}
        for i, t in weights:
            is_parameter = isinstance(t, torch.nn.Parameter)
            (self.register_parameter if is_parameter else self.register_buffer)(self.places[i], t)
        self.given, self.known, self.numbers, self.count = given, known, numbers, count
        self.training = False

    def forward(self, *tensors):
        args: list[Any] = [0] * self.count
        for i, name in self.places.items():
            args[i] = getattr(self, name)
        for i, t in zip(self.given, tensors, strict=True):
            args[i] = t
        for i, (tensor, axis) in self.known.items():
            args[i] = args[tensor].shape[axis]
        for i in self.numbers:
            args[i] = args[i].item()
        return self.graph_module(*args)


def _worded(broken) -> dict[str, Any]:
    """The reason of a graph break in one line, and the line of the model."""
    frame = broken.user_stack[-1] if broken.user_stack else None
    source = f"{os.path.basename(frame.filename)}:{frame.lineno}" if frame is not None else None
    return {"reason": broken.reason.strip().splitlines()[0], "source": source}


def _is_static(node: torch.fx.Node) -> bool:
    return node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type") is not None


def _places(tensors: dict[int, Any]) -> dict[sympy.Symbol, tuple[int, int]]:
    """The tensor and the axis that a symbol is the size of."""
    places: dict[sympy.Symbol, tuple[int, int]] = {}
    for i, fake in tensors.items():
        for axis, size in enumerate(getattr(fake, "shape", ())):
            if isinstance(symbol := expression(size), sympy.Symbol):
                places.setdefault(symbol, (i, axis))
    return places
