"""Measures disc's threads beside others: microseconds of a call beside torch, in several threads,
on a busy machine.

    benches/threads.py [--threads 2]

Not a suite of run.py: nothing is compared with a peer here, but disc with itself in other company.
Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import threading
import time
from collections.abc import Callable
from functools import partial

import disc
import torch
from torch.nn import functional as F

ROUNDS = 9


class Block(torch.nn.Module):
    """A feed-forward block: two products and a norm, so that a call has several launches."""

    def __init__(self, width: int):
        super().__init__()
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x + self.down(F.gelu(self.up(x))))


def microseconds(call: Callable[[], object], span: float = 0.05) -> float:
    """The median over rounds of the time of one call, each round about ``span`` seconds."""
    times = []
    for _ in range(ROUNDS):
        count, start = 0, time.perf_counter()
        while (now := time.perf_counter()) < start + span:
            call()
            count += 1
        times.append((now - start) / count)
    return statistics.median(times) * 1e6


def beside_torch(call, other) -> dict[str, float]:
    def both():
        call()
        other()

    return {"disc": microseconds(call), "torch": microseconds(other), "in turn": microseconds(both)}


def in_threads(call, count: int, span: float = 0.4) -> float:
    """Calls a second of all threads together."""
    stop, calls = time.perf_counter() + span, []

    def body():
        done = 0
        with torch.no_grad():
            while time.perf_counter() < stop:
                call()
                done += 1
        calls.append(done)

    workers = [threading.Thread(target=body) for _ in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(calls) / span


def burn(stop) -> None:
    while not stop.is_set():
        sum(range(20_000))


def beside_a_process(calls: dict[str, Callable]) -> dict[str, float]:
    """Calls while another process keeps one core busy, as a loader of data does."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    other = context.Process(target=burn, args=(stop,))
    other.start()
    time.sleep(1.0)
    try:
        return {name: microseconds(call) for name, call in calls.items()}
    finally:
        stop.set()
        other.join()


def measure(module: torch.nn.Module, x: torch.Tensor, threads: int) -> None:
    shape = "x".join(map(str, x.shape))
    eager = partial(module, x)
    for count in (1, threads):
        call = partial(disc.optimize(module, x, options=disc.Options(threads=count, cache=False)), x)
        print(f"{shape}, {count} threads:", say(beside_torch(call, eager)))
    print(f"{shape}, calls a second:", say({f"{n} callers": in_threads(call, n) for n in (1, 2, 4)}))
    print(
        f"{shape}, a busy process beside:", say(beside_a_process({"disc": call, "torch": eager})), flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    threads = parser.parse_args().threads
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    with torch.no_grad():
        for width, rows in ((64, 8), (256, 64), (512, 256)):
            measure(Block(width).eval(), torch.randn(rows, width), threads)


def say(numbers: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:,.1f}" for name, value in numbers.items())


if __name__ == "__main__":
    main()
