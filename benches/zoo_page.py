"""Writes the page of the models that ``benches/zoo.py`` ran, from their rows."""

from __future__ import annotations

import statistics

import disc
from record import Record
from zoo_models import MODELS

#: Kinds of outcome, the best first, and the words of the page.
KINDS = {
    "whole": "compiled whole, for any size that was tried",
    "variants": "compiled whole, and once more for some of the sizes",
    "sizes": "compiled whole; torch served some of the sizes in the third round of calls",
    "parts": "disc compiles parts, torch runs the rest",
    "eager": "torch runs the model",
    "wrong": "**a result differs from eager's**",
    "error": "**a call fails, or the process dies or takes too long**",
}
COLUMNS = (
    "model", "library", "outcome", "captured by", "share", "largest error", "first result", "speed", "what torch runs, and faults"
)  # fmt: skip
NOTE = 150
PACKAGES = ("torch", "transformers", "timm", "torchvision")


def summary(rows: list[dict]) -> str:
    """The counts of the outcomes, and the middle of the ratios."""
    counts = {kind: sum(row["kind"] == kind for row in rows) for kind in KINDS}
    ratios = [row["ratio"] for row in rows if "ratio" in row and row["kind"] not in ("wrong", "error")]
    middle = f"; median speed {statistics.median(ratios):.2f}" if ratios else ""
    return f"{len(rows)} models: {', '.join(f'{n} {kind}' for kind, n in counts.items() if n)}{middle}"


def page(rows: list[dict], record: Record) -> list[str]:
    about = record.machine
    date = f"{record.stamp[:4]}-{record.stamp[4:6]}-{record.stamp[6:8]}"
    versions = ", ".join(f"{name} {about['packages'][name]}" for name in PACKAGES)
    busy = sum(bool(row.get("not_quiet", True)) for row in rows)
    return [
        "# Models",
        "",
        "Small configurations with random weights, each run through `disc.optimize` at three sizes and compared with",
        "eager PyTorch. `make zoo` writes this page, wrong results included.",
        "",
        f"{date}, {about['cpu']} (family {about['family_model'].replace('/', ', model ')}), one thread;",
        f"disc {disc.__version__}, {versions}.",
        f"Record: `benches/records/zoo-{record.stamp}.json`. Other work ran beside {busy} of the models.",
        "",
        f"{summary(rows)}.",
        *_left(rows),
        "",
        "| outcome | meaning |",
        "|---|---|",
        *(f"| {kind} | {meaning} |" for kind, meaning in KINDS.items()),
        "",
        "- *Share*: of the operations, those that disc compiles.",
        "- *Largest error*: the largest difference over the largest magnitude of a result. Above 1e-4 a result is",
        "  wrong, unless it is about as near to a computation in f64 as eager's.",
        "- *First result*: processor seconds from `disc.optimize` to the first result, without a cache.",
        "- *Speed*: processor time of eager over that of disc, the least of several turns at each size, summed over",
        "  the sizes (above 1: disc is faster). In models this small the cost of a call counts for much:",
        "  [performance/cpu.md](performance/cpu.md) has models of the usual size.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---|' * 4}{'---:|' * 4}---|",
        *map(_line, rows),
    ]


def _left(rows: list[dict]) -> list[str]:
    """The sentence about models that were not run."""
    left = [name for name in MODELS if name not in {row["model"] for row in rows}]
    return [f"Not run: {', '.join(left)}."] if left else []


def _line(row: dict) -> str:
    cells = (
        row["model"],
        row["library"],
        row["kind"],
        row.get("captured_by", ""),
        f"{row['coverage']:.2f}" if "coverage" in row else "",
        f"{row['error']:.0e}" if "error" in row else "",
        f"{row['first_cpu_s']:.1f} s" if "first_cpu_s" in row else "",
        f"{row['ratio']:.2f}" if "ratio" in row else "",
        note(row).replace("|", "\\|"),
    )
    return f"| {' | '.join(cells)} |"


def note(row: dict) -> str:
    """The faults of a row, else the ops that torch runs and why; the first two."""
    if "note" in row:
        return _short(row["note"])
    if row["faults"]:
        return _short("; ".join(f"call {f['call']}: {f['text']}" for f in row["faults"][:2]))
    reasons = [f"{op}: {reason}" for op, reason, _ in row["fallbacks"]]
    served = (
        f"torch served {row['of'] - row['served']} of {row['of']} sizes. "
        if row["served"] < row["of"]
        else ""
    )
    more = f" (and {len(reasons) - 2} more)" if len(reasons) > 2 else ""
    return served + _short("; ".join(reasons[:2])) + more


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= NOTE else text[: NOTE - 3] + "..."
