"""Knows which graphs belong to what ``torch.compile`` returned, and reports on them.

Dynamo tells a backend neither what it compiles for nor why once more: both are on the stack of its
caller.
"""

from __future__ import annotations

import logging
import os
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._guards import CompileContext

from ...core import report
from ...core.report import Compiled, nothing, summed

_LOG = logging.getLogger("disc.compile")


class EagerGraph:
    """A graph that runs as dynamo made it; without a reason it has nothing to compile."""

    def __init__(self, gm: torch.fx.GraphModule, reason: str | None, op: str | None = None):
        self.reason = reason
        self._op = op or "graph"
        self.calls = 0
        self._operations = sum(node.op.startswith("call") for node in gm.graph.nodes)
        self._forward = gm.forward

    def call(self, *args):
        """The results of the graph."""
        self.calls += 1
        return self._forward(*args)

    def report_values(self) -> dict[str, Any]:
        """The values of the report that this graph knows."""
        return {**nothing(), "operations": self._operations if self.reason is not None else 0}

    def executables(self) -> list[Any]:
        """The compiled code, of which there is none."""
        return []

    def fallbacks(self) -> list[dict[str, Any]]:
        """Describes what torch runs in a call."""
        if self.reason is None:
            return []
        return [{"op": self._op, "reason": self.reason, "source": None, "calls": self.calls}]


class PythonPart:
    """A part of a model that torch runs between graphs."""

    calls = 0

    def __init__(self, broken: dict[str, Any]):
        self._broken = broken

    def report_values(self) -> dict[str, Any]:
        """The values of the report: one operation that is not compiled."""
        return {**nothing(), "operations": 1}

    def executables(self) -> list[Any]:
        """The compiled code, of which there is none."""
        return []

    def fallbacks(self) -> list[dict[str, Any]]:
        """Describes what torch runs in a call; how often is not known."""
        return [{"op": "Python", **self._broken, "calls": self.calls}]


@dataclass
class Noted:
    """A graph, and what dynamo says about it."""

    #: Gives the graph, as long as dynamo keeps it.
    graph: Callable[[], Any]
    #: Dynamo's number of the compilation: ``0/1`` is the first frame, compiled again.
    compile_id: str
    #: The guard of an earlier compilation that failed.
    recompiled: str | None
    #: The reason and the line of the break that ends the graph.
    graph_break: dict[str, Any] | None
    #: The class of what dynamo compiled.
    kind: type


#: The graphs of each module and function that was compiled, by its identity.
_noted: dict[int, list[Noted]] = {}


def note(graph, gm: torch.fx.GraphModule) -> None:
    """Notes a graph that dynamo is about to use."""
    compiled, reason = _subject()
    reason = reason.splitlines()[0].partition("  #")[0].strip() if reason else None
    if reason is not None and compiled is not None:
        _LOG.info("%s is compiled again, as graph %s: %s", _name_of(compiled), _compile_id(), reason)
    made = Noted(
        weakref.ref(graph),
        _compile_id(),
        reason,
        graph_break_of(gm),
        type(compiled),
    )
    _keep(compiled, made)


def note_break(broken: dict[str, Any]) -> None:
    """Notes that torch runs a part of what dynamo is compiling: the reason and the line."""
    compiled, _ = _subject()
    part = PythonPart(broken)
    if all(one.graph_break != broken for one in _noted.get(id(compiled), ())):
        _keep(compiled, Noted(lambda: part, _compile_id(), None, broken, type(compiled)))


def _keep(compiled, made: Noted) -> None:
    if compiled is None:
        return
    if id(compiled) not in _noted:
        try:
            weakref.finalize(compiled, _noted.pop, id(compiled), None).atexit = False
        except TypeError:
            # Nobody would say when it is gone.
            return
    _noted.setdefault(id(compiled), []).append(made)


def name_of_subject() -> str:
    """The name of the module or function whose graph dynamo is compiling."""
    compiled, _ = _subject()
    return "graph" if compiled is None else _name_of(compiled)


def _name_of(compiled) -> str:
    return getattr(compiled, "__name__", None) or type(compiled).__name__


def _compile_id() -> str:
    return str(CompileContext.current_compile_id())


def _subject() -> tuple[Any, str | None]:
    """The object that dynamo is compiling, and the guard that failed if it is compiled again."""
    reason = None
    for frame in _frames():
        name = frame.f_code.co_name
        if reason is None and name == "_compile":
            reason = frame.f_locals.get("recompile_reason")
        # Its name is another one in each version of torch (_fn in 2.7, compile_wrapper in 2.13).
        if "callback" in frame.f_code.co_freevars and "fn" in frame.f_code.co_freevars:
            return _compiled_object(frame.f_locals.get("fn")), reason
    return None, reason


def _frames() -> Iterator[types.FrameType]:
    frame = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _compiled_object(fn):
    """The module, or the function, that ``torch.compile`` got."""
    # A method has what its function wraps, and the function does not know the module.
    while not isinstance(fn, (torch.nn.Module, types.MethodType)):
        inner = getattr(fn, "__wrapped__", None)
        if inner is None:
            return fn
        fn = inner
    return fn.__self__ if isinstance(fn, types.MethodType) else fn


def graph_break_of(gm: torch.fx.GraphModule) -> dict[str, Any] | None:
    """The break that ends a graph: its reason in one line, and the line of the model."""
    broken = getattr(gm, "compile_subgraph_reason", None)
    if broken is None or not broken.graph_break:
        return None
    frame = broken.user_stack[-1] if broken.user_stack else None
    source = f"{os.path.basename(frame.filename)}:{frame.lineno}" if frame is not None else None
    return {"reason": broken.reason.strip().splitlines()[0], "source": source}


class CompiledByTorch(Compiled):
    """The graphs of a module or a function that ``torch.compile`` compiled with this backend."""

    def __init__(self, noted: list[Noted]):
        self.noted = noted

    def executables(self) -> list[Any]:
        graphs = [graph for one in self.noted if (graph := one.graph()) is not None]
        return [executable for graph in graphs for executable in graph.executables()]

    def report_values(self) -> dict[str, Any]:
        graphs = [one.graph() for one in self.noted]
        rows = [graph.report_values() for graph in graphs]
        whole = summed(rows, 0, sum(graph.calls for graph in graphs))
        first = next((row for row in rows if row["clusters"]), nothing())
        return {
            **{key: value for key, value in first.items() if key not in ("layers", "lines")},
            **whole,
            **{name: first[name] for name in _OF_THE_FIRST},
            "captured_by": "dynamo",
            "signatures": len(self.noted),
            "variants": 0,
            "graphs": [
                {
                    "id": one.compile_id,
                    "operations": row["operations"],
                    "kernels": row["kernels"],
                    "layers": row.get("layers", {}),
                    "lines": row.get("lines", {}),
                    "clusters": row["clusters"],
                    **({"saved_bytes": row["saved_bytes"]} if "saved_bytes" in row else {}),
                    "coverage": row["coverage"],
                    "calls": graph.calls,
                }
                for one, graph, row in zip(self.noted, graphs, rows, strict=True)
            ],
            "graph_breaks": [one.graph_break for one in self.noted if one.graph_break is not None],
            "recompiles": [
                {"id": one.compile_id, "reason": one.recompiled}
                for one in self.noted
                if one.recompiled is not None
            ],
            "fallbacks": [row for graph in graphs for row in graph.fallbacks()],
        }

    def contains(self, code: Any) -> bool:
        return any(one.graph() is code for one in self.noted)


#: Keys whose values are those of the graph that was compiled first.
_OF_THE_FIRST = ("dims", "facts", "fixed", "asked_at", "cache")


def find(compiled) -> CompiledByTorch | None:
    """The graphs of what ``torch.compile`` returned, or of a module after ``compile()``."""
    original = getattr(compiled, "_orig_mod", None)
    if original is None:
        original = _compiled_object(getattr(compiled, "_torchdynamo_orig_callable", compiled))
    noted = _noted.get(id(original), ())
    is_compiled = original is not compiled or getattr(compiled, "_compiled_call_impl", None) is not None
    if not noted and is_compiled and isinstance(original, torch.nn.Module):
        # Modules of one class share graphs, which are noted for the one that was called first.
        noted = [one for several in list(_noted.values()) for one in several if one.kind is type(original)]
    living = [one for one in noted if one.graph() is not None]
    return CompiledByTorch(living) if living else None


report.FINDERS.append(find)
