"""`make bench`: disc beside eager, Inductor, ONNX Runtime and OpenVINO on streams of distinct
shapes.

    benches/run.py --suite memory --threads 1,2 --peers eager,ort

Each suite is one file with `cases()`. All contestants of a case take turns at each size; a ratio
above 1: disc is faster. What was measured goes to benches/records as text and JSON, with the
command, the CPU and the versions. Peers that are not installed, or that cannot run a case, are
named with the reason. GPUs are measured by benches/gpu/run.py.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
#: The allowed difference from eager by a form of weights, relative to the largest result.
ERRORS = {"exact": 1e-3, "bf16": 3e-2, "int8": 3e-2, "int4": 0.3}
#: The same by the type that all compute in.
ERRORS_OF_TYPES = {"f32": 0.0, "bf16": 5e-2, "f16": 1e-2, "int8": 0.2}
#: The columns that disc computes, with weights in the requested form.
OURS = ("disc", "single", "static", "backend")
SUITES = ("bert", "sentence", "streams", "memory", "matmul", "attention", "conv", "index", "training")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", default=",".join(SUITES), help=f"of {', '.join(SUITES)}; default: all")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--peers", default="eager,inductor,ort,openvino", help="default: %(default)s")
    parser.add_argument(
        "--against-static",
        action="store_true",
        help="only beside disc with every size fixed; nothing is specialised; with one thread, least processor times",
    )
    parser.add_argument(
        "--all-dims",
        action="store_true",
        help="every size of disc's inputs is dynamic, each by itself; else those that differ, equal ones by one name",
    )
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument(
        "--weights", default="exact", choices=ERRORS, help="how disc stores matrices of weights"
    )
    parser.add_argument(
        "--dtype",
        default="f32",
        choices=("f32", "bf16", "f16", "int8"),
        help="bf16, f16: the module and its inputs; OpenVINO by its hint; the peer `single` is disc in f32. "
        "int8: disc by weights and activations of int8, ort and openvino by a QDQ model, others in f32",
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sizes", type=int, default=0, help="at most this many sizes of a case")
    parser.add_argument("--parts", type=int, default=1, help="processes that a suite's cases are dealt to")
    parser.add_argument(
        "--under", default="", help="a command that runs each part, such as one that keeps others away"
    )
    parser.add_argument("--part", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--no-record", action="store_true", help="print only")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.dtype == "int8":
        options.weights = "int8"
    if options.against_static:
        options.peers = "static"
        os.environ["DISC_SPECIALIZE"] = "0"
    return options


# One process measures one suite at one number of threads: pools and their sizes are made once per
# process.


def worker(options: argparse.Namespace) -> None:
    """Prints one line of JSON per case."""
    import narrow
    import peers
    import torch

    peers.ALL_DIMS = options.all_dims
    threads = int(options.threads)
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    peers.WEIGHTS, peers.DTYPE = options.weights, options.dtype
    suite = importlib.import_module(options.suite)
    for number, case in enumerate(suite.cases()):
        if options.case not in case.name or number % options.parts != options.part:
            continue
        if options.dtype in narrow.HALVES:
            case = narrow.NarrowCase(case, narrow.HALVES[options.dtype])
            peers.WIDE[id(case.module)] = case.wide
        sizes = list(getattr(case, "sizes", None) or suite.ROWS)
        if options.sizes:
            sizes = sizes[:: math.ceil(len(sizes) / options.sizes)]
        with torch.no_grad():
            print(json.dumps(measure(case, sizes, options, threads, peers)), flush=True)


def measure(case, sizes: list, options: argparse.Namespace, threads: int, peers) -> dict:
    examples = [case.inputs(size) for size in sizes]
    names = ["disc", *options.peers.split(",")] if options.peers else ["disc"]
    built, first, skipped = build(case, examples, names, threads, peers)
    # First of all, so that nobody is timed who computes something else.
    largest_error = errors(built, case.module, examples, skipped)
    rows = []
    for size, inputs in zip(sizes, examples, strict=True):
        us = timed(built, inputs, options, threads)
        rows.append({"size": size, "gflop": operations(case, size, inputs), "us": us})
    return {
        "case": case.name,
        "weights": options.weights,
        "dtype": options.dtype,
        "threads": threads,
        "first_result_s": first,
        "skipped": skipped,
        "rows": rows,
        "largest_error": largest_error,
    }


def operations(case, size, inputs) -> float:
    """Floating-point operations of products and convolutions, in billions."""
    if (known := getattr(case, "gigaflops", lambda _: None)(size)) is not None:
        return known
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    with counter, sdpa_kernel(SDPBackend.MATH):  # the fused kernel of CPUs is not counted
        case.module(*inputs)
    return counter.get_total_flops() / 1e9


def build(case, examples, names, threads: int, peers):
    """The calls of all peers that can run the case, the seconds to their first result, and why the
    others cannot.
    """
    built, first, skipped = {}, {}, {}
    for name in names:
        if gone := peers.missing(name):
            skipped[name] = f"not installed: {', '.join(gone)}"
            continue
        start = time.perf_counter()
        try:
            call = peers.PEERS[name][0](case.module, examples, threads)
            call(examples[0])
            first[name] = round(time.perf_counter() - start, 3)
            for inputs in examples:
                call(inputs)
        except Exception as error:
            text = str(error).strip() or type(error).__name__
            skipped[name] = text.splitlines()[0][:300]
            continue
        built[name] = call
    return built, first, skipped


def timed(built: dict, inputs, options: argparse.Namespace, threads: int) -> dict[str, float]:
    from timing import interleaved, least_of_processor

    calls = [lambda call=call: call(inputs) for call in built.values()]
    if options.against_static and threads == 1:
        times = least_of_processor(calls, options.rounds)
    else:
        times = interleaved(calls, options.rounds, threads)
    return {n: round(s * 1e6, 2) for n, s in zip(built, times, strict=True)}


def errors(built: dict, module, examples, skipped: dict) -> dict[str, float]:
    """The largest error of each contestant against eager, over the largest magnitude of a result.

    A peer whose results are not those of the module (other count, other shapes) is named in
    `skipped` and leaves `built`: it would be timed for computing something else. For disc that is
    an error.
    """
    expected = [tensors(module(*inputs)) for inputs in examples]
    found = {}
    for name, call in list(built.items()):
        try:
            found[name] = max(
                error_of(call(inputs), theirs) for inputs, theirs in zip(examples, expected, strict=True)
            )
        except OtherResults as other:
            if name == "disc":
                raise
            skipped[name] = str(other)
            del built[name]
    return found


class OtherResults(Exception):
    """A contestant computes something else than the module."""


def tensors(results) -> list:
    import torch
    from torch.utils import _pytree as pytree

    return [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]


def error_of(results, expected: list) -> float:
    """The largest difference of one call's results, each over the largest magnitude that is
    expected of it.
    """
    import torch

    results = [torch.as_tensor(result).double() for result in results]
    shapes, wanted = [list(t.shape) for t in results], [list(t.shape) for t in expected]
    if shapes != wanted:
        raise OtherResults(f"results of shapes {shapes}, expected {wanted}")
    worst = 0.0
    for got, theirs in zip(results, expected, strict=True):
        if theirs.numel():
            scale = theirs.abs().max().double().clamp(min=1e-9)
            worst = max(worst, float((got - theirs.double()).abs().max() / scale))
    return worst


# The parent: runs the workers, prints tables, writes the record.


def total(result: dict, name: str) -> float | None:
    rows = [row["us"].get(name) for row in result["rows"]]
    return None if None in rows else sum(rows)


def line(result: dict, names: list[str], peak: float | None) -> str:
    ours = total(result, "disc")
    cells = [f"{result['case'][:34]:34}", f"{ours / 1e3:10.3f}" if ours else f"{'skipped':>10}"]
    gflop = sum(row["gflop"] for row in result["rows"])
    cells.append(f"{gflop / ours * 1e6 / peak:8.0%}" if ours and peak and gflop else f"{'-':>8}")
    for name in names:
        theirs = total(result, name)
        cells.append(f"{theirs / ours:10.2f}" if ours and theirs else f"{'-':>10}")
    return " ".join(cells)


def geomean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def summary(results: list[dict], names: list[str]) -> list[str]:
    lines = []
    best: list[float] = []
    for name in names:
        ratios = [t / o for r in results if (t := total(r, name)) and (o := total(r, "disc"))]
        if ratios:
            lines.append(
                f"  over {name:10} geomean {geomean(ratios):5.2f}, least {min(ratios):5.2f}, {len(ratios)} cases"
            )
    for r in results:
        if (o := total(r, "disc")) and (theirs := [t for n in names if n not in OURS and (t := total(r, n))]):
            best.append(min(theirs) / o)
    if best:
        lines.append(f"  over the best of them: geomean {geomean(best):5.2f}, least {min(best):5.2f}")
    reasons: dict[tuple[str, str], list[str]] = {}
    for r in results:
        for name, reason in r["skipped"].items():
            reasons.setdefault((name, reason), []).append(r["case"])
    for (name, reason), cases in reasons.items():
        lines.append(
            f"  skipped {name} on {len(cases)} of {len(results)} cases ({', '.join(cases[:3])}): {reason}"
        )
    wrong = [
        (r["case"], n, e)
        for r in results
        for n, e in r["largest_error"].items()
        if not e <= max(ERRORS[r["weights"] if n in OURS else "exact"], ERRORS_OF_TYPES[r["dtype"]])
    ]
    lines += [f"  {name} differs from eager by {error:.1e} on {case}" for case, name, error in wrong]
    return lines


def run_suite(suite: str, threads: int, options: argparse.Namespace, say) -> list[dict]:
    import machine

    names = [n for n in options.peers.split(",") if n]
    peak = machine.fma_peak(threads)
    say(
        f"\n{suite}, {threads} thread(s): ms of the stream through disc, its share of the floor of products and"
    )
    say(
        f"convolutions ({peak or 'unknown'} GFLOP/s in registers), and how many times as long the others take"
    )
    say(
        " ".join([f"{'case':34}", f"{'disc ms':>10}", f"{'of floor':>8}", *(f"{name:>10}" for name in names)])
    )
    command = [sys.executable, __file__, "--worker", "--suite", suite, "--threads", str(threads)]
    command += [
        "--weights",
        options.weights,
        "--dtype",
        options.dtype,
        "--peers",
        options.peers,
        "--case",
        options.case,
    ]
    command += ["--rounds", str(options.rounds), "--sizes", str(options.sizes)]
    command += ["--against-static"] if options.against_static else []
    command += ["--all-dims"] if options.all_dims else []
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "DISC_PROGRESS": "0", "HF_HUB_OFFLINE": "1"}
    # Nobody writes beside what is measured.
    environment["DISC_CACHE_WEIGHTS"] = "0"
    results = []
    for part in range(options.parts):
        numbered = [*shlex.split(options.under), *command, "--parts", str(options.parts), "--part", str(part)]
        with subprocess.Popen(numbered, stdout=subprocess.PIPE, text=True, env=environment) as process:
            for text in process.stdout:
                if text.startswith("{"):
                    results.append(json.loads(text))
                    say(line(results[-1], names, peak))
        if process.returncode:
            say(f"  the worker ended with status {process.returncode}")
    for text in summary(results, names):
        say(text)
    return results


def main() -> int:
    options = arguments()
    if options.worker:
        worker(options)
        return 0
    from record import Record

    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        print(text, flush=True)

    record = Record(shlex.join(["benches/run.py", *sys.argv[1:]]))
    for text in record.head():
        say(text)
    failed = False
    for suite in options.suite.split(","):
        if not (HERE / f"{suite}.py").exists():
            own = HERE / suite / "run.py"
            instead = f", its commands are those of {own.relative_to(HERE.parent)}" if own.exists() else ""
            say(f"\n{suite}: there is no benches/{suite}.py{instead}")
            failed = True
            continue
        results = [r for t in options.threads.split(",") for r in run_suite(suite, int(t), options, say)]
        failed |= not results
        if not options.no_record and results:
            record.save(suite, results, said)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
