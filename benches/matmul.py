"""Matmuls of many row counts, compiled once, beside eager PyTorch: interleaved, with one thread and
with two.

`cases()` gives the products to a harness; `main` prints a table of GFLOP/s and ratios (above 1:
disc is faster) and one line of JSON at the end.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

ROWS = (1, 2, 4, 7, 8, 16, 17, 32, 33, 64, 128, 256, 512)
#: Up to so many rows a product is bound by reading its weights, and its bar is another one
#: (docs/performance/matmul.md).
FEW = 32
MATRICES = ((768, 768), (768, 3072), (3072, 768), (256, 1024), (512, 2048))
FORMS = ("linear", "product", "transposed")
# One timing takes about this long, so that reading the clock does not count.
SPAN = 2e-3
# Before each timing the call runs this long: with several threads, those of the other side spin on
# a core for some 10 ms after their last work.
WARM = {1: 1e-3}
WARM_SEVERAL = 30e-3


class Product(torch.nn.Module):
    """A matmul of two inputs; the right one may be stored transposed, as keys of attention do."""

    def __init__(self, transposed: bool):
        super().__init__()
        self.transposed = transposed

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ (y.mT if self.transposed else y)


@dataclass(frozen=True)
class Case:
    """One module with the inputs for each row count."""

    form: str
    depth: int
    columns: int
    module: torch.nn.Module
    sizes: tuple[int, ...] = ROWS
    rows: str = ""

    @property
    def name(self) -> str:
        return f"{self.form} {self.depth}x{self.columns}{self.rows}"

    def inputs(self, rows: int) -> tuple[torch.Tensor, ...]:
        x = torch.randn(rows, self.depth)
        if self.form == "linear":
            return (x,)
        shape = (self.columns, self.depth) if self.form == "transposed" else (self.depth, self.columns)
        return x, torch.randn(shape)

    def flops(self, rows: int) -> int:
        return 2 * rows * self.depth * self.columns


def cases() -> Iterator[Case]:
    """For the harness: products of few rows and of more apart, as `--case rows<=32` and
    `--case rows>32` choose them.
    """
    for case in products():
        few = tuple(rows for rows in ROWS if rows <= FEW)
        yield replace(case, sizes=few, rows=f", rows<={FEW}")
        yield replace(case, sizes=ROWS[len(few) :], rows=f", rows>{FEW}")


def products(forms: tuple[str, ...] = ("linear",)) -> Iterator[Case]:
    """The products: of weights with a bias, or of two inputs."""
    torch.manual_seed(0)
    for form in forms:
        for depth, columns in MATRICES:
            linear = form == "linear"
            module = torch.nn.Linear(depth, columns) if linear else Product(form == "transposed")
            yield Case(form, depth, columns, module.eval())


def interleaved(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    """Median seconds of one run of each call, all made in turns."""
    repeats = []
    for call in calls:
        call()
        start = time.perf_counter()
        call()
        repeats.append(max(1, round(SPAN / (time.perf_counter() - start))))
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, repeat, record in zip(calls, repeats, times, strict=True):
            warm = time.perf_counter() + WARM.get(torch.get_num_threads(), WARM_SEVERAL)
            while time.perf_counter() < warm:
                call()
            start = time.perf_counter()
            for _ in range(repeat):
                call()
            record.append((time.perf_counter() - start) / repeat)
    return [statistics.median(record) for record in times]


def measure(case: Case, threads: int, rows: tuple[int, ...], rounds: int) -> Iterator[dict]:
    import disc

    torch.set_num_threads(threads)
    fast = disc.optimize(case.module, case.inputs(5), options=disc.Options(cache=False))
    for count in rows:
        inputs = case.inputs(count)
        got, expected = fast(*inputs), case.module(*inputs)
        error = ((got - expected).abs().max() / expected.abs().max()).item()
        ours, eager = interleaved([lambda i=inputs: fast(*i), lambda i=inputs: case.module(*i)], rounds)
        rate = case.flops(count) / 1e9
        yield {
            "case": case.name,
            "threads": threads,
            "rows": count,
            "disc_us": round(ours * 1e6, 2),
            "eager_us": round(eager * 1e6, 2),
            "gflops": round(rate / ours, 1),
            "ratio": round(eager / ours, 3),
            "error": error,
        }


def geomean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def summary(found: list[dict]) -> dict:
    few = [r["ratio"] for r in found if r["rows"] <= FEW]
    return {
        "geomean": round(geomean([r["ratio"] for r in found]), 3),
        "geomean_up_to_32_rows": round(geomean(few), 3) if few else None,
        "smallest": min(r["ratio"] for r in found),
        "largest_error": max(r["error"] for r in found),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=["linear"])
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    results: list[dict] = []
    with torch.no_grad():
        for threads in arguments.threads:
            print(f"\n{threads} thread(s): GFLOP/s of disc, and how much faster than eager", flush=True)
            print(f"{'M':>18}" + "".join(f"{rows:>11}" for rows in arguments.rows))
            for case in products(tuple(arguments.forms)):
                found = list(measure(case, threads, tuple(arguments.rows), arguments.rounds))
                cells = "".join(f"{r['gflops']:6.0f} {r['ratio']:4.2f}" for r in found)
                print(f"{case.name:>18}{cells}", flush=True)
                results.extend(found)
    by_threads = {str(t): summary([r for r in results if r["threads"] == t]) for t in arguments.threads}
    for threads, figures in by_threads.items():
        print(f"{threads} thread(s): {figures}")
    cpu = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    print(
        json.dumps(
            {
                "bench": "matmul",
                "cpu": cpu,
                "torch": torch.__version__,
                "summary": by_threads,
                "results": results,
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
