"""Watches the weights that compiled code holds in a prepared form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ...core import extension


def watch_weights(module: torch.nn.Module, names: Iterable[str]):
    """Notes the weights of these names, as they are in ``module``; ``holds()`` of the result says
    whether they are the same tensors, with the memory and values that they have now.

    A tensor subclass comes as what it is made of: the parts are watched, and that it is in place.
    """
    tables: dict[tuple[int, str], tuple[dict, str, bool]] = {}
    parts: list[tuple[torch.Tensor, bool]] = []
    for name in names:
        owner: Any = module
        *path, leaf = name.split(".")
        for at, step in enumerate(path):
            if (child := _child(owner, step)) is not None:
                owner = child
                continue
            # The rest of the path leads into a tensor.
            leaf, rest = step, [*path[at + 1 :], leaf]
            break
        else:
            rest = []
        table = owner._parameters if leaf in owner._parameters else owner._buffers
        found = table[leaf]
        # Vectors may be copied too, into what is folded: their versions tell.
        tables[id(table), leaf] = table, leaf, not rest and found.dim() > 1
        for step in rest:
            found = getattr(found, step)
        if rest:
            parts.append((found, found.dim() > 1))
    return extension.weight_watch(list(tables.values()), parts)


def _child(owner: torch.nn.Module, step: str) -> torch.nn.Module | None:
    found = owner._modules.get(step)
    if found is None and step not in owner._parameters and step not in owner._buffers:
        # A compiled module within another one stands in for its original.
        found = getattr(owner, step, None)
    return found if isinstance(found, torch.nn.Module) else None


def gives_gradients(module: torch.nn.Module) -> bool:
    """Returns true if tensors took the place of parameters to be differentiated by, as
    ``torch.func.functional_call`` puts them there.
    """
    if not torch.is_grad_enabled():
        return False
    return any(
        t is not None and t.requires_grad and not isinstance(t, torch.nn.Parameter)
        for m in module.modules()
        for t in m._parameters.values()
    )
