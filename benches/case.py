"""``Case``: one model of a suite with the sizes that it is measured at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Case:
    """``make(*size)`` gives the inputs for one size; all sizes of a case are distinct."""

    name: str
    module: torch.nn.Module
    sizes: tuple[tuple[int, ...], ...]
    make: Callable[..., tuple[torch.Tensor, ...]]
    #: Floating-point operations of a size, where they are what bounds the case.
    flops: Callable[..., int] | None = None

    def inputs(self, size: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
        return self.make(*size)

    def gigaflops(self, size: tuple[int, ...]) -> float | None:
        return self.flops(*size) / 1e9 if self.flops is not None else None


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)
