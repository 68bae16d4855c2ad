"""Counts the bytes that kernels of disc move, by ncu, beside their times under it.

ncu runs a process of its own in which each graph is called once; it replays every kernel
separately, so its times are those of kernels, not of calls. Where ncu may not read the counters,
the part says so.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
from pathlib import Path

import torch

from . import truth
from .contestants import Setting, disc
from .dtypes import cast

RUN = Path(__file__).with_name("run.py")
#: Names of metrics: bytes read and written by memory, and nanoseconds.
METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum")
#: Kernels of disc are named by group and kind.
OURS = "regex:^k[0-9]+_"


#: Begins the line that tells whose kernels come next.
_MARK = "graph: "


def once(names: list[str], dtype: str, device: str) -> int:
    """Calls disc once for each named graph of the memory suite, at its largest size, and prints how
    many kernels the call had.
    """
    import disc as compiler

    from . import memory_cases

    torch.manual_seed(0)
    setting = Setting(torch.device(device), dtype)
    is_small = setting.device.type == "cpu"
    for case in memory_cases.cases():
        if case.name not in (names or ()):
            continue
        examples = [cast(case.inputs(s, is_small, setting.device), dtype) for s in case.sizes_of(is_small)]
        with torch.no_grad():
            built = disc(case.build(is_small), examples, setting)
            with compiler.profile(built.module) as profile:
                built(examples[-1])
        launches = sum(len(call.launches) for call in profile.calls)
        print(_MARK + json.dumps([case.name, launches]), flush=True)
    return 0


def by_ncu(names: list[str], dtype: str, device: str, limit: float) -> dict:
    """Bytes and rate of each kernel of the named graphs."""
    ncu = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    if not Path(ncu).exists():
        return {"error": "not installed: ncu"}
    command = [ncu, "--csv", "--page", "raw", "--metrics", ",".join(METRICS), "--kernel-name", OURS]
    command += [sys.executable, str(RUN), "once", "--dtype", dtype, "--device", device]
    for name in names:
        command += ["--case", name]
    found = truth.run(command, limit)
    text = found.pop("stdout", "")
    kernels = of_graphs(rows(text), text)
    if kernels:
        found.pop("said", None)
    return found | {"graphs": names, "kernels": kernels}


def of_graphs(kernels: list[dict], text: str) -> list[dict]:
    """The kernels with the name of their graph, as the process told it, call by call."""
    told = [json.loads(line[len(_MARK) :]) for line in text.splitlines() if line.startswith(_MARK)]
    graphs = [name for name, launches in told for _ in range(launches)]
    if len(graphs) != len(kernels):
        return kernels
    return [{"graph": graph, **kernel} for graph, kernel in zip(graphs, kernels, strict=True)]


def rows(text: str) -> list[dict]:
    """The kernels in ncu's table of raw values, whose second line has the units."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    table = list(csv.DictReader(io.StringIO("\n".join(lines))))
    if len(table) < 2 or METRICS[0] not in table[0]:
        return []
    units, *values = table
    found = []
    for row in values:
        read, written, ns = (_number(row[name]) * _UNITS[units[name]] for name in METRICS)
        found.append(
            {
                "name": row["Kernel Name"], "read": round(read), "written": round(written),
                "us": round(ns / 1e3, 3), "gbs": round((read + written) / ns, 1) if ns else None,
            }
        )  # fmt: skip
    return found


#: Factors to bytes and to nanoseconds.
_UNITS = {
    "byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9,
    "nsecond": 1.0, "usecond": 1e3, "msecond": 1e6, "ns": 1.0, "us": 1e3, "ms": 1e6,
}  # fmt: skip


def _number(text: str) -> float:
    return float(text.replace(",", ""))
