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
        tables[id(table), leaf] = table, leaf, not rest
        for step in rest:
            found = getattr(found, step)
        if rest:
            parts.append((found, True))
    return extension.weight_watch(list(tables.values()), parts)


def _child(owner: torch.nn.Module, step: str) -> torch.nn.Module | None:
    found = owner._modules.get(step)
    if found is None and step not in owner._parameters and step not in owner._buffers:
        # A compiled module within another one stands in for its original.
        found = getattr(owner, step, None)
    return found if isinstance(found, torch.nn.Module) else None


def tied_places(modules: Iterable[torch.nn.Module]) -> list[list[tuple[dict, str]]]:
    """The places of each tensor that more than one place has: a program has one weight for them."""
    found: dict[int, list[tuple[dict, str]]] = {}
    for m in modules:
        for table in (m._parameters, m._buffers):
            for name, t in table.items():
                if t is not None:
                    found.setdefault(id(t), []).append((table, name))
    return [places for places in found.values() if len(places) > 1]


def are_tied(places: list[tuple[dict, str]]) -> bool:
    """Returns true if all of some places have one tensor."""
    (table, name), *others = places
    first = table.get(name)
    return all(table.get(name) is first for table, name in others)


def gives_gradients(module: torch.nn.Module) -> bool:
    """Returns true if tensors took the place of parameters to be differentiated by, as
    ``torch.func.functional_call`` puts them there.
    """
    return torch.is_grad_enabled() and has_replaced(module)


def has_replaced(module: torch.nn.Module) -> bool:
    """Returns true if tensors that require a gradient took the place of parameters."""
    return any(
        t is not None and t.requires_grad and not isinstance(t, torch.nn.Parameter)
        for m in module.modules()
        for t in m._parameters.values()
    )


def versions(module: torch.nn.Module) -> list[tuple[int, int]]:
    """The identities and versions of parameters and buffers."""
    found = [t for m in module.modules() for t in (*m._parameters.values(), *m._buffers.values())]
    return [(id(t), 0 if t.is_inference() else t._version) for t in found if t is not None]
