"""Runs a module on copies of its inputs, and puts the state that it changed back."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch.utils import _pytree as pytree

from ..capture.side_effects import as_it_was
from ..devices.generators import generator_states
from ..pytree import kv_caches


def run_apart(original: torch.nn.Module, runs, args: tuple, kwargs: dict, changed: list[str]) -> list:
    """Calls ``runs`` on copies of the inputs; its results, then the inputs, the buffers of
    ``original`` and its parameters ``changed`` as they are afterwards. The state of the module and
    of random numbers is put back, and other attributes of the original where it is what runs.
    """
    leaves, spec = kv_caches.flatten((args, kwargs))
    leaves = [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in leaves]
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    buffers = {name: (t, t.clone()) for name, t in original.named_buffers()}
    parameters = [(t, t.detach().clone()) for name, t in original.named_parameters() if name in changed]
    drawn = generator_states()
    try:
        with as_it_was(original) if runs is original else nullcontext():
            results = [_kept(x) for x in pytree.tree_leaves(runs(*args, **kwargs))]
            inputs = [x for x in leaves if isinstance(x, torch.Tensor)]
            state = [*(t for _, t in original.named_buffers()), *(t for t, _ in parameters)]
            return [*results, *inputs, *(t.detach().clone() for t in state)]
    finally:
        drawn.restore()
        for name, (t, before) in buffers.items():
            path, _, leaf = name.rpartition(".")
            original.get_submodule(path)._buffers[leaf] = t
            with torch.no_grad():
                t.copy_(before)
        with torch.no_grad():
            for t, before in parameters:
                t.copy_(before)


def _kept(x):
    """A result that no later write changes."""
    return x.clone() if isinstance(x, torch.Tensor) else x
