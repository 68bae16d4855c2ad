"""Runs a module that no tracer captures whole: dynamo splits it at what it cannot trace, and disc
compiles the parts.

Each part has a dispatcher of its own. Weights, which dynamo hands over at each call, are
weights of the part; a number is read from the shape of a tensor where one has it, else it comes as
a scalar tensor.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch.utils import _pytree as pytree

from ...core.errors import Error
from ...core.options import Options
from ..symbolic.expressions import expression
from .entry import Entry, Refused


class DynamoEntry(Entry):
    """A module in parts that dynamo made; ``dispatcher_for`` makes one for a part."""

    captured_by = "dynamo"

    def __init__(
        self,
        original: Callable[[], torch.nn.Module],
        error: Error,
        options: Options,
        dispatcher_for: Callable,
    ):
        self._original = original
        self.error = error
        self.parts: list[Part] = []
        self.graph_breaks: list[dict[str, Any]] = []
        self.calls = 0
        self._options, self._dispatcher_for = options, dispatcher_for
        self._compiled = torch.compile(original(), backend=self._backend, dynamic=True)
        #: No call has come to its end.
        self._is_new = True
        #: Dynamo failed: torch runs the module.
        self.is_eager = False

    def _backend(self, graph: torch.fx.GraphModule, inputs) -> Callable:
        part = Part(graph, self._dispatcher_for)
        self.parts.append(part)
        return part.call

    def run(self, args: tuple, kwargs: dict):
        self.calls += 1
        if self.is_eager:
            return self._original()(*args, **kwargs)
        if torch.is_grad_enabled() and any(
            isinstance(t, torch.Tensor) and t.requires_grad for t in pytree.tree_leaves((args, kwargs))
        ):
            raise Refused(Error("an input requires a gradient", code="E0610"))
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
            with torch.no_grad(), _quiet():
                result = self._compiled(*args, **kwargs)
        except torch._dynamo.exc.TorchDynamoException as error:
            logging.getLogger("disc").info("dynamo cannot split %s: %s", type(module).__name__, error)
            self.is_eager = True
            with torch.no_grad():
                for name, t in module.named_buffers():
                    if name in state and t.shape == state[name].shape:
                        t.copy_(state[name])
            torch.set_rng_state(drawn)
            return module(*args, **kwargs)
        self._is_new = False
        self.graph_breaks += map(_worded, breaks[known:])
        return result

    def refresh(self) -> None:
        """Reads the weights of all parts again."""
        for part in self.parts:
            part.refresh()

    def report_values(self) -> dict[str, Any]:
        from . import reports

        rows = [part.dispatcher.report_values() for part in self.parts if part.dispatcher is not None]
        return reports.summed(rows, len(self.graph_breaks), self.calls)

    def fallbacks(self) -> list[dict[str, Any]]:
        rows = [
            row
            for part in self.parts
            if part.dispatcher is not None
            for row in part.dispatcher.report_values()["fallbacks"]
        ]
        if self.is_eager:
            rows.append({"op": "module", "reason": self.error.message, "source": None, "calls": self.calls})
        return rows + [{"op": "Python", **broken, "calls": self.calls} for broken in self.graph_breaks]


class Part:
    """One graph of dynamo's, and what runs it."""

    def __init__(self, graph: torch.fx.GraphModule, dispatcher_for: Callable):
        self._dispatcher_for = dispatcher_for
        self._nodes = [n for n in graph.graph.nodes if n.op == "placeholder"]
        self._graph = graph
        self._weights: list[tuple[int, torch.Tensor]] = []
        self._tensors: list[int] = []
        self._numbers: list[int] = []
        self.dispatcher = None

    def call(self, *args):
        """The results of the graph for the arguments that dynamo passes."""
        if self.dispatcher is None:
            self._bind(args)
        if any(args[i] is not held for i, held in self._weights):
            self._bind(args)
        tensors = [args[i] for i in self._tensors]
        tensors += [torch.tensor(args[i]) for i in self._numbers]
        return self.dispatcher.serve(tuple(tensors), {})

    def refresh(self) -> None:
        if self.dispatcher is not None:
            self.dispatcher.refresh()

    def _bind(self, args: tuple) -> None:
        values = [node.meta.get("example_value") for node in self._nodes]
        static = [_is_static(node) for node in self._nodes]
        self._weights = [
            (i, t) for i, (t, is_weight) in enumerate(zip(args, static, strict=True)) if is_weight
        ]
        held = {i for i, _ in self._weights}
        self._tensors = [i for i, t in enumerate(args) if isinstance(t, torch.Tensor) and i not in held]
        places = _places({i: values[i] for i in self._tensors})
        numbers = [i for i in range(len(args)) if not isinstance(args[i], torch.Tensor)]
        known = {i: places[expression(values[i])] for i in numbers if expression(values[i]) in places}
        used = {i for i in numbers if self._nodes[i].users}
        self._numbers = [i for i in numbers if i not in known and i in used]
        self.dispatcher = self._dispatcher_for(
            _Flat(self._graph, self._weights, self._tensors, known, self._numbers, len(args))
        )


class _Flat(torch.nn.Module):
    """A graph of dynamo's as a module of tensors alone."""

    def __init__(self, graph, weights, tensors: list[int], known: dict, numbers: list[int], count: int):
        super().__init__()
        object.__setattr__(self, "graph_module", graph)
        self.places = [(f"weight_{i}", i) for i, _ in weights]
        for (name, _), (_, t) in zip(self.places, weights, strict=True):
            if isinstance(t, torch.nn.Parameter):
                self.register_parameter(name, t)
            else:
                self.register_buffer(name, t)
        self.tensors, self.known, self.numbers, self.count = tensors, known, numbers, count
        self.training = False

    def forward(self, *given):
        args: list[Any] = [0] * self.count
        for name, i in self.places:
            args[i] = getattr(self, name)
        for i, t in zip([*self.tensors, *self.numbers], given, strict=True):
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
    kind = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
    return kind is not None


def _places(tensors: dict[int, Any]) -> dict[sympy.Symbol, tuple[int, int]]:
    """The tensor and the axis that a symbol is the size of."""
    places: dict[sympy.Symbol, tuple[int, int]] = {}
    for i, fake in tensors.items():
        for axis, size in enumerate(getattr(fake, "shape", ())):
            if isinstance(symbol := expression(size), sympy.Symbol):
                places.setdefault(symbol, (i, axis))
    return places


@contextlib.contextmanager
def _quiet():
    """Keeps dynamo's warnings about graph breaks out of the log: the report has them."""
    log = logging.getLogger("torch._dynamo")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
