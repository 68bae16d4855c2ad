"""Arguments and results as flat lists: which leaves are tensors, what they are called,
and how the structure comes back.

It is a thin layer over ``torch.utils._pytree``; nothing here looks at sizes. A number that a call
may change is passed in a tensor (``open_numbers``).
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...core.dims import DimPlan
from ...core.errors import Error
from . import kv_caches
from .held_values import HELD, HeldValues
from .open_numbers import AXES, OpenNumber, carrier, number_in

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


@dataclass(frozen=True)
class Arguments:
    """The flattened example call: ``spec`` rebuilds ``(args, kwargs)`` from leaves;
    ``names`` has one entry per leaf.
    """

    spec: pytree.TreeSpec
    names: tuple[str, ...]
    #: The leaves that are tensors or open numbers.
    tensors: tuple[int, ...]
    constants: dict[int, Any]
    #: The leaves that are open numbers, by their type.
    numbers: dict[int, type] = field(default_factory=dict)
    #: The values of the module that each call passes, under the keyword ``HELD``.
    held: HeldValues | None = None

    @property
    def tensor_names(self) -> list[str]:
        return [self.names[i] for i in self.tensors]

    def rebuild(self, tensors) -> tuple[tuple, dict]:
        """The arguments of the module."""
        args, kwargs, _ = self.rebuild_all(tensors)
        return args, kwargs

    def rebuild_all(self, tensors) -> tuple[tuple, dict, dict]:
        """The arguments of the module, and the values that it holds by name."""
        leaves = [self.constants.get(i) for i in range(len(self.names))]
        for place, tensor in zip(self.tensors, tensors, strict=True):
            leaves[place] = number_in(tensor, self.numbers[place]) if place in self.numbers else tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return args, kwargs, kwargs.pop(HELD) if self.held is not None else {}

    def plan(self, dims, tensors) -> DimPlan:
        """Reads what the user said of the sizes of ``tensors``, which are those of the example."""
        kinds = [self.numbers.get(i) for i in self.tensors]
        kept = [
            (name, t.shape)
            for name, t, kind in zip(self.tensor_names, tensors, kinds, strict=True)
            if kind is None
        ]
        rows = iter(DimPlan.read(dims, [name for name, _ in kept], [shape for _, shape in kept]).axes)
        return DimPlan(tuple(next(rows) if kind is None else AXES[kind] for kind in kinds))


def flatten_arguments(
    module: torch.nn.Module, args: tuple, kwargs: dict, held: HeldValues | None = None
) -> tuple[Arguments, list[torch.Tensor]]:
    """Flattens an example call, with the values that the module holds, and names its leaves after
    the parameters of ``module.forward``.
    """
    if held is not None:
        kwargs = {**kwargs, HELD: held.example()}
    kv_caches.flatten((args, kwargs))
    paths, spec = pytree.tree_flatten_with_path((args, kwargs))
    tops = _parameter_names(module, len(args))
    names, tensors, constants = [], {}, {}
    for i, (path, leaf) in enumerate(paths):
        names.append(_leaf_name(path, tops))
        if isinstance(leaf, torch.Tensor):
            tensors[i] = leaf
        elif isinstance(leaf, OpenNumber):
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
    numbers = {i: paths[i][1].kind for i in tensors if isinstance(paths[i][1], OpenNumber)}
    call = Arguments(spec, tuple(names), tuple(tensors), constants, numbers, held)
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
