"""Runs many architectures through ``disc.optimize`` at three sizes each, and writes the list of
models that work: docs/models.md, and a record beside those of the benches.

    benches/zoo.py [--only PATTERN] [--limit SECONDS] [--rows FILE] [--partial]

Each model runs in a process of its own under a limit of processor time: one that crashes or takes
too long is a row. Rows are kept in a file as they come, so that an interrupted run goes on; the
page is written when every model has one.
"""

from __future__ import annotations

import argparse
import copy
import fnmatch
import functools
import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("DISC_CACHE", "0")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import apart
import disc
import machine
import model_check
import torch
import zoo_page
from architecture_doors import TOLERANCE, Outcome, difference, outcome
from record import Record
from timing import least_of_processor
from torch.utils import _pytree as pytree
from zoo_models import MODELS, Entry

ROOT = Path(__file__).parent.parent
#: An error may be this many times that of eager itself, where both are compared with f64.
OF_EAGER = 4.0
ROUNDS = 3
#: The second call that breaks a fact starts a variant, and the third turn meets all of them.
TURNS = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", default="*", help="names of models, as patterns with a | between")
    parser.add_argument("--limit", type=float, default=120, help="CPU seconds for a model")
    parser.add_argument("--rows", type=Path, default=ROOT / "target" / "zoo.jsonl", help="the file of rows")
    parser.add_argument("--partial", action="store_true", help="writes a page of the models that were run")
    chosen = parser.parse_args()
    record = Record("make zoo")
    chosen.rows.parent.mkdir(exist_ok=True)
    found = _read(chosen.rows)
    for name in _named(chosen.only):
        if name not in found:
            work = functools.partial(_row, MODELS[name])
            row = {"model": name, "library": MODELS[name].library, "not_quiet": machine.noise()}
            row |= apart.run(work, chosen.limit)
            found[name] = apart.noted(row, str(chosen.rows))
    rows = [found[name] for name in MODELS if name in found]
    if len(rows) == len(MODELS) or chosen.partial:
        lines = zoo_page.page(rows, record)
        record.save("zoo", rows, lines)
        (ROOT / "docs" / "models.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if len(rows) == len(MODELS):
        # The next run is one of its own.
        chosen.rows.unlink()
    print(zoo_page.summary(rows), file=sys.stderr)
    return 0


def _read(path: Path) -> dict[str, dict]:
    """The rows of a file by model, the last one of each."""
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return {row["model"]: row for row in map(json.loads, lines)}


def _named(pattern: str) -> list[str]:
    return list(dict.fromkeys(n for p in pattern.split("|") for n in MODELS if fnmatch.fnmatch(n, p)))


def _row(entry: Entry) -> dict:
    """Compiles a model by its first call, compares calls with eager in turns, and times them."""
    module = stirred(entry.build())
    calls, eager = entry.calls(module), copy.deepcopy(module)
    expected = [outcome(eager, call) for call in calls]
    if (refused := next((e.error for e in expected if e.error is not None), None)) is not None:
        raise refused
    start, wall = time.process_time(), time.perf_counter()
    fast = disc.optimize(module, options=disc.Options(progress=False))
    first = outcome(fast, calls[0])
    row = {"first_cpu_s": time.process_time() - start, "first_s": time.perf_counter() - wall}
    faults, worst, served = [], 0.0, 0
    for turn in range(TURNS):
        for i, (call, wanted) in enumerate(zip(calls, expected, strict=True)):
            before = _by_torch(fast) if turn or i else 0
            ours = first if turn == i == 0 else outcome(fast, call)
            fault = difference(ours, wanted)
            worst = max(worst, _error(ours, wanted))
            if fault is not None and not _is_rounding(ours, wanted, eager, call):
                faults.append({"call": i, "kind": fault[0], "text": " ".join(fault[1].split())[:300]})
            fast._dispatcher.variants.wait()
            served += turn == TURNS - 1 and _by_torch(fast) == before
    row |= {"faults": faults, "error": worst, "served": served, "of": len(calls)}
    row |= _told(disc.report(fast).to_dict())
    row["kind"] = _kind(row)
    if not any(fault["kind"] == "error" for fault in faults):
        row |= _times(eager, fast, calls)
    return row


def _by_torch(fast) -> int:
    """Calls, of the module or of a part of it, that torch served so far."""
    rows = disc.report(fast).to_dict()["fallbacks"]
    return sum(row["calls"] for row in rows if row["op"] in ("call", "module"))


def stirred(module: torch.nn.Module) -> torch.nn.Module:
    """The module with noise in weights that are constant: branches that begin at zero, and norms.

    A residual branch whose last scale is zero would compare nothing.
    """
    torch.manual_seed(0)
    buffers = [(n, b) for n, b in module.named_buffers() if n.endswith(("running_mean", "running_var"))]
    for _, weight in (*module.named_parameters(), *buffers):
        flat = weight.data.flatten()
        if weight.is_floating_point() and len(flat) > 1 and bool((flat == flat[0]).all()):
            weight.data += 0.1 * torch.rand_like(weight)
    return module.eval()


def _error(ours: Outcome, wanted: Outcome) -> float:
    """The largest relative error over the results of a call; 0 if there are none to compare."""
    pairs = zip(pytree.tree_leaves(ours.result), pytree.tree_leaves(wanted.result), strict=False)
    return max((_apart(a, e) for a, e in pairs if _comparable(a, e)), default=0.0)


def _comparable(a, e) -> bool:
    return isinstance(a, torch.Tensor) and isinstance(e, torch.Tensor) and a.shape == e.shape


def _apart(a: torch.Tensor, e: torch.Tensor) -> float:
    return model_check.error(a, e) if torch.equal(a.isfinite(), e.isfinite()) else float("inf")


def _is_rounding(ours: Outcome, wanted: Outcome, eager: torch.nn.Module, call: dict) -> bool:
    """Returns true if the results are about as near to those in f64 as eager's are."""
    double = lambda t: t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t
    exact = outcome(copy.deepcopy(eager).double(), pytree.tree_map(double, call))
    if ours.error is not None or exact.error is not None:
        return False
    results = [pytree.tree_leaves(each.result) for each in (ours, wanted, exact)]
    return len({len(leaves) for leaves in results}) == 1 and all(map(_is_as_near, *results))


def _is_as_near(a, e, x) -> bool:
    """Returns true if ``a`` is as near to ``x`` as ``e`` is, but for a factor."""
    if not isinstance(e, torch.Tensor):
        return a == e
    alike = a.shape == e.shape == x.shape and a.dtype == e.dtype
    return alike and _apart(a, x) <= max(TOLERANCE, OF_EAGER * _apart(e, x))


def _told(report: dict) -> dict:
    """The columns that come from the report."""
    row = {name: report[name] for name in ("captured_by", "coverage", "kernels", "clusters", "variants")}
    reasons = [(f["op"], " ".join(f["reason"].split())[:300], f["calls"]) for f in report["fallbacks"]]
    breaks = [str(b)[:300] for b in report.get("graph_breaks", ())]
    return row | {"fallbacks": reasons, "graph_breaks": breaks}


def _kind(row: dict) -> str:
    kinds = {fault["kind"] for fault in row["faults"]}
    if kinds:
        return "wrong" if "wrong" in kinds else "error"
    if row["captured_by"] == "none" or not row["coverage"]:
        return "eager"
    is_whole = row["coverage"] == 1.0 and row["captured_by"] in ("disc", "export")
    if not is_whole:
        return "parts"
    if row["served"] < row["of"]:
        return "sizes"
    return "variants" if row["variants"] or row["fallbacks"] else "whole"


def _times(eager: torch.nn.Module, fast: torch.nn.Module, calls: list[dict]) -> dict:
    """Processor milliseconds of a call at each size, on one thread, in turns."""
    with torch.no_grad():
        pairs = [
            least_of_processor([functools.partial(m, **call) for m in (eager, fast)], ROUNDS)
            for call in calls
        ]
    ms = [[round(1e3 * seconds, 4) for seconds in pair] for pair in pairs]
    return {"ms": ms, "ratio": sum(e for e, _ in pairs) / sum(d for _, d in pairs)}


if __name__ == "__main__":
    sys.exit(main())
