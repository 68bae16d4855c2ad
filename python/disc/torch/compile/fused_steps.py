"""Counts the steps of fused optimizers among the versions of their parameters.

torch's fused steps write parameters without raising their versions, by which prepared weights are
known to be current (torch 2.13).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import torch
from torch.autograd.graph import increment_version
from torch.optim.optimizer import register_optimizer_step_post_hook

_lock = threading.Lock()
_is_counting = False


def count() -> None:
    """Counts the steps of all optimizers of the process from now on, by a hook of torch's own."""
    global _is_counting
    with _lock:
        if not _is_counting:
            register_optimizer_step_post_hook(_counted)
            _is_counting = True


# dynamo runs a fused step between its graphs, and traces hooks.
@torch._dynamo.disable
def note(parameters: Iterable[torch.Tensor]) -> None:
    """Counts a step among the versions of parameters."""
    increment_version([held for held in parameters if not held.is_inference()])


def _counted(optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> None:
    for group in optimizer.param_groups:
        if group.get("fused"):
            note(group["params"])
