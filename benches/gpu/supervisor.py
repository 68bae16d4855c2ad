"""Hands tasks to worker processes, and outlives them.

An error of CUDA takes the whole process from the device, and a compiler may crash or hang. So a
worker that dies, or that takes too long, is replaced; the contestant that was at work is left out,
with the reason, and the task is given once more to the others.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

RUN = Path(__file__).with_name("run.py")
COMMAND = (sys.executable, str(RUN), "worker")
#: A task is not begun with fewer seconds left than this.
LEAST = 3.0
#: Seconds that a worker has for the end of a task, after the time in which it begins new parts.
GRACE = 20.0


class Lost(Exception):
    """A worker ended, or was ended, before its task did; maybe before it began the task."""

    def __init__(self, reason: str, at: str | None, partial: dict | None, has_begun: bool = True):
        super().__init__(reason)
        self.reason, self.at, self.partial, self.has_begun = reason, at, partial, has_begun


class Worker:
    """A process that answers tasks (``worker.py``)."""

    def __init__(self, environment: dict[str, str], command: tuple[str, ...] = COMMAND):
        self._log = tempfile.TemporaryFile(mode="w+", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
            env={**os.environ, **environment}, start_new_session=True,
        )  # fmt: skip
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def ask(self, task: dict, seconds: float) -> dict:
        """The row of a task; raises ``Lost`` without one."""
        at, partial, has_begun, ends = None, None, False, time.monotonic() + seconds
        try:
            self._process.stdin.write(json.dumps(task) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise Lost(self._end(), at, partial, has_begun=False) from None
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, ends - time.monotonic()))
            except queue.Empty:
                self.kill()
                raise Lost(f"no result within {seconds:.0f} s", at, partial) from None
            if line is None:
                raise Lost(self._end(), at, partial, has_begun=has_begun)
            has_begun, message = True, json.loads(line)
            if "row" in message:
                return message["row"]
            if "dead" in message:
                self.kill()
                raise Lost(message["reason"], message["dead"], partial)
            at, partial = message.get("at", at), message.get("partial", partial)

    def _end(self) -> str:
        """Says how the process ended, with the last line that it printed."""
        status = self._process.wait()
        self._log.seek(0)
        lines = [line.strip() for line in self._log.read()[-4000:].splitlines() if line.strip()]
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return f"the process ended with {how}: {lines[-1][:300] if lines else 'it said nothing'}"

    def kill(self) -> None:
        """Ends the process and what it started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def close(self) -> None:
        """Lets the process end by itself."""
        if self._process.poll() is None:
            self._process.stdin.close()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.kill()


class Supervisor:
    """Gives tasks to one worker at a time, until ``deadline`` of the monotonic clock.

    With ``is_fresh`` each task has a process of its own.
    """

    def __init__(
        self,
        deadline: float,
        limit: float,
        environment: dict[str, str],
        *,
        is_fresh: bool = False,
        start: Callable[[dict[str, str]], Worker] = Worker,
    ):
        self._deadline, self._limit, self._environment = deadline, limit, environment
        self.is_fresh, self._start = is_fresh, start
        self._worker: Worker | None = None
        self._is_used = False

    def left(self) -> float:
        """Seconds until the deadline."""
        return self._deadline - time.monotonic()

    def run(self, task: dict) -> dict | None:
        """The row of a task, with an error if no worker came to its end; ``None`` if there was no
        time to begin it.
        """
        without = dict(task.get("without", {}))
        while self.left() > LEAST:
            seconds = min(self._limit, self.left())
            # The worker ends the task by itself a little earlier.
            ends = max(seconds - GRACE, 0.7 * seconds)
            try:
                return self._ask({**task, "without": without, "seconds": ends}, seconds)
            except Lost as lost:
                was_used, self._worker = self._is_used, None
                if not lost.has_begun and was_used:
                    # The task before took the device with it: this one has a process of its own.
                    continue
                if lost.at is None or lost.at in without or self.left() < LEAST:
                    return _failed(task, lost, without)
                without[lost.at] = lost.reason
        return _failed(task, Lost("out of time", None, None), without) if without else None

    def _ask(self, task: dict, seconds: float) -> dict:
        if self._worker is None:
            self._worker, self._is_used = self._start(self._environment), False
        row = self._worker.ask(task, seconds)
        self._is_used = True
        if self.is_fresh:
            self.close()
        return row

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None


def _failed(task: dict, lost: Lost, without: dict[str, str]) -> dict:
    """Returns what is known of a task that did not end."""
    known = lost.partial or {name: task[name] for name in ("case", "dtype") if name in task}
    skipped = {**without, **known.get("skipped", {})}
    return {**known, "skipped": skipped, "error": lost.reason}
