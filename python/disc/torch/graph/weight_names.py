"""Names the weights of a module: parameters, buffers,
and the plain tensors that a tensor subclass is made of.

Invariant: ``find`` gives the tensor that ``named`` names, also after values or whole weights were
replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ...core.errors import Error

#: Classes of tensors without a behaviour of their own.
PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def parts(t: torch.Tensor) -> list[str] | None:
    """The attributes that hold the plain tensors of a tensor subclass;
    None for a tensor that has none.
    """
    if type(t) in PLAIN or not hasattr(t, "__tensor_flatten__") or not hasattr(t, "__tensor_unflatten__"):
        return None
    return list(t.__tensor_flatten__()[0])


def named(module: torch.nn.Module, remove_duplicate: bool = True) -> Iterator[tuple[str, torch.Tensor]]:
    """Weights with their names; a tensor subclass comes as what it is made of
    (``linear.weight.scale``).
    """
    for name, t in module.named_parameters(remove_duplicate=remove_duplicate):
        yield from _plain(name, t)
    for name, t in module.named_buffers(remove_duplicate=remove_duplicate):
        yield from _plain(name, t)


def _plain(name: str, t: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    held = parts(t)
    if held is None:
        yield name, t
        return
    for attribute in held:
        part = getattr(t, attribute)
        if not isinstance(part, torch.Tensor):
            # A mesh of devices, for example.
            kind = f"{type(t).__name__}, whose {attribute} is a {type(part).__name__}"
            raise Error(f"weight {name} is a {kind}", code="E0801", help="let torch run the module")
        yield from _plain(f"{name}.{attribute}", part)


def refuse_subclasses(weights: Iterable[tuple[str, torch.Tensor]]) -> None:
    """Raises for a weight that compiled code would read, and whose class has ops of its own."""
    for name, t in weights:
        kind = type(t)
        if kind in PLAIN or (
            kind.__torch_function__ is torch._C._disabled_torch_function_impl
            and kind.__torch_dispatch__ is torch.Tensor.__torch_dispatch__
        ):
            continue
        raise Error(
            f"weight {name} is a {kind.__name__}, which is no plain tensor",
            code="E0801",
            help="let torch run the module, or convert the weight",
        )


def find(module: torch.nn.Module, name: str) -> torch.Tensor | None:
    """The weight of this name as compiled code reads it,
    complex numbers as pairs; None if it is gone.
    """
    found: Any = module
    for step in name.split("."):
        found = _child(found, step)
    if not isinstance(found, torch.Tensor):
        return None
    return torch.view_as_real(found) if found.is_complex() else found


def _child(owner: Any, name: str) -> Any:
    if isinstance(owner, torch.nn.Module):
        for table in (owner._modules, owner._parameters, owner._buffers):
            if name in table:
                return table[name]
    return getattr(owner, name, None)


def as_read(weights: Iterable[tuple[str, torch.Tensor]]) -> list[tuple[str, torch.Tensor]]:
    """Named weights as compiled code reads them: without gradients, complex numbers as pairs."""
    held = ((name, t.detach()) for name, t in weights)
    return [(name, torch.view_as_real(t) if t.is_complex() else t) for name, t in held]


def bytes_of(weights: Iterable[tuple[str, torch.Tensor]]) -> int:
    """The bytes of named weights."""
    return sum(t.numel() * t.element_size() for _, t in weights)


class Names:
    """Finds the name of a tensor: by identity,
    else by its memory (``weight.data`` is a tensor of its own each time).
    """

    def __init__(self, module: torch.nn.Module):
        self._weights = list(named(module))
        self._by_identity: dict[int, str] = {}
        for name, t in self._weights:
            self._by_identity.setdefault(id(t), name)
        self._by_place: dict[tuple, str] | None = None

    def of(self, t: torch.Tensor) -> str | None:
        if (name := self._by_identity.get(id(t))) is not None:
            return name
        if self._by_place is None:
            self._by_place = {}
            for name, weight in self._weights:
                if (where := place(weight)) is not None:
                    self._by_place.setdefault(where, name)
        return self._by_place.get(place(t))


def place(t: torch.Tensor) -> tuple | None:
    """The memory of a tensor and its layout there; None if it has none of its own."""
    if type(t) not in PLAIN or t.layout is not torch.strided or t.is_meta or not t.numel():
        return None
    if isinstance(t, torch.nn.parameter.UninitializedTensorMixin) or t.is_conj() or t.is_neg():
        return None
    return t.untyped_storage().data_ptr(), t.storage_offset(), tuple(t.shape), t.stride(), t.dtype


def identities(module: torch.nn.Module) -> frozenset[int]:
    """The weights of a module by identity, for walks while it has these."""
    return frozenset(id(t) for _, t in named(module, remove_duplicate=False))
