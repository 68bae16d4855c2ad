"""One rank of test_training_ranks.py: ``training_ranks.py KIND RANK RANKS FILE OUT``.

Trains a model for some steps on its share of each batch, and writes the weights to ``OUT.RANK``.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, ROWS = 4, (4, 6, 2, 8)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def batch(step: int) -> torch.Tensor:
    """The whole batch of a step."""
    return torch.randn(2 * ROWS[step], 8, generator=torch.Generator().manual_seed(step))


def train(run, held: nn.Module, share) -> None:
    """Trains ``held`` by calls of ``run`` on what ``share`` takes of each batch."""
    optimizer = torch.optim.SGD(held.parameters(), 0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        run(share(batch(step))).square().mean().backward()
        optimizer.step()


def main(kind: str, rank: int, ranks: int, file: str, out: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=ranks)
    held = model()
    if kind == "ddp":
        wrapped = DistributedDataParallel(held)
        fast = torch.compile(wrapped, backend="disc", dynamic=True)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        fully_shard(held, mesh=init_device_mesh("cpu", (ranks,)))
        fast = torch.compile(held, backend="disc", dynamic=True)
    train(fast, held, lambda whole: whole.chunk(ranks)[rank])
    full = {name: p.full_tensor() if hasattr(p, "full_tensor") else p for name, p in held.named_parameters()}
    torch.save({name: p.detach() for name, p in full.items()}, f"{out}.{rank}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
