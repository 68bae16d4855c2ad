"""Measures what the device can do at most: copies, matmuls, launches. Floors are made of these.

Copies count bytes read and written. Buffers rotate, so that a copy does not find its operands in
the second-level cache, and contents are random: a GPU that multiplies zeros runs at a higher clock.
"""

from __future__ import annotations

import math
import statistics
import time

import torch

from .clock import Clock, Turn
from .driver import NullKernel
from .dtypes import DTYPES, apply_tf32

#: Bytes of one operand of a copy, and the side of the matrices of a product, by kind of device.
COPIES = {"cuda": tuple(4**i for i in range(8, 16)), "cpu": tuple(4**i for i in range(8, 11))}
SIDES = {"cuda": 8192, "cpu": 256}
ROUNDS = {"cuda": 9, "cpu": 3}
#: Kernels in a graph whose replay gives the cost of a kernel inside of a graph.
IN_GRAPH = 500


def measure(clock: Clock) -> dict:
    """Copy rate, product rates and costs of launches; what cannot be measured is ``None``, and
    ``errors`` has the reason.
    """
    found: dict = {"errors": {}}
    for name, part in (("copies", copies), ("products", products), ("launches", launches)):
        try:
            found[name] = part(clock)
        except Exception as error:
            found[name] = None
            found["errors"][name] = f"{type(error).__name__}: {error}"[:300]
    found["copy_gbs"] = max((c["gbs"] for c in found["copies"] or ()), default=None)
    found["kernel_us"] = _kernel_floor(found["launches"])
    return found


def copies(clock: Clock) -> list[dict]:
    """Time and rate of a copy, by the bytes of one operand."""
    kind, rows = clock.device.type, []
    cache = l2_bytes(clock)
    for size in COPIES[kind]:
        count = buffers(2 * size, cache, most=4096)
        source = torch.randint(-128, 127, (count, size), dtype=torch.int8, device=clock.device)
        target = torch.empty_like(source)
        turn = _rotating(clock, [(target[i], source[i]) for i in range(count)])
        us = _median(clock, turn, ROUNDS[kind])
        rows.append({"bytes": size, "us": round(us, 3), "gbs": round(2 * size / us / 1e3, 1)})
    return rows


def products(clock: Clock) -> dict[str, float]:
    """Rates of square matmuls, in TFLOP/s, by type of elements."""
    kind, found = clock.device.type, {}
    side = SIDES[kind]
    for name, (dtype, _) in DTYPES.items():
        apply_tf32(name)
        a, b = (torch.randn(side, side, device=clock.device).to(dtype) for _ in range(2))
        out = torch.empty(side, side, dtype=dtype, device=clock.device)
        turn = Turn(lambda a=a, b=b, out=out: torch.mm(a, b, out=out), clock.synchronize)
        us = _median(clock, turn, ROUNDS[kind])
        found[name] = round(2 * side**3 / us / 1e6, 3)
    apply_tf32("f32")
    return found


def launches(clock: Clock) -> dict[str, float | None]:
    """Microseconds of a launch: for the host, for the device in a stream, and inside of a graph."""
    if not clock.is_cuda:
        return _calls_of_torch(clock)
    kernel = NullKernel()
    turn = Turn(lambda: kernel.launch(1), clock.synchronize, kernels=1)
    own = kernel.call_overhead(10_000) * 1e6
    host = statistics.median(clock.host(turn) for _ in range(200)) * 1e6
    graph, single = (_graph(kernel, count) for count in (IN_GRAPH, 1))
    many = _median(clock, Turn(graph.replay, clock.synchronize, kernels=1), 9)
    one = Turn(single.replay, clock.synchronize, kernels=1)
    return {
        "host_us": round(max(host - own, 0.0), 3),
        "python_us": round(own, 3),
        "stream_us": round(_median(clock, turn, 9), 3),
        "in_graph_us": round(many / IN_GRAPH, 3),
        "graph_us": round(_median(clock, one, 9), 3),
        "graph_host_us": round(statistics.median(clock.host(one) for _ in range(50)) * 1e6, 3),
    }


def _graph(kernel: NullKernel, count: int) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel.launch(count)
    return graph


def _calls_of_torch(clock: Clock) -> dict[str, float | None]:
    """The cost of an op of torch on no elements stands in for a launch where there is no GPU."""
    nothing = torch.empty(0)
    count = 1000
    start = time.perf_counter()
    for _ in range(count):
        nothing.zero_()
    us = (time.perf_counter() - start) / count * 1e6
    return {
        "host_us": round(us, 3), "python_us": None, "stream_us": round(us, 3), "in_graph_us": None,
        "graph_us": None, "graph_host_us": None,
    }  # fmt: skip


def _kernel_floor(launches: dict | None) -> float | None:
    """Microseconds that a kernel takes at least: inside of a graph, if the device has graphs."""
    if launches is None:
        return None
    return launches["in_graph_us"] or launches["stream_us"]


def l2_bytes(clock: Clock) -> int:
    """The bytes of the second-level cache, or 32 MiB where it is not known."""
    if not clock.is_cuda:
        return 1 << 20
    return getattr(torch.cuda.get_device_properties(clock.device), "L2_cache_size", 0) or (32 << 20)


def buffers(size: int, cache: int, most: int = 64) -> int:
    """Sets of ``size`` bytes that rotate, so that a set has left the cache when it comes again."""
    return max(2, min(most, math.ceil(3 * cache / max(size, 1))))


def copy_us(ceilings: dict, moved: int) -> float | None:
    """Microseconds of a copy that reads and writes ``moved`` bytes in sum, between the sizes that
    were measured by linear interpolation.
    """
    rows = ceilings.get("copies")
    if not rows:
        return None
    size = moved / 2
    if size >= rows[-1]["bytes"]:
        return size / rows[-1]["bytes"] * rows[-1]["us"]
    if size <= rows[0]["bytes"]:
        return rows[0]["us"]
    above = next(i for i, row in enumerate(rows) if row["bytes"] >= size)
    low, high = rows[above - 1], rows[above]
    share = (size - low["bytes"]) / (high["bytes"] - low["bytes"])
    return low["us"] + share * (high["us"] - low["us"])


def _rotating(clock: Clock, pairs: list) -> Turn:
    place = iter(range(10**9))

    def call() -> None:
        target, source = pairs[next(place) % len(pairs)]
        target.copy_(source)

    return Turn(call, clock.synchronize, kernels=1)


def _median(clock: Clock, turn: Turn, rounds: int) -> float:
    """Microseconds of one call, the median of bursts."""
    repeats = clock.repeats(turn)
    return statistics.median(clock.burst(turn, repeats) for _ in range(rounds)) * 1e6
