"""Times calls on a device: by CUDA events on a GPU, by the clock of the process on a CPU.

Contestants take turns, as in ``timing.py`` of the suites for CPUs. A GPU works while the host goes
on, so a call has two times: that of the device, over a burst of calls, and that of the host, which
is how long the calls take to return while the queue of launches has room.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

Measured = TypeVar("Measured")

#: A burst of calls takes about this long on a GPU and on a CPU, in seconds.
SPAN, SPAN_CPU = 4e-3, 1e-3
#: Launches that a GPU queues before a launch waits are 1,024; bursts that time the host stay below.
QUEUE = 512
#: Calls of a burst that times the host, at most.
HOST_CALLS = 20


@dataclass(frozen=True)
class Turn:
    """A contestant at one size: ``call`` starts the work, ``wait`` returns when it is done.

    ``by_events`` is false for work on streams that events of torch's stream do not wait for.
    """

    call: Callable[[], object]
    wait: Callable[[], object]
    by_events: bool = True
    #: Kernels of one call, if known: they decide how many calls the queue has room for.
    kernels: int | None = None


@dataclass(frozen=True)
class Times:
    """Median microseconds of a call: in a burst, of only the host, and of a call and its wait."""

    us: float
    host_us: float
    latency_us: float

    def to_dict(self) -> dict[str, float]:
        return {name: round(getattr(self, name), 2) for name in ("us", "host_us", "latency_us")}


class Clock:
    """The clock of a device."""

    def __init__(self, device: str):
        self.device = torch.device(device)
        self.is_cuda = self.device.type == "cuda"
        if self.is_cuda:
            torch.cuda.set_device(self.device)
        else:
            # One thread on a CPU: a test of the commands runs beside others.
            torch.set_num_threads(1)

    def synchronize(self) -> None:
        if self.is_cuda:
            torch.cuda.synchronize(self.device)

    def is_alive(self) -> bool:
        """Returns false after a CUDA error that leaves the process without the device."""
        try:
            self.synchronize()
        except RuntimeError:
            return False
        return True

    def burst(self, turn: Turn, repeats: int) -> float:
        """Seconds of one call among ``repeats`` calls in a row, until the device is done."""
        if self.is_cuda and turn.by_events:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(repeats):
                turn.call()
            end.record()
            turn.wait()
            end.synchronize()
            return start.elapsed_time(end) / 1e3 / repeats
        start_s = time.perf_counter()
        for _ in range(repeats):
            turn.call()
        turn.wait()
        return (time.perf_counter() - start_s) / repeats

    def host(self, turn: Turn) -> float:
        """Seconds until one call returns, while the queue of launches has room."""
        repeats = max(1, min(HOST_CALLS, QUEUE // max(1, turn.kernels or 100)))
        start = time.perf_counter()
        for _ in range(repeats):
            turn.call()
        spent = (time.perf_counter() - start) / repeats
        turn.wait()
        return spent

    def repeats(self, turn: Turn) -> int:
        """Calls that fill the span of a burst."""
        turn.call()
        turn.wait()
        span = SPAN if self.is_cuda else SPAN_CPU
        return min(1000, max(1, round(span / max(self.burst(turn, 2), 1e-7))))


class TurnFailed(Exception):
    """A contestant raised in its turn: ``index`` is its place among the turns."""

    def __init__(self, index: int):
        super().__init__(f"turn {index} failed")
        self.index = index


def interleaved(clock: Clock, turns: Sequence[Turn], rounds: int) -> list[Times]:
    """The times of all contestants, who take turns in each round.

    Raises:
        TurnFailed: A contestant raised; errors of kernels come up at the wait in its own turn.
    """
    repeats = [_named(i, lambda turn=turn: clock.repeats(turn)) for i, turn in enumerate(turns)]
    found: list[list[tuple[float, float, float]]] = [[] for _ in turns]
    for i in _order(len(turns), rounds):
        found[i].append(_named(i, lambda i=i: _once(clock, turns[i], repeats[i])))
    return [Times(*(statistics.median(times) * 1e6 for times in zip(*rows, strict=True))) for rows in found]


def passes(turns: Sequence[tuple[Callable[[], object], Callable[[], object]]], rounds: int) -> list[float]:
    """Median seconds of each pass, a call and its wait, where the passes take turns.

    Raises:
        TurnFailed: A pass raised.
    """
    found: list[list[float]] = [[] for _ in turns]
    for i in _order(len(turns), rounds):
        run, wait = turns[i]
        found[i].append(_named(i, lambda run=run, wait=wait: _latency(run, wait)))
    return [statistics.median(times) for times in found]


def _order(count: int, rounds: int) -> Iterator[int]:
    """Rotates the order from round to round: nobody always follows the same neighbour."""
    for round_ in range(rounds if count else 0):
        first = round_ % count
        yield from (*range(first, count), *range(first))


def _named(index: int, work: Callable[[], Measured]) -> Measured:
    try:
        return work()
    except Exception as error:
        raise TurnFailed(index) from error


def _once(clock: Clock, turn: Turn, repeats: int) -> tuple[float, float, float]:
    """Seconds of a call in a burst, of the host, and of a call and its wait."""
    turn.call()
    turn.wait()
    return clock.burst(turn, repeats), clock.host(turn), _latency(turn.call, turn.wait)


def _latency(call: Callable[[], object], wait: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    wait()
    return time.perf_counter() - start
