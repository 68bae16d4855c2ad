"""Runs small models of transformers through disc, each at twenty shapes, beside eager.

``python tests/support/architectures.py [--door compile] [--only PATTERN] [--out FILE] [--page F]``
prints a line of JSON for each model. A model runs in a process of its own, under a time limit.
``--page`` writes the table from ``--from`` files too. The entry points are in
architecture_doors.py.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys

os.environ.setdefault("DISC_CACHE", "0")

import apart
import architecture_models
from architecture_doors import DOORS, Door

#: Kinds of outcome, the best first; "graphs" are more graphs than dynamo makes by itself.
KINDS = ("whole", "variants", "parts", "eager", "graphs", "wrong", "error")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--door", default="optimize", choices=DOORS, help="the way to compile a model")
    parser.add_argument("--only", default="*", help="names of models, as patterns with a | between")
    parser.add_argument("--limit", type=float, default=300, help="CPU seconds for a model")
    parser.add_argument("--out", help="a file that the lines are added to")
    parser.add_argument("--resume", action="store_true", help="leaves out the models that --out has already")
    parser.add_argument("--page", help="writes the table of the page of models")
    parser.add_argument("--from", dest="old", help="takes the lines of a file, and runs nothing")
    chosen = parser.parse_args()
    door = DOORS[chosen.door]
    if chosen.old is not None:
        rows = _read(chosen.old)
    else:
        rows = _read(chosen.out) if chosen.resume else []
        names = [name for name in _named(chosen.only) if name not in {row["model"] for row in rows}]
        rows += [apart.noted(_apart(name, door, chosen.limit), chosen.out) for name in names]
    if chosen.page is not None:
        with open(chosen.page, "w") as page:
            page.write(_page(rows, door))
    print(_summary(rows, door), file=sys.stderr)
    return any(row["kind"] in ("wrong", "error") for row in rows)


def _read(path: str) -> list[dict]:
    """The rows of a file, the last one of each model."""
    with open(path) as lines:
        return list({row["model"]: row for row in map(json.loads, lines)}.values())


def _named(pattern: str) -> list[str]:
    named = architecture_models.MODELS
    return list(dict.fromkeys(n for p in pattern.split("|") for n in named if fnmatch.fnmatch(n, p)))


def _apart(name: str, door: Door, limit: float) -> dict:
    """Runs a model in a process that is ended after ``limit`` seconds of CPU time."""
    architecture = architecture_models.MODELS[name]
    row = apart.run(lambda: door.tried(architecture), limit)
    return {"model": name, "family": architecture.kind, **row}


def _summary(rows: list[dict], door: Door) -> str:
    counts = {kind: sum(row["kind"] == kind for row in rows) for kind in KINDS}
    share = sum(row.get("coverage", 0.0) for row in rows) / max(len(rows), 1)
    served = sum(row.get(door.served, 0) == row.get("of") for row in rows)
    calls = sum(row.get(door.served, 0) for row in rows)
    more = sum(row.get("graphs", 0) > row.get("graphs_of_dynamo", 0) for row in rows)
    return (
        f"{len(rows)} models: {', '.join(f'{n} {kind}' for kind, n in counts.items() if n)}; "
        f"mean share {share:.3f}; {served} served at every shape, "
        f"{calls} of {sum(row.get('of', 20) for row in rows)} calls; {more} with more graphs than dynamo makes"
    )


def _page(rows: list[dict], door: Door) -> str:
    left = [name for name in architecture_models.MODELS if name not in {row["model"] for row in rows}]
    columns = ("model", "kind", "outcome", "share", *door.columns, "note")
    lines = [
        f"# {door.title}",
        "",
        "Small models of transformers with random weights, each called at twenty shapes (`tests/support/architectures.py`",
        "generates this page). Results are compared with those of eager: *wrong* and *error* are outcomes. *Share* is",
        "that of operations compiled.",
        *door.about,
        "",
        _summary(rows, door) + ".",
        f"Not in the table, as they were not run to their end: {', '.join(left) or 'none'}.",
        "",
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
    ]
    for row in rows:
        note = row.get("note") or next(iter(row.get("faults") or row.get("fallbacks") or [""]))
        share = f"{row.get('coverage', 0.0):.2f}"
        note = note.replace("|", "\\|")[:100]
        cells = (row["model"], row["family"], row["kind"], share, *door.cells(row), note)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
