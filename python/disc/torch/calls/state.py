"""Keeps the state of a module whose calls change it: what compiled code writes to inputs,
parameters and buffers.

Parameters and buffers that calls change are inputs of the compiled function, taken from the module
at each call. A strided tensor that is written to goes in as a contiguous copy, and is copied back
after the call; a call that fails leaves it as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.autograd.graph import increment_version

from ...core.errors import Error
from ..graph.program import Program
from ..graph.weight_names import find


@dataclass
class Held:
    """The inputs of one call: the tensors of the caller and of the module,
    and those that compiled code gets.
    """

    tensors: list[torch.Tensor]
    given: list[torch.Tensor]


class Shapes:
    """The shapes of the parameters and buffers that calls change, as they were captured: a model
    may branch on them (an observer whose buffer is empty before the first call).
    """

    def __init__(self, module, names: list[str]):
        found = [(name, find(module, name)) for name in names] if module is not None else []
        self._held = [(name, t.shape) for name, t in found if t is not None]

    def difference(self, module) -> Error | None:
        """The error for a tensor that has another shape now."""
        for name, shape in self._held:
            t = find(module, name)
            if t is not None and t.shape != shape:
                return Error(
                    f"{name}, which calls change, has the shape {list(t.shape)}; the module was compiled for {list(shape)}",
                    code="E0601",
                    help="optimize the module once more, as it is now",
                )
        return None


class State:
    """Takes the changed weights from the module ``original()``, and brings changes back."""

    def __init__(self, original, program: Program, names: list[str]):
        self._original = original
        self._names = [*names, *program.state]
        self._state = program.state
        self._written = program.written
        self._dense = frozenset(program.dense)
        self._assigned = program.assigned
        self._shapes = Shapes(original(), program.state)

    @property
    def changed(self) -> list[str]:
        """The parameters and buffers that calls change."""
        inputs = len(self._names) - len(self._state)
        written = [self._names[i] for i in self._written if i >= inputs]
        return list(dict.fromkeys([*written, *(name for name, _, _ in self._assigned)]))

    @staticmethod
    def of(original, program: Program, names: list[str]) -> State | None:
        """The state of a program; None for one that changes nothing."""
        is_needed = program.state or program.written or program.assigned
        return State(original, program, names) if is_needed else None

    def take(self, tensors: list[torch.Tensor]) -> Held:
        """The inputs of a call with these tensors."""
        module = self._original()
        held = [*tensors, *(self._find(module, name) for name in self._state)]
        if torch.is_grad_enabled():
            self._refuse_replaced(held[len(tensors) :])
        # An input of the caller that requires a gradient is refused, as in any call.
        given = [*tensors, *(t.detach() if t.requires_grad else t for t in held[len(tensors) :])]
        for i in self._written:
            if held[i].is_inference() and not torch.is_inference_mode_enabled():
                raise Error(
                    f"{self._names[i]} is written to, and is a tensor of inference mode",
                    code="E0601",
                    help="call within torch.inference_mode(), or pass a clone",
                )
            if not held[i].is_contiguous():
                self._refuse_strided(i, held)
                given[i] = given[i].contiguous()
        return Held(held, given)

    def _refuse_replaced(self, weights: list[torch.Tensor]) -> None:
        """Refuses tensors that took the place of parameters to be differentiated by."""
        for name, t in zip(self._state, weights, strict=True):
            if t.requires_grad and not isinstance(t, torch.nn.Parameter):
                raise Error(f"{name} requires a gradient, and is no parameter", code="E0610")

    def difference(self) -> Error | None:
        """The error for a changed weight that has another shape than the program takes."""
        return self._shapes.difference(self._original())

    def store(self, held: Held, outputs: list) -> None:
        """Brings back what a call wrote and assigned."""
        for i in self._written:
            target = held.tensors[i]
            if not target.is_contiguous():
                with torch.no_grad():
                    target.copy_(held.given[i])
            elif not target.is_inference():
                # Autograd knows a tensor that it saved by its version.
                increment_version(target)
        module = self._original() if self._assigned else None
        for name, kind, place in self._assigned:
            path, _, leaf = name.rpartition(".")
            assigned = outputs[place] if kind == "value" else held.tensors[place]
            module.get_submodule(path)._buffers[leaf] = assigned

    @staticmethod
    def _find(module, name: str) -> torch.Tensor:
        found = find(module, name) if module is not None else None
        if found is None:
            raise Error(f"the parameter or buffer {name}, which calls change, is gone from the module")
        return found

    def _refuse_strided(self, i: int, held: list[torch.Tensor]) -> None:
        """Refuses a strided tensor of which a copy would not do."""
        if i in self._dense:
            raise Error(
                f"{self._names[i]} is written to through a view that only a contiguous tensor has",
                code="E0601",
                help="pass a contiguous tensor",
            )
        # The memory of a copy tells nothing about that of the tensor itself.
        memory = held[i].untyped_storage().data_ptr()
        for j, other in enumerate(held):
            if j != i and other.numel() and other.untyped_storage().data_ptr() == memory:
                raise Error(
                    f"{self._names[i]} is written to, has strides, and shares memory with {self._names[j]}",
                    code="E0601",
                    help="pass tensors that share no memory",
                )
