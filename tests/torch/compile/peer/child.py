"""Runs tests that the parent names, one line of JSON for each, in a process that a test may end.

    python -m peer.child FOLDER BACKEND

A request is the name of a suite (answered with its tests) or of a test (answered with its
outcome).
"""

from __future__ import annotations

import inspect
import json
import os
import random
import resource
import sys
import unittest
from pathlib import Path

import numpy
import torch

from .skips import Skips
from .substitute import substitute
from .suites import load

#: A process that has grown beyond this is replaced after a test.
MOST_KIB = 5 * 2**20


class Outcome(unittest.TestResult):
    """Keeps the outcome of a test: ("right", ""), ("skipped", reason) or ("failed", last error)."""

    ended = ("right", "")

    def addSkip(self, test, reason):
        self.ended = ("skipped", reason)

    def addError(self, test, err):
        self.ended = ("failed", _worded(err[1]))

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addError(test, err)

    def addExpectedFailure(self, test, err):
        self.ended = ("skipped", "PyTorch expects that it fails")

    def addUnexpectedSuccess(self, test):
        self.ended = ("right", "PyTorch expects that it fails")


def _worded(error: BaseException) -> str:
    """The type of an error and the first lines of its text, without PyTorch's advice."""
    text = str(error).partition("To execute this test")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"{type(error).__name__}: {' | '.join(lines[:3])}"[:300]


def _run(test: unittest.TestCase) -> tuple[str, str]:
    for seed in (random.seed, numpy.random.seed, torch.manual_seed):
        seed(0)
    outcome = Outcome()
    _class_fixture(test, "setUpClass")
    try:
        test(outcome)
    finally:
        _class_fixture(test, "tearDownClass")
    return outcome.ended


def _class_fixture(test: unittest.TestCase, name: str) -> None:
    getattr(type(test), name)()


def _source(test: unittest.TestCase) -> str:
    try:
        return inspect.getsource(inspect.unwrap(getattr(type(test), test._testMethodName)))
    except (OSError, TypeError):
        return ""


def main() -> None:
    folder, backend = Path(sys.argv[1]), sys.argv[2]
    # What tests print goes to stderr; answers keep the pipe of stdout.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.argv[1:] = []
    substitute(backend)
    skips, tests, suites = Skips.read(), {}, {}

    def named(suite: str) -> dict[str, unittest.TestCase]:
        if suite not in suites:
            found = {f"{suite}:{type(t).__name__}.{t._testMethodName}": t for t in load(folder, suite)}
            suites[suite] = found
            tests.update(found)
        return suites[suite]

    for line in sys.stdin:
        request = line.strip()
        suite, _, name = request.partition(":")
        found = named(suite)
        if not name:
            answer = {name: skips.reason(name, _source(test)) for name, test in found.items()}
        else:
            answer = _run(tests[request])
        print(json.dumps(answer), file=answers, flush=True)
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > MOST_KIB:
            return


if __name__ == "__main__":
    main()
