"""Squeezes axes whose size is an expression that is 1 for the example: torch keeps them,
and a condition says that it is 1.
"""

from __future__ import annotations

import torch

#: ``squeeze`` as graphs have it.
SQUEEZES = frozenset(
    (torch.ops.aten.squeeze.default, torch.ops.aten.squeeze.dim, torch.ops.aten.squeeze.dims)
)


def squeezed(input, dim=None):
    """``squeeze`` where a size is an expression that is 1 here (``x[:, :1]``),
    which torch does not ask; nothing, if none is.

    That it is 1 becomes a condition.
    """
    rank = input.dim()
    given = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    dims = [axis % rank for axis in given if rank]
    ones = {axis for axis in dims if _is_1_here(input.shape[axis])}
    if not ones:
        return None
    rest = [axis - sum(one < axis for one in ones) for axis in dims if axis not in ones]
    for axis in sorted(ones, reverse=True):
        input = input.select(axis, 0)
    return torch.squeeze(input, rest) if rest else input


def _is_1_here(size) -> bool:
    hint = size.node.hint if isinstance(size, torch.SymInt) else None
    return hint is not None and int(hint) == 1 and bool(size == 1)
