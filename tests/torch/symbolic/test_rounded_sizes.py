"""``round`` of sizes, with digits, is Python's: half to even, of the exact value of a float."""

from __future__ import annotations

import disc
import pytest
import torch
from model_check import Function

SIZES = (14, 15, 16, 25, 1, 3, 5, 10, 35, 104, 0)
ROUNDED = {
    "tens": lambda n: round(n, -1),
    "hundreds of a product": lambda n: round(n * 5, -2) + round(n, 2) + round(n),
    "tens below zero": lambda n: round(-n * 5, -1),
    "tenths": lambda n: round(n / 3, 1),
    "hundredths of eighths": lambda n: round(n / 8, 2),
    "tenths of what is no float": lambda n: round(n / 20, 1) + round(n * 0.15, 1),
    "tenths below zero": lambda n: round(-n / 20, 1),
    "tens of a quotient": lambda n: round(n / 3, -1),
    "digits of a root": lambda n: round(n**0.5, 2),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_a_rounded_size_is_a_number(name, compile_module):
    model = Function(lambda x: x * ROUNDED[name](x.shape[0]))
    compiled = compile_module(model, (torch.ones(14),))
    for n in SIZES:
        torch.testing.assert_close(compiled(torch.ones(n)), model(torch.ones(n)))
    if hasattr(compiled, "original"):
        assert disc.report(compiled).to_dict()["coverage"] == 1.0


def test_a_rounded_size_is_a_size(compile_module):
    model = Function(
        lambda x: (
            x.new_ones(round(x.shape[0], -1)),
            x.new_ones(int(round(x.shape[0] / 3, -1))),
            x.new_ones(int(round(x.shape[0] / 3, 1))),
        )
    )
    compiled = compile_module(model, (torch.ones(14),))
    for n in SIZES:
        assert [len(y) for y in compiled(torch.ones(n))] == [len(y) for y in model(torch.ones(n))]


def test_dynamo_rounds_sizes_to_digits_for_disc():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x * round(x.shape[0], -1), backend="disc", dynamic=True)
    for n in SIZES:
        assert torch.equal(compiled(torch.ones(n)), torch.ones(n) * round(n, -1))
