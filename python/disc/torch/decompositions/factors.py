"""Factors of small matrices (LU, QR, Cholesky) and what is solved with them: elimination,
reflections and substitution, written out for a fixed size.

Invariants: pivots, and signs of reflections, are those of LAPACK; where a matrix has no factors,
``info`` says so as in torch, and their contents are undefined.
"""

from __future__ import annotations

import torch

from .linalg import MOST_ROWS, check, eliminated, rows_of, solved

aten = torch.ops.aten


def _sizes(a) -> tuple[int, int]:
    """The numbers of rows and columns, which are fixed."""
    torch._check(a.dim() >= 2, lambda: "linalg: expected matrices")
    for n in a.shape[-2:]:
        # Without a question about the size, which would stay as a guard.
        example = n.node.hint if isinstance(n, torch.SymInt) else n
        if example is None or example > MOST_ROWS or a.dtype not in (torch.float32, torch.float64):
            raise RuntimeError(
                f"linalg of matrices of {example} rows or columns ({n}) of {a.dtype}: "
                f"up to {MOST_ROWS} of f32 and f64 are compiled"
            )
    return int(a.shape[-2]), int(a.shape[-1])


def _together(a, b):
    """Both with the batch that they have together."""
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.expand([*batch, *a.shape[-2:]]), b.expand([*batch, *b.shape[-2:]])


def _first(holds: list, batch):
    """The number of the first of several conditions that is not true, from 1 on; 0 if all are."""
    info = torch.zeros(batch, dtype=torch.int32)
    for i, held in reversed(list(enumerate(holds))):
        info = torch.where(held, info, i + 1)
    return info


# Triangles.


def _substituted(a, b, upper: bool, unit: bool = False):
    """The solution of a triangular system; the other triangle of ``a`` is not read."""
    n = rows_of(a)
    solved: dict[int, torch.Tensor] = {}
    for i in reversed(range(n)) if upper else range(n):
        row = b[..., i : i + 1, :]
        solved[i] = row if unit else row / a[..., i : i + 1, i : i + 1]
        b = b - a[..., i : i + 1] * solved[i]
    return torch.cat([solved[i] for i in range(n)], -2) if n else b.clone()


def solve_triangular(a, b, *, upper, left=True, unitriangular=False):
    rows_of(a)
    a, b = _together(a, b)
    if left:
        return _substituted(a, b, upper, unitriangular)
    return _substituted(a.mT, b.mT, not upper, unitriangular).mT


def triangular_solve(b, a, upper=True, transpose=False, unitriangular=False):
    rows_of(a)
    a, b = _together(a, b)
    used, upper = (a.mT, not upper) if transpose else (a, upper)
    return _substituted(used, b, upper, unitriangular), a.clone()


def cholesky_solve(b, u, upper=False):
    rows_of(u)
    u, b = _together(u.mT if upper else u, b)
    return _substituted(u.mT, _substituted(u, b, upper=False), upper=True)


def cholesky_inverse(u, upper=False):
    return cholesky_solve(torch.eye(rows_of(u), dtype=u.dtype).expand(u.shape), u, upper)


def cholesky_ex(a, *, upper=False, check_errors=False):
    if upper:
        factor, info = cholesky_ex(a.mT, check_errors=check_errors)
        return factor.mT, info
    n = rows_of(a)
    rows = torch.arange(n)
    whole, columns, positive = a, [], []
    for k in range(n):
        pivot = a[..., k : k + 1, k : k + 1]
        positive.append(pivot.squeeze(-1).squeeze(-1) > 0)
        column = torch.where((rows >= k).unsqueeze(-1), a[..., k : k + 1] / pivot.sqrt(), 0.0)
        columns.append(column)
        a = a - column * column.mT
    info = _first(positive, whole.shape[:-2])
    if check_errors:
        check(info == 0, "linalg.cholesky: the matrix is not positive-definite")
    return torch.cat(columns, -1) if n else whole.clone(), info


def cholesky(a, *, upper=False):
    return cholesky_ex(a, upper=upper, check_errors=True)[0]


def inv_ex(a, *, check_errors=False):
    n = rows_of(a)
    pivots, done, _ = eliminated(a, torch.eye(n, dtype=a.dtype).expand(a.shape))
    return done / pivots.unsqueeze(-1), _regular(pivots, n, check_errors, "linalg.inv")


def solve_ex(a, b, *, left=True, check_errors=False):
    n = rows_of(a)
    x, pivots = solved(a, b, left)
    return x, _regular(pivots, n, check_errors, "linalg.solve")


def _regular(pivots, n: int, check_errors: bool, name: str):
    """The number of the first pivot that is 0."""
    info = _first([pivots[..., k] != 0 for k in range(n)], pivots.shape[:-1])
    if check_errors:
        check(info == 0, f"{name}: the matrix is singular")
    return info


# LU.


def _swapped(x, i: int, other):
    """Rows ``i`` and ``other`` of ``x`` in each other's place."""
    rows, other = torch.arange(x.shape[-2]), other.unsqueeze(-1)
    order = torch.where(rows == i, other, torch.where(rows == other, i, rows))
    return x.gather(-2, order.unsqueeze(-1).expand(x.shape))


def lu_factor_ex(a, *, pivot=True, check_errors=False):
    torch._check(pivot, lambda: "linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    m, n = _sizes(a)
    rows, columns = torch.arange(m).unsqueeze(-1), torch.arange(n)
    pivots, regular = [], []
    for k in range(min(m, n)):
        largest = a[..., k:, k].abs().argmax(-1) + k
        a = _swapped(a, k, largest)
        row = a[..., k : k + 1, :]
        held = row[..., k : k + 1]
        factor = torch.where((rows > k) & (held != 0), a[..., k : k + 1] / held, 0.0)
        a = torch.where((rows > k) & (columns > k), a - factor * row, a)
        a = torch.where((rows > k) & (columns == k), factor, a)
        pivots.append((largest + 1).to(torch.int32))
        regular.append(held.squeeze(-1).squeeze(-1) != 0)
    info = _first(regular, a.shape[:-2])
    if check_errors:
        check(info == 0, "linalg.lu_factor: U is singular")
    found = torch.stack(pivots, -1) if pivots else torch.zeros([*a.shape[:-2], 0], dtype=torch.int32)
    return a if pivots else a.clone(), found, info


def lu_factor(a, *, pivot=True):
    return lu_factor_ex(a, pivot=pivot, check_errors=True)[:2]


def _factors(lu, m: int, n: int):
    """L and U out of one matrix."""
    k = min(m, n)
    lower = lu[..., :k].tril(-1) + torch.eye(m, k, dtype=lu.dtype)
    return lower, lu[..., :k, :].triu()


def lu_unpack(lu, pivots, unpack_data=True, unpack_pivots=True):
    m, n = _sizes(lu)
    none = lu.new_empty([0])
    lower, upper = _factors(lu, m, n) if unpack_data else (none, none)
    if not unpack_pivots:
        return none, lower, upper
    order = torch.arange(m).expand([*lu.shape[:-2], m]).unsqueeze(-1)
    for i in range(min(m, n)):
        order = _swapped(order, i, pivots[..., i].to(torch.int64) - 1)
    matrix = (order.mT == torch.arange(m).unsqueeze(-1)).to(lu.dtype)
    return matrix, lower, upper


def lu(a, *, pivot=True):
    packed, pivots, _ = lu_factor_ex(a, pivot=pivot)
    return lu_unpack(packed, pivots)


def lu_solve(lu, pivots, b, *, left=True, adjoint=False):
    if not left:
        return lu_solve(lu, pivots, b.mT, adjoint=not adjoint).mT
    n = rows_of(lu)
    batch = torch.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    lu, b = _together(lu, b)
    places = pivots.to(torch.int64).expand([*batch, n]) - 1
    if adjoint:
        x = _substituted(lu.mT, _substituted(lu.mT, b, upper=False), upper=True, unit=True)
        for i in reversed(range(n)):
            x = _swapped(x, i, places[..., i])
        return x
    for i in range(n):
        b = _swapped(b, i, places[..., i])
    return _substituted(lu, _substituted(lu, b, upper=False, unit=True), upper=True)


# QR.


def _reflection(a, k: int):
    """The vector of the k-th reflection, out of the columns that hold them."""
    rows = torch.arange(a.shape[-2]).unsqueeze(-1)
    return torch.where(rows > k, a[..., k : k + 1], (rows == k).to(a.dtype))


def geqrf(a):
    m, n = _sizes(a)
    rows, columns = torch.arange(m).unsqueeze(-1), torch.arange(n)
    factors = []
    for k in range(min(m, n)):
        first = a[..., k : k + 1, k : k + 1]
        below = torch.where(rows > k, a[..., k : k + 1], 0.0)
        length = torch.linalg.vector_norm(below, dim=[-2, -1], keepdim=True)
        beta = -torch.copysign(torch.hypot(first, length), first)
        is_there = length != 0
        tau = torch.where(is_there, (beta - first) / beta, 0.0)
        v = torch.where(rows == k, 1.0, torch.where(is_there, below / (first - beta), 0.0))
        rest = a - tau * v * (v.mT @ a)
        a = torch.where(columns > k, rest, a)
        held = torch.where(rows == k, torch.where(is_there, beta, first), torch.where(rows > k, v, a))
        a = torch.where(columns == k, held, a)
        factors.append(tau.squeeze(-1))
    return a if factors else a.clone(), torch.cat(factors, -1) if factors else a.new_zeros([*a.shape[:-2], 0])


def householder_product(a, tau):
    m, n = _sizes(a)
    q = torch.eye(m, n, dtype=a.dtype).expand(a.shape)
    return _reflected(a, tau, q, reversed(range(int(tau.shape[-1]))))


def _reflected(a, tau, x, order):
    for k in order:
        v = _reflection(a, k)
        x = x - tau[..., k : k + 1].unsqueeze(-1) * v * (v.mT @ x)
    return x.clone()


def ormqr(a, tau, x, left=True, transpose=False):
    if not left:
        return ormqr(a, tau, x.mT, True, not transpose).mT
    _sizes(a)
    order = range(int(tau.shape[-1]))
    return _reflected(a, tau, x, order if transpose else reversed(order))


def qr(a, mode="reduced"):
    m, n = _sizes(a)
    packed, tau = geqrf(a)
    k = min(m, n)
    r = packed[..., : m if mode == "complete" else k, :].triu()
    if mode == "r":
        return a.new_empty([0]), r
    width = m if mode == "complete" else k
    q = torch.eye(m, width, dtype=a.dtype).expand([*a.shape[:-2], m, width])
    return _reflected(packed, tau, q, reversed(range(k))), r


OWN = {
    aten.cholesky_inverse.default: cholesky_inverse,
    aten.cholesky_solve.default: cholesky_solve,
    aten.geqrf.default: geqrf,
    aten.linalg_cholesky.default: cholesky,
    aten.linalg_cholesky_ex.default: cholesky_ex,
    aten.linalg_householder_product.default: householder_product,
    aten.linalg_inv_ex.default: inv_ex,
    aten.linalg_lu.default: lu,
    aten.linalg_lu_factor.default: lu_factor,
    aten.linalg_lu_factor_ex.default: lu_factor_ex,
    aten.linalg_lu_solve.default: lu_solve,
    aten.linalg_qr.default: qr,
    aten.linalg_solve_ex.default: solve_ex,
    aten.linalg_solve_triangular.default: solve_triangular,
    aten.lu_unpack.default: lu_unpack,
    aten.ormqr.default: ormqr,
    aten.triangular_solve.default: triangular_solve,
}
if hasattr(aten, "cholesky"):
    # torch 2.15 has only ``linalg_cholesky``.
    OWN[aten.cholesky.default] = lambda a, upper=False: cholesky(a, upper=upper)
