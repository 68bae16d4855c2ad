"""Puts another backend in the place of those that PyTorch's tests name.

Invariant: only what compiles a graph of dynamo's is replaced. What a test counts and compares is
its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch._inductor.compile_fx
from torch._dynamo import testing
from torch._dynamo.backends import registry

#: The names under which tests ask for a backend.
NAMES = ("inductor", "aot_eager", "eager")


def substitute(name: str) -> None:
    """Lets the backend ``name`` compile wherever a test asks for Inductor, aot_eager or eager."""
    chosen = registry.lookup_backend(name)

    def compile_graph(graph, inputs, *_, **__):
        return chosen(graph, inputs)

    for other in NAMES:
        replaced = registry.lookup_backend(other)
        registry._COMPILER_FNS[other] = functools.wraps(replaced)(lambda *a, **k: compile_graph(*a, **k))
    torch._inductor.compile_fx.compile_fx = compile_graph
    for recorder in (testing.CompileCounter, testing.EagerAndRecordGraphs):
        recorder.__call__ = _recorded(recorder.__call__, compile_graph)


def _recorded(record: Callable, compile_graph: Callable) -> Callable:
    """A backend that records a graph as before, and compiles it instead of returning it."""

    @functools.wraps(record)
    def call(self, graph, inputs):
        record(self, graph, inputs)
        return compile_graph(graph, inputs)

    return call
