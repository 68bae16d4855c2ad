"""Symbolic sizes of the extension module."""

from __future__ import annotations

import copy

import disc
import pytest
from disc import _disc

D = _disc.Dim
B = D("B")


def test_a_dim_reads_and_prints_its_expression():
    assert str(D("1 + 2*B")) == "2*B+1"
    assert D(str(B * 3 // 2)) == B * 3 // 2
    assert repr((B, 768)) == "(B, 768)"


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (B + 1, 8),
        (1 + B, 8),
        (B - 2, 5),
        (2 - B, -5),
        (B * B, 49),
        (3 * B, 21),
        (B // 2, 3),
        (20 // B, 2),
        (B % 4, 3),
        (10 % B, 3),
        (-B, -7),
        (B.min(3), 3),
        (B.max(3, D("B+1")), 8),
    ],
)
def test_arithmetic_means_what_it_means_for_ints(made, value):
    assert made.evaluate({"B": 7}) == value


def test_constants_are_ints():
    assert type(B - B) is int
    assert type((B * 4) // 4 - B + 2) is int
    four = D("4")
    assert four == 4
    assert hash(four) == hash(4)
    assert four.is_const
    assert range(10)[four] == 4
    assert not B.is_const
    with pytest.raises(TypeError, match="not constant"):
        int(B)


def test_equality_is_structural_and_hashes_agree():
    assert B + B == 2 * B
    assert {B + 1: "x"}[1 + B] == "x"
    assert D("S") != B
    assert B != "B"
    assert B.symbols() == ["B"]
    assert D("S*B+B").symbols() == ["B", "S"]


def test_an_order_that_depends_on_sizes_is_an_error():
    assert B < B + 1
    assert B >= 0
    assert not B + 1 <= B
    with pytest.raises(disc.Error, match="B < 3 depends on the sizes"):
        _ = B < 3
    with pytest.raises(TypeError):
        bool(B)


def test_what_is_no_size_is_refused():
    with pytest.raises(TypeError):
        B + 1.5
    with pytest.raises(disc.Error, match="expected an int"):
        D(1.5)
    with pytest.raises(disc.Error) as caught:
        D("2*")
    assert caught.value.code == "E0101"
    with pytest.raises(disc.Error) as caught:
        D(2**70)
    assert caught.value.code == "E0105"
    with pytest.raises(ZeroDivisionError):
        B // 0
    with pytest.raises(disc.Error, match="represented"):
        (B + 2**62) * 2**62


@pytest.mark.parametrize(
    ("text", "values", "holds"),
    [
        ("B % 8 == 0", {"B": 16}, True),
        ("B % 8 == 0", {"B": 12}, False),
        ("2 <= B <= 5", {"B": 5}, True),
        ("B*S == 12*N", {"B": 3, "S": 8, "N": 2}, True),
        ("B*S == 12*N", {"B": 3, "S": 8, "N": 3}, False),
        ("max(B, S)/2 >= 2", {"B": 3, "S": 1}, False),
        ("B/S == 0", {"B": 3, "S": 0}, True),
        ("B == S", {"B": 3}, None),
        ("B*B*B > 0", {"B": 2**40}, None),
    ],
)
def test_a_fact_holds_for_sizes_fails_or_is_not_known(text, values, holds):
    fact = _disc.Fact(text)
    assert fact.holds(values) is holds
    assert values.keys() <= set(fact.symbols())


def test_a_text_that_is_no_fact_is_refused():
    with pytest.raises(disc.Error, match="the fact `B`") as caught:
        _disc.Fact("B")
    assert caught.value.code == "E0101"


def test_a_dim_can_be_copied():
    assert copy.deepcopy(B * 2 + 1) == B * 2 + 1
