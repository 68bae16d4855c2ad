"""Describes the machine in a record, and tells if it is quiet enough to measure."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import time
from pathlib import Path

PACKAGES = ("torch", "onnxruntime", "openvino", "onnx", "transformers", "timm", "torchvision", "numpy")
FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")


def describe() -> dict:
    """The CPU, its vector extensions, the cores of this process and the versions that matter."""
    info = _cpuinfo()
    have = set(info.get("flags", "").split())
    return {
        "cpu": info.get("model name", platform.processor() or platform.machine()),
        "family_model": f"{info.get('cpu family', '?')}/{info.get('model', '?')}",
        "flags": [flag for flag in FLAGS if flag in have],
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name)) is not None},
    }


def fma_peak(threads: int) -> float | None:
    """GFLOP/s of multiply-adds in registers on this many threads at once; ``None`` without cargo to
    build the program.
    """
    if (cargo := shutil.which("cargo")) is None:
        return None
    command = [cargo, "run", "--quiet", "--release", "--package", "disc-ral", "--example", "fma_peak", "--"]
    ran = subprocess.run([*command, str(threads)], cwd=Path(__file__).parent, capture_output=True, text=True)
    if ran.returncode:
        return None
    return json.loads(ran.stdout)["one_thread" if threads == 1 else f"{threads}_threads"]


def _cpuinfo() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, separator, value = line.partition(":")
        if separator:
            found.setdefault(name.strip(), value.strip())
    return found


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def noise(seconds: float = 0.5) -> list[str]:
    """Reasons not to trust a measurement made now."""
    before = _ticks()
    time.sleep(seconds)
    after = _ticks()
    spent = {name: after[name] - before[name] for name in after}
    total = max(sum(spent.values()), 1)
    reasons = []
    if (busy := 1 - (spent["idle"] + spent["iowait"]) / total) > 0.1:
        reasons.append(f"other work uses {busy:.0%} of the cores: stop it, or trust ratios alone")
    if (steal := spent["steal"] / total) > 0.01:
        reasons.append(f"the host takes {steal:.0%} of the time away (steal)")
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor.exists() and (kind := governor.read_text(encoding="utf-8").strip()) != "performance":
        reasons.append(f"the frequency governor is {kind}: cpupower frequency-set -g performance")
    return reasons


def _ticks() -> dict[str, int]:
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    fields = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:]
    return dict(zip(names, map(int, fields), strict=False))
