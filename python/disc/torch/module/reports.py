"""Makes the report of a compiled module, and the text that ``repr`` shows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.report import nothing, of_served
from .entry import CompiledEntry, EagerEntry, Entry, GraphEntry

if TYPE_CHECKING:
    from .dispatcher import Dispatcher


def values(dispatcher: Dispatcher) -> dict[str, Any]:
    """The values of the report of a module: those of the form that was compiled first, with sums
    over all forms where a sum is asked for.
    """
    forms = dispatcher.forms.held
    entries = [*dispatcher.entries(), *dispatcher.overflow()]
    compiled = [e for e in entries if not isinstance(e, EagerEntry)]
    rows = [entry.report_values() for entry in compiled]
    report = dict(rows[0]) if rows else nothing()
    retired = [row for form in forms for row in form.retired]
    for name in ("compiles", "cache_hits", "calls"):
        report[name] = sum(row[name] for row in (*rows, *retired))
    report["signatures"] = len(forms)
    report["variants"] = sum(len(form.entries) - 1 for form in forms)
    report["captured_by"] = entries[0].captured_by if entries else "none"
    report["graph_breaks"] = [place for entry in entries for place in getattr(entry, "graph_breaks", ())]
    report["fallbacks"] = [row for entry in entries for row in entry.fallbacks()]
    for form in forms:
        report["fallbacks"] += form.refusals.rows()
    report["fallbacks"] += dispatcher.left.rows()
    if any(isinstance(entry, EagerEntry) for entry in entries):
        parts = [row["coverage"] * row["operations"] for row in rows]
        whole = sum(row["operations"] for row in rows) * len(entries) / max(len(rows), 1)
        report["coverage"] = round(sum(parts) / whole, 4) if whole else 0.0
    refused = sum(form.refusals.calls() for form in forms) + dispatcher.left.calls()
    report["coverage"] = of_served(report["coverage"], report["calls"], refused)
    if dispatcher.verification is not None:
        report["verified"] = dispatcher.verification.to_dict()
    return report


def tree(dispatcher: Dispatcher) -> str:
    """The tree of the original under what was compiled of it."""
    lines = [f"OptimizedModule({line})" for line in map(_entry_line, dispatcher.entries())] or [
        "OptimizedModule(compiled on the first call)"
    ]
    return "\n".join([*lines, repr(dispatcher.original())])


def _entry_line(entry: Entry) -> str:
    if isinstance(entry, EagerEntry):
        return f"run by torch: {entry.error.message.splitlines()[0]}"
    if not isinstance(entry, GraphEntry):
        return f"{len(entry.parts)} parts between {len(entry.graph_breaks)} graph breaks of dynamo"
    signature = entry.call.signature
    inputs = ", ".join(f"{name}: [{', '.join(row)}]" for name, row in signature.rows().items())
    if isinstance(entry, CompiledEntry):
        return f"compiled whole, {inputs}"
    values = entry.report_values()
    return f"{values['coverage']:.0%} of the ops in {values['clusters']} clusters, {inputs}"
