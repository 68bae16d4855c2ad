"""Cases in half types instead of f32."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from case import Case

HALVES = {"bf16": torch.bfloat16, "f16": torch.float16}


class NarrowCase:
    """A case whose module and inputs are of a half type; ``wide`` is its module in f32."""

    def __init__(self, case: Case, dtype: torch.dtype):
        self._case, self._dtype = case, dtype
        self.wide, self.module = case.module, copy.deepcopy(case.module).to(dtype)

    def __getattr__(self, name: str):
        return getattr(self._case, name)

    def inputs(self, size) -> tuple[torch.Tensor, ...]:
        return tuple(t.to(self._dtype) if t.is_floating_point() else t for t in self._case.inputs(size))


def widened(inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(t.float() if t.is_floating_point() else t for t in inputs)


def with_wide_inputs(call: Callable, examples) -> Callable:
    """A call of a model in f32 on the inputs of examples, which are converted beforehand."""
    wide = {id(x): widened(x) for x in examples}
    return lambda inputs: call(wide[id(inputs)])
