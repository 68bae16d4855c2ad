"""Writes the package of a small sentence encoder, for trying servers: ``make_package.py FILE``."""

from __future__ import annotations

import sys

import disc
import torch


class Sentence(torch.nn.Module):
    """The mean of the embeddings of some words."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(7, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table(ids).mean(1)


if __name__ == "__main__":
    torch.manual_seed(0)
    disc.export(
        Sentence().eval(), (torch.tensor([[1, 2, 3]]),), sys.argv[1], target=["x86-64-v2", "x86-64-v3"]
    )
