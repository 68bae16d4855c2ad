"""Makes the report of a compiled module, and the text that ``repr`` shows of it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from ...core import extension
from .by_dynamo import DynamoEntry
from .entry import CompiledEntry, EagerEntry, Entry

if TYPE_CHECKING:
    from .dispatcher import Dispatcher

#: The report of a module of which nothing is compiled.
_NOTHING: dict[str, Any] = {
    "compiles": 0, "cache_hits": 0, "specializations": 0, "clusters": 0, "coverage": 0.0, "kernels": 0,
    "kernels_by_kind": {}, "versions": 0, "stages_ms": {"total": 0.0}, "dims": {}, "facts": [], "fixed": [],
    "asked_at": {}, "operations": 0, "weight_bytes": 0, "prepared_weight_bytes": 0, "held_weight_bytes": 0,
    "unreleased_weight_bytes": 0, "peak_arena_bytes": 0, "calls": 0, "target": None,
}  # fmt: skip


def values(dispatcher: Dispatcher) -> dict[str, Any]:
    """The values of the report of a module: those of the form that was compiled first, with sums
    over all forms where a sum is asked for.
    """
    forms = dispatcher.forms.held
    entries = dispatcher.entries()
    compiled = [e for e in entries if not isinstance(e, EagerEntry)]
    rows = [entry.report_values() for entry in compiled]
    report = dict(rows[0]) if rows else nothing()
    for name in ("compiles", "cache_hits", "calls"):
        report[name] = sum(row[name] for row in rows)
    report["signatures"] = len(forms)
    report["variants"] = sum(len(form.entries) - 1 for form in forms)
    report["captured_by"] = entries[0].captured_by if entries else "none"
    report["graph_breaks"] = [place for entry in entries for place in getattr(entry, "graph_breaks", ())]
    report["fallbacks"] = [row for entry in entries for row in entry.fallbacks()]
    for form in forms:
        report["fallbacks"] += [
            {"op": "call", "reason": reason, "source": None, "calls": calls}
            for reason, calls in form.eager.items()
        ]
    if any(isinstance(entry, EagerEntry) for entry in entries):
        parts = [row["coverage"] * row["operations"] for row in rows]
        whole = sum(row["operations"] for row in rows) * len(entries) / max(len(rows), 1)
        report["coverage"] = round(sum(parts) / whole, 4) if whole else 0.0
    if dispatcher.verification is not None:
        report["verified"] = dispatcher.verification.to_dict()
    return report


def summed(rows: list[dict[str, Any]], breaks: int, calls: int) -> dict[str, Any]:
    """One report of the parts of a module."""
    report = nothing()
    for row in rows:
        for name in _SUMMED:
            report[name] += row[name]
        for name in ("kernels_by_kind", "stages_ms"):
            for key, value in row[name].items():
                report[name][key] = round(report[name].get(key, 0) + value, 3)
        report["target"] = row["target"] or report["target"]
        report["peak_arena_bytes"] = max(report["peak_arena_bytes"], row["peak_arena_bytes"])
    compiled = sum(row["operations"] * row["coverage"] for row in rows)
    total = report["operations"] + breaks
    report["coverage"] = round(compiled / total, 4) if total else 0.0
    report["calls"] = calls
    return report


_SUMMED = (
    "compiles", "cache_hits", "clusters", "operations", "kernels", "versions", "weight_bytes", "prepared_weight_bytes",
    "held_weight_bytes", "unreleased_weight_bytes",
)  # fmt: skip


def nothing() -> dict[str, Any]:
    """The report of a module of which nothing is compiled."""
    made = copy.deepcopy(_NOTHING)
    cache = {"capture": "off", "code": "off", "weights": "off", "counts": extension.cache_counts()}
    return {**made, "cache": cache}


def tree(dispatcher: Dispatcher) -> str:
    """The tree of the original under what was compiled of it."""
    lines = [f"OptimizedModule({line})" for line in map(_entry_line, dispatcher.entries())] or [
        "OptimizedModule(compiled on the first call)"
    ]
    return "\n".join([*lines, repr(dispatcher.original())])


def _entry_line(entry: Entry) -> str:
    if isinstance(entry, EagerEntry):
        return f"run by torch: {entry.error.message.splitlines()[0]}"
    if isinstance(entry, DynamoEntry):
        return f"{len(entry.parts)} parts between {len(entry.graph_breaks)} graph breaks of dynamo"
    signature = entry.call.signature
    inputs = ", ".join(
        f"{name}: [{', '.join(row)}]" for name, row in zip(signature.names, signature.dims, strict=True)
    )
    if isinstance(entry, CompiledEntry):
        return f"compiled whole, {inputs}"
    values = entry.report_values()
    return f"{values['coverage']:.0%} of the ops in {values['clusters']} clusters, {inputs}"
