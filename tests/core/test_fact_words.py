"""Conditions on sizes are said in words, in errors and in what a report shows."""

from __future__ import annotations

import disc
import pytest
import torch
from disc.core import fact_words
from torch import nn


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max(0, n-max(0, n-64)) < 64", "n is at most 63"),
        ("min(n, 5000) == 5000", "n is at least 5000"),
        ("max(1, n) == n", "n is at least 1"),
        ("n/8 == 3", "n is between 24 and 31"),
        ("2*n == 64", "n is 32"),
        ("n/2*2 == n", "n is even"),
        ("n-(n/4)*4 == 1", "n is 1 more than a multiple of 4"),
        ("max(a, b) == a", "a is at least b"),
        ("h*w == 64", "h times w is 64"),
        ("(h*w)/8*8 == h*w", "h times w is a multiple of 8"),
        # Declared, or without words.
        ("n % 8 == 0", "n % 8 == 0"),
        ("(n % 3)*(n % 5) == 0", "(n % 3)*(n % 5) == 0"),
        ("(a-3)/2+1 == (b-3)/2+1", "(a-3)/2+1 == (b-3)/2+1"),
        ("a+b+c == 7", "a+b+c == 7"),
    ],
)
def test_a_condition_is_said_in_words(text, words):
    assert fact_words.in_words(text) == words


def test_words_may_rely_on_other_facts():
    facts = ["n-max(0, n-max(0, n-64)) <= 0", "max(0, n-max(0, n-64))%4 == 0"]
    assert [fact_words.in_words(text, facts) for text in facts] == ["n is at most 64", "n is a multiple of 4"]


def test_words_do_without_conditions_that_the_compiler_has_no_form_for():
    facts = ["max(1, n) == n", "(n//4) % 2 != 1"]
    assert [fact_words.in_words(text, facts) for text in facts] == ["n is at least 1", facts[1]]


class Last(nn.Module):
    def forward(self, x):
        if x[:, -64:].shape[1] < 64:
            return x * 2
        return x * 3


class Places(nn.Module):
    def forward(self, image):
        return image.flatten() + torch.arange(64)


@pytest.mark.parametrize(
    ("model", "sizes", "broken", "said"),
    [
        (Last, (2, 12), (2, 70), ("x_1", "at most 63")),
        (Places, (8, 8), (7, 8), ("image_0 times image_1", "64")),
    ],
)
def test_errors_and_reports_say_facts_in_words(model, sizes, broken, said):
    fast = disc.optimize(model().eval(), torch.randn(sizes))
    subject, predicate = said
    assert f"{subject} is {predicate} (test_fact_words.py" in str(disc.report(fast))
    with pytest.raises(disc.DimError, match=f"the module needs {subject} to be {predicate} "):
        fast(torch.randn(broken))
