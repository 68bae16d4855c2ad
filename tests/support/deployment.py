"""Helpers for the tests of deployments: a small package, and cargo."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import disc
import pytest
import torch

ROOT = Path(__file__).parents[2]

needs_cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")


class Affine(torch.nn.Module):
    """2 * x + 1 for rows of eight."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.full((8,), 2.0))

    def forward(self, x):
        return x * self.scale + 1


def affine(folder: Path) -> Path:
    """Writes the package of :class:`Affine`."""
    path = folder / "affine.discpkg"
    disc.export(Affine().eval(), (torch.randn(3, 8),), path)
    return path


def cargo_build(*arguments: str, cwd: Path = ROOT) -> list[str]:
    """Builds, and returns the paths of the executables."""
    command = ["cargo", "build", "--quiet", "--message-format=json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=os.environ)
    assert done.returncode == 0, done.stderr
    messages = (json.loads(line) for line in done.stdout.splitlines())
    return [message["executable"] for message in messages if message.get("executable")]
