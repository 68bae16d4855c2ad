"""Runs small models of transformers through ``disc.optimize``, each at twenty shapes, beside eager.

``python tests/architectures.py [--only PATTERN] [--out FILE] [--page docs/models.md]`` prints a
line of JSON for each model. A model runs in a process of its own, under a time limit. Its calls
come twice: the second time all variants are there. ``--page`` writes the table from ``--from``
files too.
"""

from __future__ import annotations

import argparse
import copy
import fnmatch
import json
import os
import sys
import time

os.environ.setdefault("DISC_CACHE", "0")

import apart
import architecture_models
import disc
import model_check
import torch
from torch.utils import _pytree as pytree

TOLERANCE = 1e-4
#: Kinds of outcome, the best first.
KINDS = ("whole", "variants", "parts", "eager", "wrong", "error")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="*", help="names of models, as patterns with a | between")
    parser.add_argument("--limit", type=float, default=300, help="CPU seconds for a model")
    parser.add_argument("--out", help="a file that the lines are added to")
    parser.add_argument("--page", help="writes the table of the page of models")
    parser.add_argument("--from", dest="old", help="takes the lines of a file, and runs nothing")
    chosen = parser.parse_args()
    if chosen.old is not None:
        with open(chosen.old) as lines:
            rows = list({row["model"]: row for row in map(json.loads, lines)}.values())
    else:
        rows = [_noted(_apart(name, chosen.limit), chosen.out) for name in _named(chosen.only)]
    if chosen.page is not None:
        with open(chosen.page, "w") as page:
            page.write(_page(rows))
    print(_summary(rows), file=sys.stderr)
    return any(row["kind"] in ("wrong", "error") for row in rows)


def _noted(row: dict, path: str | None) -> dict:
    """Prints a row, and adds it to a file."""
    line = json.dumps(row)
    print(line, flush=True)
    if path is not None:
        with open(path, "a") as out:
            out.write(line + "\n")
    return row


def _named(pattern: str) -> list[str]:
    named = architecture_models.MODELS
    return list(dict.fromkeys(n for p in pattern.split("|") for n in named if fnmatch.fnmatch(n, p)))


def _apart(name: str, limit: float) -> dict:
    """Runs a model in a process that is ended after ``limit`` seconds of CPU time."""
    architecture = architecture_models.MODELS[name]
    return {"model": name, "family": architecture.kind, **apart.run(lambda: tried(architecture), limit)}


def tried(architecture: architecture_models.Architecture) -> dict:
    """A row of the table: what became of the calls of a model."""
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
            before, start = _eager_calls(fast), time.process_time()
            fault = _compared(fast, eager, call)
            longest = max(longest, time.process_time() - start)
            fast._dispatcher.variants.wait()
            served += _eager_calls(fast) == before
            if fault is not None:
                faults.append((i, *fault))
        rounds.append(served)
    return _row(disc.report(fast).to_dict(), rounds, len(calls), faults, longest)


def _compared(fast, eager, call: dict) -> tuple[str, str] | None:
    """The kind and the text of a difference between a compiled call and an eager one."""
    torch.manual_seed(1)
    with torch.no_grad():
        try:
            expected, refusal = eager(**call), None
        except Exception as error:
            expected, refusal = None, error
        torch.manual_seed(1)
        try:
            result = fast(**call)
        except Exception as error:
            return None if refusal is not None else ("error", f"{type(error).__name__}: {error}")
    if refusal is not None:
        return "wrong", f"eager raises {type(refusal).__name__}: {refusal}"
    ours, form = pytree.tree_flatten(result)
    theirs, wanted = pytree.tree_flatten(expected)
    if form != wanted:
        return "wrong", f"the structure is {form}, not {wanted}"
    for i, (a, e) in enumerate(zip(ours, theirs, strict=True)):
        if not isinstance(e, torch.Tensor):
            if a != e:
                return "wrong", f"output {i} is {a}, not {e}"
        elif (a.shape, a.dtype) != (e.shape, e.dtype):
            return "wrong", f"output {i} is {a.dtype} {list(a.shape)}, not {e.dtype} {list(e.shape)}"
        elif not torch.equal(a.isfinite(), e.isfinite()):
            return "wrong", f"output {i} is not finite at other places"
        elif (difference := model_check.error(a, e)) > TOLERANCE:
            return "wrong", f"output {i} differs by {difference:.1e}"
    return None


def _eager_calls(fast) -> int:
    """Calls, of the module or of a part of it, that torch served so far."""
    rows = disc.report(fast).to_dict()["fallbacks"]
    return sum(row["calls"] for row in rows if row["op"] in ("call", "module"))


def _row(report: dict, rounds: list[int], count: int, faults: list, longest: float) -> dict:
    fallbacks = report["fallbacks"]
    row = {
        "captured_by": report["captured_by"],
        "coverage": report["coverage"],
        "served": rounds[0],
        "served_again": rounds[1],
        "of": count,
        "signatures": report["signatures"],
        "variants": report["variants"],
        "clusters": report["clusters"],
        "compiles": report["compiles"],
        "longest_cpu_s": round(longest, 1),
        "fallbacks": [f"{r['op']}: {r['reason'].splitlines()[0][:160]} x{r['calls']}" for r in fallbacks],
        "faults": [f"call {i}: {kind}: {text.splitlines()[0][:200]}" for i, kind, text in faults],
    }
    kinds = {kind for _, kind, _ in faults}
    is_whole = report["coverage"] == 1.0 and report["captured_by"] in ("disc", "export")
    if kinds:
        row["kind"] = "wrong" if "wrong" in kinds else "error"
    elif rounds[1] < count:
        row["kind"] = "eager"
    elif report["captured_by"] == "dynamo" or not is_whole:
        row["kind"] = "parts"
    else:
        row["kind"] = "variants" if rounds[0] < count or report["variants"] else "whole"
    return row


def _summary(rows: list[dict]) -> str:
    counts = {kind: sum(row["kind"] == kind for row in rows) for kind in KINDS}
    share = sum(row.get("coverage", 0.0) for row in rows) / max(len(rows), 1)
    served = sum(row.get("served_again", 0) == row.get("of") for row in rows)
    calls = sum(row.get("served_again", 0) for row in rows)
    return (
        f"{len(rows)} models: {', '.join(f'{n} {kind}' for kind, n in counts.items())}; mean share {share:.3f}; "
        f"{served} served at every shape, {calls} of {sum(row.get('of', 20) for row in rows)} calls"
    )


def _page(rows: list[dict]) -> str:
    lines = [
        "# Models",
        "",
        "Small models of transformers with random weights, each called at twenty shapes (`tests/architectures.py`",
        "generates this page). All results are those of eager. *Share* is that of operations compiled; *shapes* counts",
        "those that compiled code serves once variants are there.",
        "",
        _summary(rows) + ".",
        "",
        "| model | kind | outcome | captured by | share | shapes | note |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        shapes = f"{row.get('served_again', 0)} of {row.get('of', 20)}"
        note = row.get("note") or next(iter(row.get("faults") or row.get("fallbacks") or [""]))
        cells = (row["model"], row["family"], row["kind"], row.get("captured_by", "none"))
        note = note.replace("|", "\\|")[:100]
        lines.append(f"| {' | '.join(cells)} | {row.get('coverage', 0.0):.2f} | {shapes} | {note} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
