"""Compares results with a computation in f64, so that nobody is timed for something else."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch
from torch.utils import _pytree as pytree

from .dtypes import DTYPES

#: A contestant may differ from f64 by so many times as much as eager does.
BESIDE_EAGER = 4.0


class Wrong(Exception):
    """A contestant computes something else than the module."""


def tensors(results) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]


class Reference:
    """The module in f64, or in f32 if it does not run in f64."""

    def __init__(self, module: torch.nn.Module):
        self._module = module
        self._copies: dict[torch.dtype, torch.nn.Module] = {}
        self.name = "f64"

    def results(self, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        if self.name == "f64":
            try:
                return self._run(inputs, torch.float64)
            except (RuntimeError, TypeError, NotImplementedError):
                self.name = "f32"
        return self._run(inputs, torch.float32)

    def _run(self, inputs, dtype: torch.dtype) -> list[torch.Tensor]:
        if dtype not in self._copies:
            self._copies[dtype] = copy.deepcopy(self._module).to(dtype)
        wide = [t.to(dtype) if t.is_floating_point() else t for t in inputs]
        return tensors(self._copies[dtype](*wide))


def poison(expected: list[torch.Tensor]) -> None:
    """Fills memory that the allocator hands out next: results that nobody writes show up as NaN or
    as a large number, rather than as the results of the call before.
    """
    blocks = [torch.empty_like(t) for t in expected for _ in range(2)]
    for block in blocks:
        if block.is_floating_point():
            block.fill_(float("nan"))
        elif block.dtype != torch.bool:
            block.fill_(torch.iinfo(block.dtype).max // 2)


def error_of(found: list[torch.Tensor], wanted: list[torch.Tensor], ties: bool) -> float:
    """The largest difference of one call, over the largest magnitude of each result; of integers,
    the share of elements that differ.

    With ``ties``, integers are places of elements among equal ones, and any of those is right.
    """
    shapes, theirs = [list(t.shape) for t in found], [list(t.shape) for t in wanted]
    if shapes != theirs:
        raise Wrong(f"results of shapes {shapes}, expected {theirs}")
    worst = 0.0
    for got, right in zip(found, wanted, strict=True):
        got = got.to(right.device)
        if not right.numel():
            continue
        if right.is_floating_point():
            # A value beyond the range of the result's type is infinite in it.
            rounded = right.to(got.dtype).to(right.dtype)
            right = torch.where(rounded.isinf(), rounded, right)
            worst = max(worst, _float_error(got.to(right.dtype), right))
        elif not ties:
            worst = max(worst, (got.to(right.dtype) != right).float().mean().item())
    return worst


def _float_error(got: torch.Tensor, right: torch.Tensor) -> float:
    finite = right.isfinite()
    if not bool(((got == right) | (got.isnan() & right.isnan()) | finite).all()):
        return float("inf")
    zero = torch.zeros((), dtype=right.dtype, device=right.device)
    difference = torch.where(finite, (got - right).abs(), zero).max().item()
    scale = torch.where(finite, right.abs(), zero).max().item()
    error = difference / max(scale, 1e-9)
    # A NaN where a number is expected is no number to compare.
    return float("inf") if math.isnan(error) else error


def limit(dtype: str, eager_error: float) -> float:
    """The largest error that is none, for a contestant beside eager's own error."""
    least = DTYPES[dtype][1]
    return max(least, BESIDE_EAGER * eager_error) if math.isfinite(eager_error) else least


def largest_error(
    call: Callable[[tuple], list[torch.Tensor]], examples: list, wanted: list, ties: bool
) -> float:
    """The largest error over all sizes, with the memory of results poisoned before each call."""
    worst = 0.0
    for inputs, right in zip(examples, wanted, strict=True):
        poison(right)
        worst = max(worst, error_of(call(inputs), right, ties))
    return worst
