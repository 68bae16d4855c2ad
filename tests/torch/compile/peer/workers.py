"""Keeps one process that runs tests, and starts another when a test ends or hangs it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

#: Loading a suite takes this many seconds at most.
LOADING = 300


def runner(folder: Path, backend: str) -> list[str]:
    """The command that runs the tests of a folder with a backend."""
    return [sys.executable, "-m", "peer.child", str(folder), backend]


class Worker:
    """Answers requests; one that ends the process or takes too long costs its own answer only."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._command, self._log = command, log
        self._process: subprocess.Popen | None = None
        self._loaded: set[str] = set()

    def tests(self, suite: str) -> dict[str, str | None]:
        """The tests of a suite, each with the reason why it is skipped, or None."""
        answer = self._ask(suite, LOADING)
        if not isinstance(answer, dict):
            raise RuntimeError(f"{suite} cannot be loaded ({answer[1]}); see {self._log}")
        return answer

    def run(self, test: str, seconds: float) -> tuple[str, str]:
        """Returns the outcome of a test, and its last error."""
        suite = test.partition(":")[0]
        if self._process is None or suite not in self._loaded:
            self.tests(suite)
        kind, text = self._ask(test, seconds)
        return kind, text

    def stop(self) -> None:
        """Ends the process and what it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process, self._loaded = None, set()

    def _start(self) -> subprocess.Popen:
        environment = {**os.environ, "DISC_CACHE": "0", "CUDA_VISIBLE_DEVICES": ""}
        environment["PYTHONPATH"] = os.pathsep.join(
            [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        )
        with self._log.open("a") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                start_new_session=True,
            )

    def _ask(self, request: str, seconds: float):
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self._process = self._start()
        process = self._process
        process.stdin.write(request + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], seconds)
        if not ready:
            self.stop()
            return "failed", f"takes longer than {seconds:.0f} s"
        line = process.stdout.readline()
        if not line:
            code = process.wait()
            self.stop()
            name = signal.Signals(-code).name if code < 0 else f"exit {code}"
            return "failed", f"ends the process ({name})"
        self._loaded.add(request.partition(":")[0])
        return json.loads(line)
