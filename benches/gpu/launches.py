"""Counts and times the kernels of one call: those of any contestant by torch's profiler, those of
disc by its own as well, which knows their kinds.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity

from .clock import Clock

#: Categories of a trace: kernels, and copies and fills, which occupy a stream as kernels do.
_KERNELS, _COPIES = ("kernel",), ("gpu_memcpy", "gpu_memset")
#: Kernels of a call that a record lists; the rest is in the sums.
LISTED = 40


def of_call(clock: Clock, call: Callable[[], object], wait: Callable[[], object]) -> dict:
    """The kernels of one call, in a trace of torch's profiler, which sees those of every library.

    On a CPU, where nothing is launched, ops of torch that call no other op stand in for kernels.
    """
    activities = [ProfilerActivity.CUDA if clock.is_cuda else ProfilerActivity.CPU]
    clock.synchronize()
    with torch.profiler.profile(activities=activities) as profile:
        call()
        wait()
        clock.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return _summary(events if clock.is_cuda else _leaves(events))


def _leaves(events: list[dict]) -> list[dict]:
    """Ops without ops in them, as kernels."""
    ops = sorted(
        (e for e in events if e.get("cat") == "cpu_op"), key=lambda e: (e.get("tid"), e["ts"], -e["dur"])
    )
    leaves = []
    for op, after in zip(ops, [*ops[1:], None], strict=True):
        inside = after is not None and after["tid"] == op["tid"] and after["ts"] < op["ts"] + op["dur"]
        if not inside:
            leaves.append({**op, "cat": "kernel"})
    return leaves


def _summary(events: list[dict]) -> dict:
    kernels = [e for e in events if e.get("cat") in _KERNELS]
    copies = [e for e in events if e.get("cat") in _COPIES]
    return {
        "kernels": len(kernels),
        "copies": len(copies),
        "kernel_us": round(sum(e.get("dur", 0.0) for e in kernels), 2),
        "copy_us": round(sum(e.get("dur", 0.0) for e in copies), 2),
        "list": [_row(e) for e in kernels[:LISTED]],
    }


def _row(event: dict) -> dict:
    row = {"name": event["name"][:120], "us": round(event.get("dur", 0.0), 2)}
    about = event.get("args", {})
    names = (("grid", "grid"), ("block", "block"), ("registers per thread", "registers"),
             ("shared memory", "shared"))  # fmt: skip
    return row | {name: about[key] for key, name in names if key in about}


def of_disc(module, call: Callable[[], object], times: int) -> dict:
    """The kernels of compiled code by ``disc.profile``: launches of a call, with the least time of
    each over ``times`` calls.
    """
    import disc

    with disc.profile(module) as profile:
        for _ in range(times):
            call()
    calls = profile.calls
    by_call = len(calls) // times if times else 0
    rows = []
    for kernel in profile.kernels:
        least = min(one.ns for c in calls for one in c.launches if one.kernel == kernel.name)
        rows.append(
            {
                "name": kernel.name, "kind": kernel.kind, "version": kernel.version, "layers": list(kernel.layers[:2]),
                "lines": list(kernel.lines[:2]), "launches": round(kernel.count / times, 2), "us": round(least / 1e3, 2),
            }
        )  # fmt: skip
    launches = round(sum(kernel.count for kernel in profile.kernels) / times, 2)
    return {"calls": by_call, "launches": launches, "list": rows[:LISTED]}
