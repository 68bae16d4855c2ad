"""Interleaved timing: all contestants take turns, so that noise hits all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

#: One timing takes about this long, so that reading the clock does not count.
SPAN = 2e-3
#: Before each timing the call runs this long. With several threads the pools of the others spin on
#: after their work: eager's some 10 ms, ONNX Runtime's a million steps, which take 36 ms of a Zen 5
#: that they have for themselves, and twice that beside others.
WARM, WARM_SEVERAL = 1e-3, 90e-3


def interleaved(calls: Sequence[Callable[[], object]], rounds: int, threads: int) -> list[float]:
    """Median seconds of one run of each call."""
    repeats = [_repeats(call) for call in calls]
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(rounds):
        # The order rotates: nobody always follows the same neighbour.
        for i in (*range(turn % len(calls), len(calls)), *range(turn % len(calls))):
            times[i].append(_timed(calls[i], repeats[i], threads))
    return [statistics.median(record) for record in times]


def least_of_processor(calls: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Least processor seconds of one run of each call, which run only on this thread: right while
    other programs run, too.
    """
    repeats = [max(1, _repeats(call) // 2) for call in calls]
    least = [float("inf")] * len(calls)
    for turn in range(4 * rounds):
        for i in (*range(turn % len(calls), len(calls)), *range(turn % len(calls))):
            calls[i]()
            start = time.thread_time()
            for _ in range(repeats[i]):
                calls[i]()
            least[i] = min(least[i], (time.thread_time() - start) / repeats[i])
    return least


def _repeats(call: Callable[[], object]) -> int:
    call()
    start = time.perf_counter()
    call()
    return max(1, round(SPAN / (time.perf_counter() - start)))


def _timed(call: Callable[[], object], repeats: int, threads: int) -> float:
    warm = time.perf_counter() + (WARM if threads == 1 else WARM_SEVERAL)
    call()
    while time.perf_counter() < warm:
        call()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats
