"""Knows the values of tensors that hold one integer computed from sizes:
``torch.tensor(min(x.shape[0], 512))``.

Where a model asks for their value, it is an expression of sizes and not the number of the example.

Not here: tensors whose value is a number that every call shares; FakeTensorMode knows these.
Invariant: what is returned holds at every call, or nothing is returned.
"""

from __future__ import annotations

import operator

import torch

aten = torch.ops.aten

#: Ops that return the value of a tensor.
ITEMS = frozenset((aten._local_scalar_dense.default, aten.item.default))

_SAME = frozenset(
    (
        aten.alias.default,
        aten.clone.default,
        aten.contiguous.default,
        aten.detach.default,
        aten.lift.default,
        aten.lift_fresh.default,
        aten.lift_fresh_copy.default,
        aten.to.dtype,
        aten.to.dtype_layout,
        aten.to.device,
        aten._to_copy.default,
    )
)
_STEPS = {
    aten.add.Tensor: operator.add,
    aten.add.Scalar: operator.add,
    aten.sub.Tensor: operator.sub,
    aten.sub.Scalar: operator.sub,
    aten.mul.Tensor: operator.mul,
    aten.mul.Scalar: operator.mul,
    aten.rsub.Scalar: lambda x, y: y - x,
    aten.rsub.Tensor: lambda x, y: y - x,
    aten.neg.default: operator.neg,
    aten.minimum.default: torch.sym_min,
    aten.maximum.default: torch.sym_max,
}


def size_of(x) -> int | torch.SymInt | None:
    """The integer that a node stands for, if it is computed only from sizes; nothing else."""
    if isinstance(x, (int, torch.SymInt)) and not isinstance(x, bool):
        return x
    if not isinstance(x, torch.fx.Node) or x.op != "call_function":
        return None
    value = x.meta.get("val")
    # Sizes fit i64, and nothing less surely.
    if not isinstance(value, torch.Tensor) or value.dim() or value.dtype is not torch.int64:
        return None
    if x.target is aten.scalar_tensor.default:
        return size_of(x.args[0])
    if x.target is aten.full.default:
        return size_of(x.args[1])
    if x.target in _SAME:
        return size_of(x.args[0])
    if x.target not in _STEPS or x.kwargs or len(x.args) > 2:
        return None
    operands = [size_of(y) for y in x.args]
    return None if None in operands else _STEPS[x.target](*operands)
