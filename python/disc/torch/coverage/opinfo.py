"""Writes the section of docs/coverage-torch.md about torch's OpInfo samples, from the results that
``tests/opinfo.py --save`` keeps.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

#: In the repository; an installed package has no such file.
RESULTS = Path(__file__).parents[4] / "tests" / "opinfo_results.json"
_STATES = ("compiled", "parts", "torch", "wrong", "crash", "error")


def section() -> list[str]:
    """The lines of the section; none without results."""
    if not RESULTS.exists():
        return []
    made = json.loads(RESULTS.read_text(encoding="utf-8"))
    results, common, every = made["results"], set(made["common"]), made["ops"]
    lines = [
        "",
        "## OpInfo",
        "",
        f"Samples of the OpInfo database of torch {made['torch']} through `disc.optimize`, compared with eager mode by",
        "`tests/opinfo.py`: structure, shapes, types, numbers, signs of zeros. In parts: torch runs some ops of a sample",
        "between compiled clusters. Of each op and type there are a few samples, evenly spaced; a row says how many ops of",
        "the type the last run has reached. Samples that torch refuses are left out. Common ops: those of core ATen by",
        "name, and of `torch.nn.functional`, that draw no random numbers.",
        "",
        "| type | ops | samples | compiled | in parts | torch | wrong | crash or error | compiled |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for dtype, ops in results.items():
        lines.append(_row(dtype, ops, every[dtype]))
        if dtype == "f32":
            some = {op: row for op, row in ops.items() if op in common}
            lines.append(_row("f32, common ops", some, len(common)))
    lines += [
        "",
        "### Ops that are not compiled whole in every sample",
        "",
        "The number of samples compiled, of all, and the first reason.",
        "",
        "| op | compiled | reason |",
        "|---|---|---|",
    ]
    return lines + _left(results)


def _row(title: str, ops: dict, every: int) -> str:
    count = Counter()
    for row in ops.values():
        count.update({state: row.get(state, 0) for state in _STATES})
    total = sum(count.values())
    figures = [
        f"{len(ops)} of {every}",
        total,
        *(count[s] for s in _STATES[:4]),
        count["crash"] + count["error"],
    ]
    share = f"{100 * count['compiled'] / max(total, 1):.1f}%"
    return f"| {title} | {' | '.join(map(str, figures))} | {share} |"


def _left(results: dict) -> list[str]:
    """A row for each op: types with the same reason share it."""
    names = sorted({op for ops in results.values() for op in ops})
    lines = []
    for op in names:
        by_reason: dict[str, list[str]] = {}
        for dtype, ops in results.items():
            row = ops.get(op, {})
            if not row.get("reasons"):
                continue
            total = sum(row.get(state, 0) for state in _STATES)
            figures = f"{row.get('compiled', 0)} of {total} {dtype}"
            by_reason.setdefault(_cell(row["reasons"][0]), []).append(figures)
        lines += [f"| `{op}` | {', '.join(held)} | {reason} |" for reason, held in by_reason.items()]
    return lines


def _cell(reason: str) -> str:
    """A reason in one line of a table."""
    return " ".join(reason.split()).replace("|", "\\|")
