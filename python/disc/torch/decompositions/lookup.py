"""Looks up the decomposition of an op without a lowering: ours, or else that of torch.

Not here: decompositions of ops that have a lowering; torch's would hide from the compiler what is
computed.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable

import torch
from torch._C import DispatchKey

from . import basic, foreach

aten = torch.ops.aten
#: Of an op, and whether a tensor of complex numbers is among its arguments: whether it stays whole.
Serves = Callable[[torch._ops.OpOverload, bool], bool]
#: torch computes them by primitives, and these by the ops themselves.
_WHOLE = frozenset(
    (
        aten.as_strided_scatter.default,
        aten.gcd.default,
        aten.igamma.default,
        aten.igammac.default,
        aten.special_zeta.default,
    )
)

#: Their lowerings give only the result, and not what a backward op takes besides it.
_ONE_RESULT = frozenset((aten.log_sigmoid_forward.default,))


def serves_all(op: torch._ops.OpOverload, is_complex: bool) -> bool:
    return True


def steps(func: torch._ops.OpOverload) -> Callable | None:
    """The function that computes ``func`` out of other ops, if there is one."""
    if foreach.is_one(func):
        return foreach.steps(func)
    if func._schema.is_mutable:
        # An op whose name says nothing of its writes has steps that write.
        return _written(func) or (None if func._opname.endswith("_") else _of_torch(func))
    if func in basic.OWN:
        return basic.OWN[func]
    if func in _WHOLE:
        return None
    if func.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd):
        return func.decompose
    if func.namespace == "prims":
        return getattr(func, "impl_aten", None)
    return _of_torch(func)


def _of_torch(func: torch._ops.OpOverload) -> Callable | None:
    # Both enter their functions in the table.
    import torch._decomp.decompositions
    import torch._refs

    return torch._decomp.decomposition_table.get(func)


def _written(func: torch._ops.OpOverload) -> Callable | None:
    """``x.op_(...)`` as a write of what ``x.op(...)`` gives."""
    first, *rest = func._schema.arguments
    alone = first.is_write and not any(argument.is_write for argument in rest)
    if not alone or {torch.Tag.inplace_view, torch.Tag.nondeterministic_seeded} & set(func.tags):
        return None
    # Python calls ``__iand__`` for ``&=``.
    name = func._opname
    name = f"__{name[3:]}" if name.startswith("__i") else name.removesuffix("_")
    op = getattr(aten, name, None) if name != func._opname and func.namespace == "aten" else None

    def steps(x, *args, **kwargs):
        result = op(x, *args, **kwargs)
        if not torch.can_cast(result.dtype, x.dtype):
            raise TypeError(f"{func} of {x.dtype} gives {result.dtype}")
        return x.copy_(result)

    return steps if op is not None else None


class Unserved(collections.UserDict):
    """The steps of all ops that are not served, as a table of decompositions:
    torch asks it for each op that it meets.
    """

    def __init__(self, serves: Serves):
        super().__init__()
        self.serves = serves

    def __contains__(self, func) -> bool:
        if func not in self.data:
            known = isinstance(func, torch._ops.OpOverload) and not self.serves(func, False)
            # The steps of a random op draw other numbers than the op.
            known = known and torch.Tag.nondeterministic_seeded not in func.tags
            self.data[func] = steps(func) if known else None
        return self.data[func] is not None

    def __bool__(self) -> bool:
        return True


@functools.cache
def table(serves: Serves) -> dict[torch._ops.OpOverload, Callable]:
    """The steps of all ops that are not served and that torch does not divide by itself, as a
    plain dictionary: AOTAutograd copies its table.
    """
    import torch._decomp.decompositions
    import torch._refs

    # What C++ divides, torch's steps in Python divide without writes.
    in_python = {**torch._decomp.decomposition_table, **basic.OWN}
    unserved = Unserved(serves)
    found = {func: in_python[func] for func in in_python if func in unserved}
    return found | foreach.table() | {func: in_python[func] for func in _ONE_RESULT}


def is_constant(func: torch._ops.OpOverload) -> bool:
    """Returns true if an op without tensors among its arguments gives the same each time."""
    if func._schema.is_mutable or torch.Tag.nondeterministic_seeded in func.tags:
        return False
    return not func._opname.startswith(("empty", "new_empty", "from_file"))
