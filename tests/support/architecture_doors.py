"""The entry points to compile a model that ``tests/support/architectures.py`` tries.

Each entry point takes an architecture and gives a row of the table: what became of the calls.
"""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import disc
import model_check
import torch
from architecture_models import Architecture
from torch.utils import _pytree as pytree

TOLERANCE = 1e-4
#: The kind and the text of a difference from eager mode.
Fault = tuple[str, str]


@dataclass
class Outcome:
    """A call's result, or its error."""

    result: object = None
    error: Exception | None = None


def outcome(module, call: dict) -> Outcome:
    """Calls a module with the random numbers of any other call."""
    torch.manual_seed(1)
    with torch.no_grad():
        try:
            return Outcome(module(**call))
        except Exception as error:
            return Outcome(error=error)


def difference(ours: Outcome, eager: Outcome) -> Fault | None:
    """The difference of a compiled call from an eager one."""
    if eager.error is not None:
        same = ours.error is not None
        return None if same else ("wrong", f"eager raises {type(eager.error).__name__}: {eager.error}")
    if ours.error is not None:
        return "error", f"{type(ours.error).__name__}: {ours.error}"
    results, form = pytree.tree_flatten(ours.result)
    expected, wanted = pytree.tree_flatten(eager.result)
    if form != wanted:
        return "wrong", f"the structure is {form}, not {wanted}"
    for i, (a, e) in enumerate(zip(results, expected, strict=True)):
        if (text := _difference_of_outputs(a, e)) is not None:
            return "wrong", f"output {i} {text}"
    return None


def _difference_of_outputs(a, e) -> str | None:
    if not isinstance(e, torch.Tensor):
        return f"is {a}, not {e}" if a != e else None
    if (a.shape, a.dtype) != (e.shape, e.dtype):
        return f"is {a.dtype} {list(a.shape)}, not {e.dtype} {list(e.shape)}"
    if not torch.equal(a.isfinite(), e.isfinite()):
        return "is not finite at other places"
    differs = model_check.error(a, e)
    return f"differs by {differs:.1e}" if differs > TOLERANCE else None


def _row(report: dict, faults: list[tuple[int, Fault]], longest: float) -> dict:
    """The columns of all entry points; only faults decide about the kind here."""
    kinds = {kind for _, (kind, _) in faults}
    return {
        "kind": "wrong" if "wrong" in kinds else "error" if kinds else "whole",
        "captured_by": report["captured_by"],
        "coverage": report["coverage"],
        "longest_cpu_s": round(longest, 1),
        "fallbacks": [
            f"{r['op']}: {r['reason'].splitlines()[0][:160]} x{r['calls']}" for r in report["fallbacks"]
        ],
        "faults": [f"call {i}: {kind}: {text.splitlines()[0][:200]}" for i, (kind, text) in faults],
    }


# disc.optimize.


def by_optimize(architecture: Architecture) -> dict:
    """Compiles a model once; its calls come twice, the second time all variants are there."""
    module = architecture.build()
    calls = architecture.calls()
    eager = copy.deepcopy(module)
    start = time.process_time()
    fast = disc.optimize(module, kwargs=calls[0] if architecture.has_example else None)
    longest = time.process_time() - start
    rounds, faults = [], []
    for _ in range(2):
        served = 0
        for i, call in enumerate(calls):
            expected = outcome(eager, call)
            before, start = _eager_calls(fast), time.process_time()
            fault = difference(outcome(fast, call), expected)
            longest = max(longest, time.process_time() - start)
            fast._dispatcher.variants.wait()
            served += _eager_calls(fast) == before
            if fault is not None:
                faults.append((i, fault))
        rounds.append(served)
    return _row_of_optimize(disc.report(fast).to_dict(), rounds, len(calls), faults, longest)


def _eager_calls(fast) -> int:
    """Calls, of the module or of a part of it, that torch served so far."""
    rows = disc.report(fast).to_dict()["fallbacks"]
    return sum(row["calls"] for row in rows if row["op"] in ("call", "module"))


def _row_of_optimize(report: dict, rounds: list[int], count: int, faults: list, longest: float) -> dict:
    row = _row(report, faults, longest) | {
        "served": rounds[0],
        "served_again": rounds[1],
        "of": count,
        "signatures": report["signatures"],
        "variants": report["variants"],
        "clusters": report["clusters"],
        "compiles": report["compiles"],
    }
    is_whole = report["coverage"] == 1.0 and report["captured_by"] in ("disc", "export")
    if faults:
        return row
    if rounds[1] < count:
        row["kind"] = "eager"
    elif report["captured_by"] == "dynamo" or not is_whole:
        row["kind"] = "parts"
    elif rounds[0] < count or report["variants"]:
        row["kind"] = "variants"
    return row


# torch.compile.


class Plain:
    """A backend that compiles nothing: it counts the graphs that dynamo makes, and their calls."""

    def __init__(self):
        self.graphs = self.calls = 0

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list) -> Callable:
        self.graphs += 1

        def run(*args):
            self.calls += 1
            return gm.forward(*args)

        return run


def alike(calls: list[dict]) -> list[dict]:
    """The calls with a mask in each, if one has a mask, and with no size of 1: those are 2.

    Dynamo makes a graph for each set of arguments, and for each size that may be 1.
    """
    are_masked = any("attention_mask" in call for call in calls)
    masks = [{"attention_mask": torch.ones_like(call["input_ids"])} if are_masked else {} for call in calls]
    return [
        {name: _widened(value) for name, value in {**mask, **call}.items()}
        for mask, call in zip(masks, calls, strict=True)
    ]


def _widened(x):
    return x.repeat([2 if size == 1 else 1 for size in x.shape]) if isinstance(x, torch.Tensor) else x


def by_compile(
    architecture: Architecture,
    dynamic: bool | None = True,
    as_they_are: bool = False,
    outcome: Callable[[torch.nn.Module, dict], Outcome] = outcome,
) -> dict:
    """Compiles a model as dynamo asks, beside dynamo with a backend that compiles nothing.

    A call that differs from eager mode as it does with that backend is dynamo's affair. The
    calls are made ``alike``, so that most models are one graph, unless they come ``as_they_are``.
    """
    module = architecture.build()
    calls = architecture.calls() if as_they_are else alike(architecture.calls())
    eager, apart = copy.deepcopy(module), copy.deepcopy(module)
    expected = [outcome(eager, call) for call in calls]
    plain = Plain()
    alone = torch.compile(apart, backend=plain, dynamic=dynamic)
    by_dynamo, graph_calls = [], []
    for call in calls:
        before = plain.calls
        by_dynamo.append(outcome(alone, call))
        graph_calls.append(plain.calls - before)
    torch._dynamo.reset()
    fast = torch.compile(module, backend="disc", dynamic=dynamic, options={"progress": False})
    served, longest, faults, dynamos, report = 0, 0.0, [], 0, None
    for i, call in enumerate(calls):
        before, start = _graph_calls(report), time.process_time()
        ours = outcome(fast, call)
        longest = max(longest, time.process_time() - start)
        report = disc.report(fast).to_dict()
        served += _graph_calls(report) - before == graph_calls[i]
        fault = difference(ours, expected[i])
        if fault is not None and difference(ours, by_dynamo[i]) is None:
            dynamos += 1
        elif fault is not None:
            faults.append((i, fault))
    counts = {"served": served, "of": len(calls), "by_dynamo": dynamos}
    counts |= {"graphs": len(report["graphs"]), "graphs_of_dynamo": plain.graphs}
    counts["calls_without_graph"] = graph_calls.count(0)
    return _row_of_compile(report, counts, faults, longest)


def _graph_calls(report: dict | None) -> int:
    """Calls of graphs that compiled code served so far."""
    if report is None:
        return 0
    refused = sum(row["calls"] for row in report["fallbacks"] if row["op"] == "call")
    return sum(graph["calls"] for graph in report["graphs"] if _is_served(graph)) - refused


def _is_served(graph: dict) -> bool:
    """Returns true if a graph is compiled, or has nothing to compile."""
    return graph["coverage"] > 0 or not graph["operations"]


def _row_of_compile(report: dict, counts: dict, faults: list, longest: float) -> dict:
    row = _row(report, faults, longest) | counts
    row["compiled_graphs"] = sum(_is_served(graph) for graph in report["graphs"])
    if faults:
        return row
    if row["graphs"] > row["graphs_of_dynamo"]:
        row["kind"] = "graphs"
    elif row["served"] < row["of"]:
        row["kind"] = "eager"
    elif any(graph["coverage"] < 1 and graph["operations"] for graph in report["graphs"]):
        row["kind"] = "parts"
    return row


# Training.


def step(module: torch.nn.Module, call: dict) -> Outcome:
    """Calls a module and differentiates a weighted sum of its results: the results, the names of
    the parameters that have gradients, and all gradients in a row.
    """
    torch.manual_seed(1)
    module.zero_grad()
    try:
        result = module(**call)
        _loss(result).backward()
    except Exception as error:
        return Outcome(error=error)
    gradients = {
        name.removeprefix("_orig_mod."): weight.grad.flatten()
        for name, weight in module.named_parameters()
        if weight.grad is not None
    }
    # A gradient that is zero but for rounding is compared beside the greatest one.
    return Outcome((pytree.tree_map(_detached, result), list(gradients), torch.cat(list(gradients.values()))))


def _loss(result) -> torch.Tensor:
    floating = [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor) and x.requires_grad]
    parts = [(x.flatten() * torch.linspace(-1, 1, x.numel())).sum() / x.numel() ** 0.5 for x in floating]
    return torch.stack(parts).sum()


def _detached(x):
    return x.detach() if isinstance(x, torch.Tensor) else x


@dataclass(frozen=True)
class Door:
    """A way to compile a model, and what its page says."""

    #: A row of the table for an architecture.
    tried: Callable[[Architecture], dict]
    title: str
    about: tuple[str, ...]
    #: Names of columns, and the cells of a row.
    columns: tuple[str, ...]
    cells: Callable[[dict], tuple[object, ...]]
    #: The calls that compiled code served.
    served: str


def _cells_of_optimize(row: dict) -> tuple[object, ...]:
    return row.get("captured_by", "none"), f"{row.get('served_again', 0)} of {row.get('of', 20)}"


def _cells_of_compile(row: dict) -> tuple[object, ...]:
    graphs = f"{row.get('graphs', 0)} ({row.get('graphs_of_dynamo', 0)})"
    return graphs, f"{row.get('served', 0)} of {row.get('of', 20)}"


_OPTIMIZE = Door(
    by_optimize,
    "Models",
    ("*Shapes* counts those that compiled code serves once variants are there.",),
    ("captured by", "shapes"),
    _cells_of_optimize,
    "served_again",
)
_COMPILE = Door(
    by_compile,
    "Models through torch.compile",
    (
        'The models are called through `torch.compile(model, backend="disc", dynamic=True)`. *Graphs* are those',
        "that disc was given, and in parentheses those that dynamo makes with a backend that compiles nothing.",
        "*Shapes* counts the calls of which compiled code serves each graph. No size is 1, and texts have a",
        "mask in each call: for other calls dynamo makes graphs of their own.",
    ),
    ("graphs", "shapes"),
    _cells_of_compile,
    "served",
)
DOORS = {
    "optimize": _OPTIMIZE,
    "compile": _COMPILE,
    "compile-all": replace(
        _COMPILE,
        tried=functools.partial(by_compile, as_they_are=True),
        about=(*_COMPILE.about[:-2], "*Shapes* counts the calls of which compiled code serves each graph."),
    ),
    # Dynamo decides which sizes are open.
    "compile-automatic": replace(
        _COMPILE,
        tried=functools.partial(by_compile, dynamic=None),
        about=('The models are called through `torch.compile(model, backend="disc")`.',),
    ),
    "train": replace(
        _COMPILE,
        tried=functools.partial(by_compile, outcome=step),
        title="Training through torch.compile",
        about=(
            *_COMPILE.about,
            "Each call is followed by a backward pass; all gradients are compared, beside the greatest one.",
        ),
    ),
}
