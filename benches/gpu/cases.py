"""``GpuCase``: a module, its sizes on a GPU, and small ones for a test of the commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

Size = tuple[int, ...]


@dataclass(frozen=True)
class GpuCase:
    """``build(small)`` gives the module, ``make(*size)`` its inputs in f32.

    Sizes are distinct, and so are the small ones, of which there are at least two.
    """

    name: str
    build: Callable[[bool], torch.nn.Module]
    make: Callable[..., tuple[torch.Tensor, ...]]
    sizes: tuple[Size, ...]
    small: tuple[Size, ...]
    #: Results of integers are places among elements that may be equal.
    ties: bool = False
    #: Inputs of the small module, if their sizes alone do not make them small.
    make_small: Callable[..., tuple[torch.Tensor, ...]] | None = None

    def sizes_of(self, small: bool) -> tuple[Size, ...]:
        return self.small if small else self.sizes

    def inputs(self, size: Size, small: bool, device: torch.device) -> tuple[torch.Tensor, ...]:
        """Random inputs in f32, made on the device."""
        make = self.make_small if small and self.make_small is not None else self.make
        with device:
            return make(*size)
