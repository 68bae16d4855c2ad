"""Arguments and results as flat lists: which leaves are tensors, what they are called,
and how the structure comes back.

It is a thin layer over ``torch.utils._pytree``; nothing here looks at sizes. An integer that a call
may change (``OpenInteger``) is the size of a tensor without elements: it has a symbol, facts and
checks as sizes of tensors have them.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...core.dims import DimPlan
from ...core.errors import Error
from . import kv_caches

CONSTANTS = (
    int,
    float,
    bool,
    complex,
    str,
    bytes,
    type(None),
    torch.dtype,
    torch.device,
    torch.memory_format,
)
#: Integers from here on are no sizes.
_TOO_LARGE = 2**62


class OpenInteger(int):
    """An integer of an example of which calls have other values."""


def may_be_open(leaf) -> bool:
    """Returns true for an integer that can be a size; 0 is one of its own (``1 / n``, ``if n``)."""
    return type(leaf) in (int, OpenInteger) and 0 < leaf < _TOO_LARGE


def carrier(value: int) -> torch.Tensor:
    """The tensor that has an integer for its first size."""
    return torch.empty((value, 0), dtype=torch.int8)


@dataclass(frozen=True)
class Arguments:
    """The flattened example call: ``spec`` rebuilds ``(args, kwargs)`` from leaves;
    ``names`` has one entry per leaf.
    """

    spec: pytree.TreeSpec
    names: tuple[str, ...]
    #: The leaves that are tensors or open integers.
    tensors: tuple[int, ...]
    constants: dict[int, Any]
    #: The leaves that are open integers.
    integers: frozenset[int] = frozenset()

    @property
    def tensor_names(self) -> list[str]:
        return [self.names[i] for i in self.tensors]

    def rebuild(self, tensors) -> tuple[tuple, dict]:
        leaves = [self.constants.get(i) for i in range(len(self.names))]
        for place, tensor in zip(self.tensors, tensors, strict=True):
            leaves[place] = tensor.shape[0] if place in self.integers else tensor
        return pytree.tree_unflatten(leaves, self.spec)

    def plan(self, dims, tensors) -> DimPlan:
        """Reads what the user said of the sizes of ``tensors``, which are those of the example."""
        is_open = [i in self.integers for i in self.tensors]
        kept = [
            (name, t.shape)
            for name, t, is_int in zip(self.tensor_names, tensors, is_open, strict=True)
            if not is_int
        ]
        rows = iter(DimPlan.read(dims, [name for name, _ in kept], [shape for _, shape in kept]).axes)
        return DimPlan(tuple((None, 0) if is_int else next(rows) for is_int in is_open))


def flatten_arguments(
    module: torch.nn.Module, args: tuple, kwargs: dict
) -> tuple[Arguments, list[torch.Tensor]]:
    """Flattens an example call and names its leaves after the parameters of ``module.forward``."""
    kv_caches.flatten((args, kwargs))
    paths, spec = pytree.tree_flatten_with_path((args, kwargs))
    tops = _parameter_names(module, len(args))
    names, tensors, constants = [], {}, {}
    for i, (path, leaf) in enumerate(paths):
        names.append(_leaf_name(path, tops))
        if isinstance(leaf, torch.Tensor):
            tensors[i] = leaf
        elif isinstance(leaf, OpenInteger):
            tensors[i] = carrier(leaf)
        elif isinstance(leaf, CONSTANTS):
            constants[i] = leaf
        else:
            raise Error(
                f"input {names[-1]}: {type(leaf).__name__} is neither a tensor nor a constant nor a container that torch knows",
                code="E0601",
                help=array_cure(leaf)
                or "register the type with torch.utils._pytree (dataclasses: register_dataclass)",
            )
    integers = frozenset(i for i in tensors if isinstance(paths[i][1], OpenInteger))
    call = Arguments(spec, tuple(names), tuple(tensors), constants, integers)
    return call, list(tensors.values())


def array_cure(leaf) -> str | None:
    """The help for an array in the place of a tensor."""
    return "torch.from_numpy makes it a tensor" if isinstance(leaf, np.ndarray) else None


def _parameter_names(module: torch.nn.Module, count: int) -> list[str]:
    names: list[str] = []
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        parameters = ()
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            return names + [f"{parameter.name}_{i}" for i in range(count - len(names))]
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return names + [f"arg{i}" for i in range(len(names), count)]


def _leaf_name(path, tops: list[str]) -> str:
    """``path`` starts with 0 (args) or 1 (kwargs), then the position or the keyword."""
    which, first, *rest = path
    top = tops[first.idx] if which.idx == 0 else str(first.key)
    return top + "".join(_step(key) for key in rest)


def _step(key) -> str:
    if isinstance(key, pytree.SequenceKey):
        return f".{key.idx}"
    return f".{key.key}" if isinstance(key, pytree.MappingKey) else f".{getattr(key, 'name', key)}"
