"""Runs PyTorch's own tests with ``backend="disc"`` in the place of Inductor, aot_eager and eager.

    python -m peer.run --tests DIR [--sample N] [--match TEXT] [--suite NAME] [--results FILE]

``DIR`` is the folder test/ of a checkout of PyTorch, of the version that is installed (or one near
it). A test that fails runs once more with torch's own aot_eager: where that fails too, it is no
finding.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from .suites import present
from .workers import Worker, runner

ABSENT = """skipped: PyTorch's tests are not here. They are in its repository, in the folder test/:
    git clone --depth 1 --branch v{version} https://github.com/pytorch/pytorch DIR
    make test-peer PEER_TESTS=DIR/test"""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="peer.run", description=__doc__.splitlines()[0])
    parser.add_argument("--tests", default="", help="the folder test/ of a checkout of PyTorch")
    parser.add_argument("--sample", type=int, help="run only this many, chosen at random")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the choice")
    parser.add_argument(
        "--match", action="append", default=[], help="run only tests whose name has this text"
    )
    parser.add_argument("--suite", action="append", default=[], help="run only this suite")
    parser.add_argument("--seconds", type=float, default=90, help="the most that a test may take")
    parser.add_argument(
        "--results", type=Path, help="the file of results; default: one in the temporary folder"
    )
    return parser.parse_args()


def _chosen(worker: Worker, options: argparse.Namespace) -> tuple[list[str], dict[str, str]]:
    """The tests to run in their order, and those that are skipped with their reasons."""
    found: dict[str, str | None] = {}
    for suite in present(Path(options.tests)):
        if not options.suite or suite in options.suite:
            try:
                found |= worker.tests(suite)
            except RuntimeError as error:
                print(error, flush=True)
    names = [name for name in found if not options.match or any(text in name for text in options.match)]
    if options.sample is not None and options.sample < len(names):
        kept = set(random.Random(options.seed).sample(names, options.sample))
        names = [name for name in names if name in kept]
    return [n for n in names if found[n] is None], {n: found[n] for n in names if found[n] is not None}


def _run(worker: Worker, tests: list[str], seconds: float, report: bool) -> dict[str, tuple[str, str]]:
    """The outcomes of the tests; those until Ctrl-C, where somebody presses it."""
    outcomes = {}
    try:
        for test in tests:
            outcomes[test] = tuple(worker.run(test, seconds))
            if report and outcomes[test][0] == "failed":
                print(f"{test}: {outcomes[test][1]}", flush=True)
            if len(outcomes) % 50 == 0:
                print(f"{len(outcomes)} of {len(tests)}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print(f"interrupted after {len(outcomes)} of {len(tests)} tests", flush=True)
    worker.stop()
    return outcomes


def main() -> int:
    options = _arguments()
    if not options.tests or not present(Path(options.tests)):
        print(ABSENT.format(version=version("torch").partition("+")[0]))
        return 0
    folder = Path(options.tests).resolve()
    results = options.results or Path(tempfile.gettempdir()) / "disc-peer.json"
    log = results.with_suffix(".log")
    worker = Worker(runner(folder, "disc"), log)
    tests, skipped = _chosen(worker, options)
    print(f"{len(tests)} tests, {len(skipped)} left out by skips.txt; log: {log}", flush=True)

    outcomes = _run(worker, tests, options.seconds, report=True)
    failed = [test for test in outcomes if outcomes[test][0] == "failed"]
    print(f"{len(failed)} fail; they run with aot_eager", flush=True)
    own = _run(Worker(runner(folder, "aot_eager"), log), failed, options.seconds, report=False)
    findings = [test for test in failed if test not in own or own[test][0] == "right"]
    counts = _write(results, outcomes, skipped, own)
    for test in findings:
        print(f"FINDING {test}: {outcomes[test][1]}")
    print(f"{len(failed) - len(findings)} fail with torch's own too; results: {results}")
    print(f"{counts['right']} right, {len(findings)} failed, {counts['skipped']} skipped")
    return 1 if findings else 0


def _write(file: Path, outcomes, skipped, own) -> dict[str, int]:
    """Writes all outcomes, and counts them."""
    rows = {test: {"kind": "skipped", "text": reason} for test, reason in skipped.items()}
    for test, (kind, text) in outcomes.items():
        rows[test] = {"kind": kind, "text": text}
        if test in own:
            rows[test]["aot_eager"] = list(own[test])
    file.write_text(json.dumps(rows, indent=1) + "\n")
    kinds = [row["kind"] for row in rows.values()]
    return {kind: kinds.count(kind) for kind in ("right", "failed", "skipped")}


if __name__ == "__main__":
    sys.exit(main())
