"""Keeps and restores the state of torch's generators of random numbers: the CPU's, and those of
CUDA devices where this process uses them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class GeneratorStates:
    """The states of the default generators."""

    host: torch.Tensor
    devices: list[torch.Tensor]

    def restore(self) -> None:
        """Random numbers are drawn from here again."""
        torch.set_rng_state(self.host)
        if self.devices:
            torch.cuda.set_rng_state_all(self.devices)


def generator_states() -> GeneratorStates:
    """The states as they are now; those of devices are known to the host."""
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return GeneratorStates(torch.get_rng_state(), devices)
