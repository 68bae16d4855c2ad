"""Builds what a module returns out of the outputs of the compiled function."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..compat import children_of


class Result:
    """Builds what the module returns out of the outputs of the compiled function."""

    def __init__(self, outputs: list[tuple[str, Any]], spec: pytree.TreeSpec):
        self.outputs = outputs
        self.spec = spec
        self.plain = [what for kind, what in outputs if kind == "value"] == list(range(len(outputs)))
        #: The class, the attributes and the keys of a dict-like dataclass.
        self.record: tuple[type, list[str], list[str]] | None = None
        self.make = self._maker(spec)

    def build(self, values, tensors):
        # After what is returned are the new values of what the module changes.
        is_plain = self.plain and len(values) == len(self.outputs)
        return self.make(values if is_plain else self.leaves(values, tensors))

    def leaves(self, values, tensors) -> list:
        """The leaves of the result, in order."""
        return [self._leaf(kind, what, values, tensors) for kind, what in self.outputs]

    @staticmethod
    def _leaf(kind: str, what, values, tensors):
        if kind == "constant":
            return what
        if kind == "input":
            return tensors[what]
        if kind == "contiguous":
            return tensors[what].contiguous()
        if kind == "size":
            return what.of(tensors)
        value = values[what]
        if kind == "complex":
            # Its last axis has both parts.
            return torch.view_as_complex(value)
        return value.item() if kind == "number" and isinstance(value, torch.Tensor) else value

    def _maker(self, spec: pytree.TreeSpec) -> Callable[[Sequence], Any]:
        """The fastest way to give leaves the structure ``spec``."""
        if spec.is_leaf():
            return lambda leaves: leaves[0]
        if all(child.is_leaf() for child in children_of(spec)):
            if spec.type is tuple:
                return tuple
            if (
                isinstance(spec.type, type)
                and issubclass(spec.type, OrderedDict)
                and dataclasses.is_dataclass(spec.type)
            ):
                make, self.record = _record_maker(spec)
                return make
        if _has_size(spec):
            return lambda leaves: _with_sizes(spec, iter(leaves))
        return lambda leaves: pytree.tree_unflatten(list(leaves), spec)


def _has_size(spec: pytree.TreeSpec) -> bool:
    return spec.type is torch.Size or any(map(_has_size, children_of(spec)))


def _with_sizes(spec: pytree.TreeSpec, leaves) -> Any:
    """``tree_unflatten``, for which a shape is a ``torch.Size`` and no tuple."""
    if spec.is_leaf():
        return next(leaves)
    children = [_with_sizes(child, leaves) for child in children_of(spec)]
    if spec.type is torch.Size:
        return torch.Size(children)
    return pytree.SUPPORTED_NODES[spec.type].unflatten_fn(children, spec.context)


def _record_maker(spec: pytree.TreeSpec) -> tuple[Callable[[Sequence], Any], Any]:
    """For dict-like dataclasses, as the outputs of transformers:
    their constructor costs more than the rest of a call.

    The quick way fills attributes and items itself. It is taken only if it makes what the
    constructor makes; then the class, the attributes and the keys are returned too.
    """
    kind, names = spec.type, [f.name for f in dataclasses.fields(spec.type)]

    def slow(leaves):
        return pytree.tree_unflatten(list(leaves), spec)

    model = slow([object() for _ in children_of(spec)])
    keys = list(model)

    def quick(leaves):
        made = kind.__new__(kind)
        held = made.__dict__
        for name in names:
            held[name] = None
        for key, leaf in zip(keys, leaves, strict=True):
            held[key] = leaf
            OrderedDict.__setitem__(made, key, leaf)
        return made

    twin = quick(list(model.values()))
    same = (
        vars(twin) == vars(model)
        and list(twin.items()) == list(model.items())
        and len(keys) == len(children_of(spec))
    )
    return (quick, (kind, names, keys)) if same else (slow, None)
