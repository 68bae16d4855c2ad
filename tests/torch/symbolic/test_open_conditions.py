"""Tests that conditions found open by two examples are those that torch has no answer to."""

from __future__ import annotations

import operator
import random

import pytest
import sympy
import torch
from disc.torch.capture import capture
from disc.torch.compat import asserting
from disc.torch.overrides.registry import overridden
from disc.torch.symbolic.open_conditions import is_open, may_differ
from disc.torch.tracer.shape_env import Env
from sympy.core import relational
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.functions import FloorDiv, Max, Min


def _env() -> tuple[Env, list[sympy.Symbol]]:
    env = Env(**asserting())
    sizes = [env.new_size(size, 0, axis, oblivious=axis < 2) for axis, size in enumerate((7, 11, 13))]
    return env, [size.node.expr for size in sizes]


def _plain(env: Env, condition):
    return ShapeEnv._maybe_evaluate_static(env, condition)


def _number(draw: random.Random, symbols: list, depth: int):
    if not depth or draw.random() < 0.3:
        return draw.choice([*symbols, *symbols, sympy.Integer(draw.choice((0, 1, 2, 3, 64, 512)))])
    x, y = (_number(draw, symbols, depth - 1) for _ in range(2))
    return draw.choice((lambda: x + y, lambda: x - y, lambda: x * y, lambda: Min(x, y), lambda: Max(x, y)))()


def _condition(draw: random.Random, symbols: list):
    kinds = sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge
    made = [draw.choice(kinds)(*(_number(draw, symbols, 2) for _ in range(2))) for _ in range(2)]
    return draw.choice((made[0], made[0], sympy.And(*made), sympy.Or(*made), sympy.Not(made[0])))


@pytest.mark.parametrize("seed", range(4))
def test_what_is_open_has_no_answer(seed):
    env, symbols = _env()
    draw, found = random.Random(seed), 0
    for _ in range(60):
        condition = _condition(draw, symbols)
        if is_open(condition, env.var_to_range, env.axioms.items()):
            found += 1
            assert _plain(env, condition) is None, condition
    assert found > 20


def test_what_is_known_is_not_open():
    env, (a, b, c) = _env()
    ranges = env.var_to_range
    for condition in (sympy.Ge(a, 0), sympy.Eq(Max(1, c), 1), sympy.Ne(a * b + 1, 0), sympy.Ge(c, 2)):
        assert not is_open(condition, ranges, ())
    assert is_open(sympy.Eq(a, 1), ranges, ())
    assert not is_open(sympy.Eq(a, 1), ranges, [(sympy.Eq(a, 1), sympy.true)])
    # Facts about other sizes say nothing.
    assert is_open(sympy.Eq(a, 1), ranges, [(sympy.Eq(b, 1), sympy.true)])
    assert not is_open(sympy.Lt(FloorDiv(a, 2), 3), ranges, ()), "more may be known of quotients"


@pytest.mark.parametrize("seed", range(4))
def test_what_may_differ_has_no_proof(seed):
    _, symbols = _env()
    draw, found = random.Random(seed), 0
    for _ in range(60):
        lhs, rhs = (_number(draw, symbols, 2) for _ in range(2))
        for compare, prove in ((operator.ge, relational.is_ge), (operator.eq, relational.is_eq)):
            if may_differ(lhs, rhs, compare):
                found += 1
                assert prove(lhs, rhs) is None, (lhs, rhs)
    assert found > 40


def test_powers_of_sizes_are_left_to_the_provers():
    n = sympy.Symbol("n", integer=True, positive=True)
    for power in (2**n, n**n, sympy.Pow(3, n**2)):
        # Small examples may tell; of the large ones no power is computed.
        assert may_differ(power, n, operator.ge) in (True, False)
        assert may_differ(power, n - 1, operator.ge) is False


def test_relations_are_what_sympy_makes():
    _, (a, b, c) = _env()
    made = (a * b < 2, sympy.Eq(Max(1, c), 1), sympy.Ne(a + 1, a), a * b * c >= 0, Min(a, 512) <= a)
    with overridden("capture"):
        assert made == (
            a * b < 2,
            sympy.Eq(Max(1, c), 1),
            sympy.Ne(a + 1, a),
            a * b * c >= 0,
            Min(a, 512) <= a,
        )


def test_most_conditions_of_a_trace_are_not_proved_by_torch(monkeypatch):
    """A transformer layer asks torch for proofs of a few conditions, and no more."""
    from torch.fx.experimental import symbolic_shapes

    asked = []
    worker = symbolic_shapes._maybe_evaluate_static_worker
    monkeypatch.setattr(
        symbolic_shapes,
        "_maybe_evaluate_static_worker",
        lambda e, *more: (asked.append(e), worker(e, *more))[1],
    )
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    with torch.no_grad():
        capture.capture(layer, (torch.rand(3, 5, 16),))
    assert len(asked) < 20, asked
