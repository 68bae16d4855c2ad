"""Determinants, inverses and linear systems of small matrices: elimination, written out for a fixed
size.

Invariants: pivots are the largest of their column, as LAPACK's are; a matrix without the result
fails the call, as in torch.
"""

from __future__ import annotations

import torch

aten = torch.ops.aten
#: A larger matrix is refused: each row is some steps of the program.
MOST_ROWS = 8


def rows_of(a) -> int:
    torch._check(a.dim() >= 2, lambda: "linalg: expected matrices")
    n = a.shape[-1]
    # Without a question about the size, which would stay as a guard.
    example = n.node.hint if isinstance(n, torch.SymInt) else n
    if example is None or example > MOST_ROWS or a.dtype not in (torch.float32, torch.float64):
        # The name of the size lets capture choose the example's.
        raise RuntimeError(
            f"linalg of matrices of {example} rows ({n}) of {a.dtype}: up to {MOST_ROWS} of f32 and f64 are compiled"
        )
    torch._check(n == a.shape[-2], lambda: "linalg: expected square matrices")
    return int(n)


def eliminated(a, b):
    """``a`` as a diagonal, ``b`` by the same changes of rows, and the sign of the order of rows."""
    n = rows_of(a)
    rows = torch.arange(n)
    sign = torch.ones(a.shape[:-2], dtype=a.dtype)
    diagonal = []
    both = torch.cat([a, b], -1)
    for k in range(n):
        largest = both[..., k:, k].abs().argmax(-1, keepdim=True) + k
        sign = torch.where(largest.squeeze(-1) == k, sign, -sign)
        order = torch.where(rows == k, largest, torch.where(rows == largest, k, rows))
        both = both.gather(-2, order.unsqueeze(-1).expand(both.shape))
        row = both[..., k : k + 1, :]
        pivot = row[..., k : k + 1]
        diagonal.append(pivot.squeeze(-1))
        factor = torch.where((rows == k).unsqueeze(-1) | (pivot == 0), 0.0, both[..., k : k + 1] / pivot)
        both = torch.where(factor == 0, both, both - factor * row)
    pivots = torch.cat(diagonal, -1) if n else a.new_ones(a.shape[:-1])
    return pivots, both[..., n:], sign


def check(holds, text: str) -> None:
    """Fails a call for which ``holds`` is not true everywhere."""
    aten._assert_async.msg(holds.all(), text)


def det(a):
    pivots, _, sign = eliminated(a, a[..., :0])
    return pivots.prod(-1) * sign


def slogdet(a):
    pivots, _, sign = eliminated(a, a[..., :0])
    return pivots.sign().prod(-1) * sign, pivots.abs().log().sum(-1)


def inv(a):
    pivots, done, _ = eliminated(a, torch.eye(rows_of(a), dtype=a.dtype).expand(a.shape))
    check(pivots != 0, "linalg.inv: the matrix is singular")
    return done / pivots.unsqueeze(-1)


def solve(a, b, *, left=True):
    x, pivots = solved(a, b, left)
    check(pivots != 0, "linalg.solve: the matrix is singular")
    return x


def solved(a, b, left: bool = True):
    """The solution of a system, and the pivots."""
    rows_of(a)
    vector = b.dim() == 1 or (
        a.dim() - 1 == b.dim() and all(x == y for x, y in zip(b.shape, a.shape, strict=False))
    )
    if vector:
        torch._check(left, lambda: "linalg.solve: a vector is on the right")
        b = b.unsqueeze(-1)
    elif not left:
        x, pivots = solved(a.mT, b.mT)
        return x.mT, pivots
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = a.expand([*batch, *a.shape[-2:]]), b.expand([*batch, *b.shape[-2:]])
    pivots, done, _ = eliminated(a, b)
    x = done / pivots.unsqueeze(-1)
    return x.squeeze(-1) if vector else x, pivots


OWN = {
    aten.linalg_det.default: det,
    aten.linalg_inv.default: inv,
    aten.linalg_slogdet.default: slogdet,
    aten.linalg_solve.default: solve,
}
