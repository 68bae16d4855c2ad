"""Ops that the bridge has no entry for, in terms of others: torch's own decompositions, looked up when such an op is met.

Not here: decompositions of ops that the bridge serves; theirs would hide what is computed from the compiler.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch._C import DispatchKey

#: Of an op, and whether a tensor of complex numbers is among its arguments: whether it stays whole.
Serves = Callable[[torch._ops.OpOverload, bool], bool]


def serves_all(op: torch._ops.OpOverload, is_complex: bool) -> bool:
    return True


def steps(func: torch._ops.OpOverload) -> Callable | None:
    """What computes ``func`` out of other ops, if torch has that."""
    if func._schema.is_mutable:
        return None
    if func.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd):
        return func.decompose
    if func.namespace == "prims":
        return getattr(func, "impl_aten", None)
    # Both enter their functions in the table.
    import torch._decomp.decompositions
    import torch._refs

    return torch._decomp.decomposition_table.get(func)


def is_constant(func: torch._ops.OpOverload) -> bool:
    """Whether an op without tensors among its arguments gives the same each time."""
    if func._schema.is_mutable or torch.Tag.nondeterministic_seeded in func.tags:
        return False
    return not func._opname.startswith(("empty", "new_empty", "from_file"))
