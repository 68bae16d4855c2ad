"""Computes the indices above and below a diagonal, row by row, for sizes that are symbols."""

from __future__ import annotations

import torch


def triu_indices(row, col, offset=0, *, dtype=torch.int64, device=None, **_):
    """Row r holds the columns from max(r + offset, 0) on."""
    if isinstance(offset, torch.SymInt):
        return None
    full = torch.sym_min(row, max(-offset, 0))
    below = torch.sym_max(col - max(offset, 0), 0)
    rows = torch.sym_min(row - full, below)
    count = full * col + rows * below - rows * (rows - 1) // 2
    first = (torch.arange(row, device=device) + offset).clamp(min=0)
    return _places((col - first).clamp(min=0), first, count, dtype)


def tril_indices(row, col, offset=0, *, dtype=torch.int64, device=None, **_):
    """Row r holds the columns up to min(r + offset, col - 1)."""
    if isinstance(offset, torch.SymInt):
        return None
    empty = torch.sym_min(row, max(-offset, 0))
    first = max(offset, 0) + (1 if offset >= 0 else 0)
    # Of the rows that hold some, so many hold fewer than all columns; the first of these holds
    # `least`.
    least = torch.sym_min(col, first if offset >= 0 else 1)
    short = torch.sym_min(row - empty, col - least)
    count = short * least + short * (short - 1) // 2 + (row - empty - short) * col
    lengths = (torch.arange(row, device=device) + (offset + 1)).clamp(min=0, max=col)
    return _places(lengths, torch.zeros_like(lengths), count, dtype)


def _places(lengths, first, count, dtype):
    """Rows and columns of ``count`` elements,
    of which row r has ``lengths[r]`` from column ``first[r]`` on.
    """
    ends = lengths.cumsum(0)
    place = torch.arange(count, device=lengths.device)
    row = torch.searchsorted(ends, place, right=True)
    column = place - (ends - lengths)[row] + first[row]
    return torch.stack([row, column]).to(dtype)
