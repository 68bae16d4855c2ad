"""Counts the instructions of kernels and models for AArch64 under qemu: nothing runs on hardware.

Packages are made for each target and called once for each of a few sizes; a plug-in of qemu counts
the instructions of the generated code, host program included.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from record import Record
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import aarch64_packages as packages  # noqa: E402

#: Features of rows, and those that they are multiplied to.
WIDTH = 256

LINE = re.compile(r"^(\w+) by (\S+): (\d+) instructions for @\w+ at \{(.*)\}$", re.MULTILINE)


class Normalized(nn.Module):
    """Softmax of rows."""

    def forward(self, x):
        return x.softmax(-1)


def kernels():
    """Yields name and module; the input is ``[B, S, WIDTH]``."""
    yield "linear_f32", nn.Linear(WIDTH, WIDTH)
    yield "linear_bf16", nn.Linear(WIDTH, WIDTH).bfloat16()
    yield "softmax", Normalized()
    yield "gelu", nn.GELU()
    yield "layer_norm", nn.LayerNorm(WIDTH)


def models():
    """Yields name, model, example and names of sizes."""
    for name, module in kernels():
        dtype = torch.bfloat16 if name.endswith("bf16") else torch.float32
        yield name, module, (torch.randn(2, 9, WIDTH, dtype=dtype),), {0: {0: "B", 1: "S"}}
    yield from packages.models()


def counted(folder: Path) -> str:
    """Runs the tests of packages with the plug-in; returns their lines."""
    source, plugin = ROOT / "crates/disc/tests/aarch64/count.c", folder / "count.so"
    subprocess.run(["gcc", "-std=gnu11", "-O1", "-shared", "-fPIC", "-o", plugin, source], check=True)
    env = os.environ | {"DISC_AARCH64_PACKAGES": str(folder), "DISC_AARCH64_COUNT": str(plugin)}
    test = ["cargo", "test", "--quiet", "--package", "disc", "--test", "aarch64", "--"]
    command = [*test, "package/", "--skip", "package/text", "--test-threads", "1"]
    return subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help="write a record")
    arguments = parser.parse_args()
    record = Record("python benches/instructions.py" + (" --save" if arguments.save else ""))
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model in models():
            packages.export(folder, *model)
        found = LINE.findall(counted(folder))
    if not found:
        sys.exit("error: nothing was counted: is qemu-aarch64 with plug-ins installed?")
    results = []
    for model, target, count, sizes in found:
        of = {key: int(size) for key, size in (part.split(": ") for part in sizes.split(", "))}
        results.append({"model": model, "target": target, "sizes": of, "instructions": int(count)})
    table = []
    for model in dict.fromkeys(row["model"] for row in results):
        rows = [row for row in results if row["model"] == model]
        for sizes in [rows[0]["sizes"], rows[1]["sizes"]]:
            shown = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            table.append(f"{model} at {shown}, in thousands:")
            counts = {row["target"]: row["instructions"] for row in rows if row["sizes"] == sizes}
            table += [f"  {target:48} {count / 1e3:12.1f}" for target, count in counts.items()]
    print("\n".join(table))
    if arguments.save:
        note = "Instructions under qemu-user. Nothing was timed on hardware."
        record.save("aarch64-instructions", results, [*record.head(), note, "", *table])


if __name__ == "__main__":
    main()
