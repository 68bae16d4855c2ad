"""Compiles models with the cache on disk, and tells what it did."""

from __future__ import annotations

import pathlib

import disc
import torch


class Net(torch.nn.Module):
    def __init__(self, act=torch.relu, scale=2.0):
        super().__init__()
        self.inner = torch.nn.Linear(4, 3)
        self.act = act
        self.scale = scale
        self.register_buffer("shift", torch.ones(3))

    def forward(self, x):
        return {"y": self.act(self.inner(x)) * self.scale + self.shift}


def used(module, *inputs, **kwargs):
    """Returns the outcomes of both levels, and the compiled module,
    which was compared with the original.
    """
    fast = disc.optimize(module, inputs, **kwargs)
    with torch.no_grad():
        torch.testing.assert_close(fast(*inputs), module(*inputs))
    values = disc.report(fast).to_dict()
    return (values["cache"]["capture"], values["cache"]["code"]), fast


def entries(folder) -> list[pathlib.Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
