"""Describes the device in a record: the card, its memory and clocks, and the versions around it."""

from __future__ import annotations

import importlib.metadata
import subprocess

import torch

from .clock import Clock

PACKAGES = ("disc-compiler", "torch", "triton", "jax", "jaxlib", "transformers", "cupy-cuda13x", "numpy")
#: Questions to nvidia-smi.
_ASKED = (
    "driver_version", "pstate", "clocks.sm", "clocks.max.sm", "clocks.mem", "power.limit", "temperature.gpu",
    "ecc.mode.current", "mig.mode.current", "clocks_throttle_reasons.active",
)  # fmt: skip


def describe(clock: Clock) -> dict:
    """The device by name, with its limits; records of two cards are never compared."""
    found: dict = {"device": str(clock.device), "packages": packages(), "cuda": torch.version.cuda}
    if not clock.is_cuda:
        return found | {"card": "CPU: a test of the commands, no measurement"}
    about = torch.cuda.get_device_properties(clock.device)
    return found | {
        "card": about.name,
        "capability": list(torch.cuda.get_device_capability(clock.device)),
        "multiprocessors": about.multi_processor_count,
        "memory_bytes": about.total_memory,
        "l2_bytes": getattr(about, "L2_cache_size", None),
        "cudnn": torch.backends.cudnn.version(),
        "smi": _smi(),
    }


def packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _smi() -> dict[str, str] | None:
    command = ["nvidia-smi", f"--query-gpu={','.join(_ASKED)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return dict(zip(_ASKED, (cell.strip() for cell in done.stdout.splitlines()[0].split(",")), strict=False))
