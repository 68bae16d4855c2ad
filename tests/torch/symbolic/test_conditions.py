"""Conditions on sizes as functions of ints, beside what sympy says of them."""

from __future__ import annotations

import itertools

import disc
import pytest
import sympy
import torch
from disc.torch.symbolic.conditions import spelled
from disc.torch.symbolic.guard_functions import function_of
from torch.utils._sympy import functions as tsf

a, b = (sympy.Symbol(name, integer=True, nonnegative=True) for name in "ab")
CONDITIONS = [
    sympy.Or(sympy.Ne(a, 1), sympy.Ne(b, 1)),
    sympy.And(sympy.Ne(a, 0), sympy.Or(a >= 7, b < 3)),
    sympy.Ne(tsf.Mod(a, 3), 0),
    sympy.Or(sympy.Ne(tsf.PythonMod(a + b, 4), 1), a <= b),
    sympy.Eq(tsf.PythonMod(a - b, 5), 2),
    sympy.Ne(tsf.FloorDiv(a - 7, 4), -2),
    sympy.Or(sympy.Eq(a, 0), sympy.Eq(tsf.Mod(b, a), 0)),
    sympy.Ne(sympy.Mod(a * b, 6), 2),
    sympy.Ne(tsf.ModularIndexing(a, 2, 3), 1),
    sympy.Ne(tsf.Min(a, b, 5), 4) & (tsf.Max(a, 2 * b) > 3),
    sympy.Ne(sympy.Min(a, b**2), 4) | (sympy.Max(3, a - b) > 5),
    sympy.Ne(a**3 - 2 * b**2, 5),
    sympy.Ne(a / 2, sympy.Rational(3, 2)),
    sympy.Not(sympy.And(sympy.Eq(a, 3), b > 2), evaluate=False),
    sympy.true,
    # Floating numbers, and a function that is not known, are left to sympy.
    sympy.Ne(1.5 * a, 3),
    sympy.Ne(tsf.TruncToInt(tsf.IntTrueDiv(a, 2)), 3),
]
SIZES = [0, 1, 2, 3, 4, 5, 7, 12, 64]
HUGE = [2**53 + 1, 3 * 2**60 + 1]


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_says_what_sympy_says(condition):
    holds = function_of(condition, [a, b])
    sizes = SIZES if condition.has(sympy.Float, tsf.IntTrueDiv) else SIZES + HUGE
    for x, y in itertools.product(sizes, repeat=2):
        if x == 0 and condition.has(tsf.Mod(b, a)):
            continue
        wanted = condition.xreplace({a: sympy.Integer(x), b: sympy.Integer(y)})
        assert wanted in (sympy.true, sympy.false)
        assert holds(x, y) is bool(wanted), (x, y)


@pytest.mark.parametrize("condition", CONDITIONS[:8], ids=str)
def test_is_written_as_python_reads_it(condition):
    text, holds = spelled(condition), function_of(condition, [a, b])
    for x, y in itertools.product(SIZES, repeat=2):
        if x or not condition.has(tsf.Mod(b, a)):
            assert eval(text, {"a": x, "b": y, "Mod": lambda p, q: p % q}) is holds(x, y), text


def test_a_quotient_has_its_parentheses_once():
    assert spelled(sympy.Ne(tsf.Mod(tsf.FloorDiv(a, 2), 3), 0)) == "(a//2) % 3 != 0"


def test_what_divides_by_0_does_not_hold():
    for condition in (
        sympy.Eq(tsf.Mod(b, a), 0),
        sympy.Eq(tsf.FloorDiv(b, a), 0),
        sympy.Ne(1.5 * tsf.Mod(b, a), 3),
    ):
        assert function_of(condition, [a, b])(0, 6) is False
    either = sympy.Or(sympy.Eq(tsf.Mod(b, a), 0), sympy.Eq(a, 0))
    assert function_of(either, [a, b])(0, 6) is True


def test_a_call_names_the_condition_that_it_breaks():
    class Asks(torch.nn.Module):
        def forward(self, x, y):
            if x.shape[0] % 3 == 1 or (x.shape[0] + y.shape[0]) % 4 == 2:
                return x[:, None] - y
            return x[:, None] * y

    x, y = torch.randn(5), torch.randn(7)
    fast = disc.optimize(Asks(), (x, y))
    for rows, columns in ((5, 7), (6, 9), (3, 2), (0, 0)):
        x, y = torch.randn(rows), torch.randn(columns)
        torch.testing.assert_close(fast(x, y), x[:, None] * y)
    with pytest.raises(disc.DimError, match=r"x_0 = 4: the module needs x_0 % 3 != 1 \(test_conditions"):
        fast(torch.randn(4), y)
    with pytest.raises(disc.DimError, match=r"x_0 = 5, y_0 = 5: the module needs \(x_0 \+ y_0\) % 4 != 2"):
        fast(torch.randn(5), torch.randn(5))
    with pytest.raises(disc.ShapeError, match="input x has rank 0"):
        fast(torch.randn([]), y)
