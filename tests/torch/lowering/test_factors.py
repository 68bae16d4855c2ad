"""Factors of small matrices, and what is solved with them: beside LAPACK, for any batch."""

from __future__ import annotations

import pytest
import torch
from model_check import Function
from torch import linalg

B, N = 2, 4


def _regular(count: int, m: int = N, n: int = N) -> torch.Tensor:
    return torch.rand(count, m, n) - 0.5 + 2 * torch.eye(max(m, n)).roll(1, 0)[:m, :n]


def _positive(count: int) -> torch.Tensor:
    a = _regular(count)
    return a @ a.mT + 0.1 * torch.eye(N)


def _lu_solved(a, b):
    lu, pivots = linalg.lu_factor(a)
    sides = [linalg.lu_solve(lu, pivots, b, adjoint=adjoint) for adjoint in (False, True)]
    return *sides, linalg.lu_solve(lu, pivots, b.mT, left=False), torch.lu_solve(b, lu, pivots)


def _triangles(a, b):
    ways = [(upper, unit) for upper in (False, True) for unit in (False, True)]
    left = [linalg.solve_triangular(a, b, upper=u, unitriangular=unit) for u, unit in ways]
    right = [linalg.solve_triangular(a, b.mT, upper=u, left=False, unitriangular=unit) for u, unit in ways]
    return *left, *right, *torch.triangular_solve(b, a, upper=False, transpose=True)


def _reflections(a, c):
    packed, tau = torch.geqrf(a)
    sides = [torch.ormqr(packed, tau, c, transpose=transpose) for transpose in (False, True)]
    right = torch.ormqr(packed, tau, c.mT, left=False)
    return packed, tau, linalg.householder_product(packed, tau), *sides, right


def _cholesky(a, b):
    factor = linalg.cholesky(a)
    upper = linalg.cholesky(a, upper=True)
    solved = [torch.cholesky_solve(b, f, upper=u) for f, u in ((factor, False), (upper, True))]
    return factor, upper, *linalg.cholesky_ex(a), torch.cholesky_inverse(factor), *solved


#: A function, and what makes its inputs for a batch.
CASES = {
    "lu": (lambda a: (*linalg.lu(a), *linalg.lu_factor(a)), lambda n: (_regular(n),)),
    "lu of a wide matrix": (lambda a: (*linalg.lu(a), *linalg.lu_factor(a)), lambda n: (_regular(n, 3, 5),)),
    "lu of a high matrix": (lambda a: (*linalg.lu(a), *linalg.lu_factor(a)), lambda n: (_regular(n, 5, 3),)),
    "lu_solve": (_lu_solved, lambda n: (_regular(n), torch.rand(n, N, 2))),
    "triangles": (_triangles, lambda n: (_regular(n) + 3 * torch.eye(N), torch.rand(n, N, 2))),
    "reflections": (_reflections, lambda n: (_regular(n, 5, 3), torch.rand(n, 5, 2))),
    "qr": (lambda a: (*linalg.qr(a), *linalg.qr(a, "complete")), lambda n: (_regular(n, 5, 3),)),
    "qr of a wide matrix": (lambda a: (*linalg.qr(a), *linalg.qr(a, "r")), lambda n: (_regular(n, 3, 5),)),
    "cholesky": (_cholesky, lambda n: (_positive(n), torch.rand(n, N, 2))),
    "inv_ex": (lambda a: (*linalg.inv_ex(a), *linalg.solve_ex(a, a + 1)), lambda n: (_regular(n),)),
}


@pytest.mark.parametrize("name", CASES)
def test_factors(name, compile_module):
    function, made = CASES[name]
    torch.manual_seed(0)
    compiled = compile_module(Function(function), made(B))
    for count in (B, 1, 0, 9):
        given = made(count)
        torch.testing.assert_close(compiled(*given), function(*given), rtol=1e-4, atol=1e-4)


def test_singular_matrices_are_named(compile_module):
    a = torch.stack(
        [torch.eye(N), torch.zeros(N, N), torch.ones(N, N), torch.diag(torch.tensor([1.0, 2, 0, 3]))]
    )

    def function(a):
        return linalg.lu_factor_ex(a).info, linalg.inv_ex(a).info, linalg.cholesky_ex(a).info

    compiled = compile_module(Function(function), (a,))
    torch.testing.assert_close(compiled(a), function(a))
