"""Runs a module in eager mode with the weights of its matmuls quantised as compiled code has them:
what a module of ``Options(weights=)`` is compared with. Rows are quantised too, where they are by
``Options(activations=)``, but those of recurrent layers, which are one op of torch.

Invariant: the matrices are those that the pass ``quantize-weights`` takes. They are right operands
of a matmul in f32, computed only from weights, and large enough.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

if TYPE_CHECKING:
    from ...core.options import Options

aten = torch.ops.aten
#: Smaller matrices stay exact, and so do matrices of so few columns that are stored along the sums.
_FEW_ELEMENTS, _FEW_COLUMNS = 1 << 10, 8
#: Rows of longer sums of int8 stay exact, since a sum may not fit 32 bits.
_MOST_TERMS = (2**31 - 1) // (127 * 127)
#: Weights of a column that share a scale in int4.
_BLOCK = 32
#: Ops with matrices of weights on the right, and the places of these.
_PRODUCTS = {aten.mm.default: (1,), aten.addmm.default: (2,), aten.bmm.default: (1,)}
_MATMULS = (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__)
_SUMS = (torch.einsum, torch.functional.einsum)
#: Ops with matrices ``[columns, sums]``.
_TRANSPOSED = {aten.mkldnn_rnn_layer.default: (1, 2)}


def quantised(options: Options, weights: Iterable[torch.Tensor]) -> contextlib.AbstractContextManager:
    """Within it matmuls read ``weights``, and the rows that they multiply them by, as ``options``
    say.
    """
    stack = contextlib.ExitStack()
    stack.enter_context(_Unfused())
    stack.enter_context(_Quantised(options.weights, options.activations == "int8", weights))
    return stack


class _Unfused(TorchFunctionMode):
    """Modules of torch take no fused path while there is a mode: it hides the products."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is F.linear and args and args[0].dim() == 1:
            # Of a vector torch makes a product with the weights on the left.
            return func(args[0].unsqueeze(0), *args[1:], **(kwargs or {})).squeeze(0)
        if func in _SUMS:
            # A contraction whose weights are no matrix reads them as they are.
            args = pytree.tree_map_only(torch.Tensor, _exact_unless_matrix, args)
        if func in _MATMULS and len(args) == 2 and not kwargs and args[0].dim() == 2 and args[1].dim() > 2:
            # Of a matrix by matrices torch makes one product, with the matrix on the right.
            return func(args[0].expand(*args[1].shape[:-2], *args[0].shape), args[1])
        return func(*args, **(kwargs or {}))


def _exact_unless_matrix(t: torch.Tensor) -> torch.Tensor:
    """``t``; what has more axes than a matrix as a tensor that is not among the weights."""
    if t.dim() <= 2:
        return t
    with _disable_current_modes():
        return t.detach()


class _Quantised(TorchDispatchMode):
    def __init__(self, form: str, rows: bool, weights: Iterable[torch.Tensor]):
        super().__init__()
        self._form, self._rows = form, rows
        #: Tensors that are computed only from weights: held, so that no other one gets their ids.
        self._fixed = {id(t): t for t in weights}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = list(args)
        for place in _PRODUCTS.get(func, ()):
            given[place] = self._narrow(args[place])
            if self._rows and given[place] is not args[place] and args[place].shape[-2] <= _MOST_TERMS:
                given[place - 1] = rows_in_steps(args[place - 1])
        for place in _TRANSPOSED.get(func, ()):
            given[place] = self._narrow(args[place], transposed=True)
        made = func(*given, **(kwargs or {}))
        read = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        if read and not func._schema.is_mutable and all(id(t) in self._fixed for t in read):
            self._fixed |= {id(t): t for t in pytree.tree_leaves(made) if isinstance(t, torch.Tensor)}
        return made

    def _narrow(self, weights: torch.Tensor, transposed: bool = False) -> torch.Tensor:
        if id(weights) not in self._fixed or weights.dtype != torch.float32:
            return weights
        if weights.dim() == 3:
            return self._narrow(self._kept(weights[0])).unsqueeze(0) if weights.shape[0] == 1 else weights
        matrix = weights.t() if transposed else weights
        along_sums = matrix.shape[1] <= _FEW_COLUMNS and matrix.stride(0) == 1
        if matrix.numel() < _FEW_ELEMENTS or along_sums:
            return weights
        made = narrowed(matrix, self._form)
        return made.t() if transposed else made

    def _kept(self, t: torch.Tensor) -> torch.Tensor:
        self._fixed[id(t)] = t
        return t


def narrowed(matrix: torch.Tensor, form: str) -> torch.Tensor:
    """The f32 values of a matrix ``[sums, columns]`` that is stored in a narrow form."""
    if form == "bf16":
        return matrix.to(torch.bfloat16).float()
    if form == "int8":
        return _steps(matrix, 0, 127.0)
    rows, columns = matrix.shape
    blocks = F.pad(matrix, (0, 0, 0, -rows % _BLOCK)).reshape(-1, _BLOCK, columns)
    return _steps(blocks, 1, 7.0).reshape(-1, columns)[:rows]


def rows_in_steps(rows: torch.Tensor) -> torch.Tensor:
    """The f32 values of rows that are stored as int8."""
    scale = _scale(rows, -1, 127.0)
    return (rows * (1.0 / scale)).round() * scale


def _steps(x: torch.Tensor, axis: int, steps: float) -> torch.Tensor:
    scale = _scale(x, axis, steps)
    return (x / scale).round() * scale


def _scale(x: torch.Tensor, axis: int, steps: float) -> torch.Tensor:
    return (x.abs().amax(axis, keepdim=True) / steps).clamp(min=torch.finfo(torch.float32).tiny)
