"""Gradients of one op at a time, compiled once for three sizes, beside those of eager mode in
float64.
"""

from __future__ import annotations

import disc
import torch
from torch import nn
from training_rows import ROWS, Row

#: The last bits that an element of a gradient may miss, by type: relative and absolute.
BOUNDS = {torch.float32: (1e-4, 1e-4), torch.bfloat16: (5e-2, 5e-2)}


class Held(nn.Module):
    """A function, and those of its inputs that are parameters."""

    def __init__(self, row: Row, inputs: list[torch.Tensor]):
        super().__init__()
        self.row = row
        self.weights = nn.ParameterList([inputs[i].detach().clone() for i in row.held])

    def forward(self, *given):
        given = list(given)
        for i, weight in zip(self.row.held, self.weights, strict=True):
            given.insert(i, weight)
        return self.row.function(*given)


def _dtypes(position: int, config) -> list[torch.dtype]:
    both = list(BOUNDS)
    return both if config.getoption("rows") == "all" else [both[position % 2]]


def pytest_generate_tests(metafunc):
    cases = [(row, dtype) for i, row in enumerate(ROWS) for dtype in _dtypes(i, metafunc.config)]
    names = [f"{row.name}-{str(dtype).removeprefix('torch.')}" for row, dtype in cases]
    metafunc.parametrize(("row", "dtype"), cases, ids=names)


def test_gradients_are_those_of_float64(row, dtype):
    torch.manual_seed(0)
    torch._dynamo.reset()
    weights = row.inputs(3)
    module = Held(row, [t.to(dtype) for t in weights])
    fast = torch.compile(module, backend="disc", dynamic=True)
    compared = 0
    for size in (3, 7, 1):
        given = [t.to(dtype).requires_grad_() for i, t in enumerate(row.inputs(size)) if i not in row.held]
        exact = [t.detach().double().requires_grad_() for t in given]
        reference = Held(row, [t.to(dtype).double() for t in weights])
        expected = reference(*exact)
        module.zero_grad()
        got = fast(*given)
        _same(got, expected, dtype)
        if not expected.requires_grad:
            continue
        of_result = torch.randn(expected.shape).to(dtype)
        expected.backward(of_result.double())
        got.backward(of_result.to(got.dtype))
        pairs = zip([*given, *module.weights], [*exact, *reference.weights], strict=True)
        for x, y in pairs:
            assert (x.grad is None) == (y.grad is None)
            if x.grad is not None:
                assert x.grad.dtype == dtype
                assert x.grad.shape == x.shape
                _same(x.grad, y.grad, dtype)
                compared += 1
    report = disc.report(fast).to_dict()
    assert report["fallbacks"] == []
    assert compared > 0


def _same(got: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    relative, absolute = BOUNDS[dtype]
    torch.testing.assert_close(
        got.detach().double(), expected.detach().double(), rtol=relative, atol=absolute, equal_nan=True
    )
