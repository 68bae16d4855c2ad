"""Tensors without axes: what is computed along an axis, of one number."""

from __future__ import annotations

import pytest
import torch
from model_check import Function
from torch.nn import functional as F

PLACE = torch.tensor([0])
ALONG = {
    "softmax": lambda x: x.softmax(0),
    "softmax in f64": lambda x: x.softmax(-1, dtype=torch.float64),
    "log_softmax": lambda x: x.log_softmax(0),
    "softmin": lambda x: F.softmin(x, 0),
    "_safe_softmax": lambda x: torch._safe_softmax(x, 0),
    "logsumexp": lambda x: x.logsumexp(0, True),
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "norm": lambda x: (x.norm(1, 0), x.norm(3), torch.linalg.vector_norm(x, 0), F.normalize(x, dim=0)),
    "moments": lambda x: torch.var_mean(x, 0, correction=0, keepdim=True),
    "std": lambda x: x.std(),
    "mean": lambda x: (x.mean(0), x.nanmean(), x.prod(0)),
    "extremes": lambda x: (x.max(0), x.amin(()), x.argmax(0), x.median(0)),
    "order": lambda x: (x.sort(0), x.topk(1, 0), x.kthvalue(1, 0)),
    "scans": lambda x: (x.cumsum(0), x.cummax(0), x.flip(0)),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.25], dtype=x.dtype)),
    "index_add": lambda x: x.index_add(0, PLACE, x),
    "index_copy": lambda x: x.index_copy(0, PLACE, x * 2),
    "index_fill": lambda x: x.index_fill(0, torch.tensor([0, 0]), 2.0),
    "moves": lambda x: (x.movedim(0, 0) * 1, x.unfold(0, 1, 1) * 1, x.transpose(0, 0) * 1),
    "scatter": lambda x: x.scatter(0, torch.tensor(0), x * 2),
    "trapezoid": lambda x: torch.trapezoid(x.reshape(1)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_one_number_has_what_eager_computes_along_its_axis(dtype, compile_module):
    model = Function(lambda x: [f(x) for f in ALONG.values()])
    compiled = compile_module(model, (torch.tensor(1.0, dtype=dtype),))
    for value in (1.0, 0.0, -3.0, float("inf"), -float("inf"), float("nan"), 30_000.0):
        x = torch.tensor(value, dtype=dtype)
        torch.testing.assert_close(compiled(x), model(x), equal_nan=True)


def test_no_axes_in_a_list_are_all_axes_but_of_any_and_all(compile_module):
    model = Function(
        lambda x: (x.sum(()), x.amax((), True), x.var(()), torch.any(x, ()), torch.all(x, (), keepdim=True))
    )
    x = torch.tensor([[0.0, 2.0, -1.0], [3.0, 0.0, 5.0]])
    compiled = compile_module(model, (x,))
    for rows in (x, x[:1], torch.zeros(4, 2)):
        torch.testing.assert_close(compiled(rows), model(rows))


def test_cosine_similarity_of_two_numbers(compile_module):
    model = Function(lambda x, y: F.cosine_similarity(x, y, dim=0))
    compiled = compile_module(model, (torch.tensor(2.0), torch.tensor(3.0)))
    for pair in ((2.0, 3.0), (0.0, 1.0), (-1.0, 5.0)):
        x, y = map(torch.tensor, pair)
        torch.testing.assert_close(compiled(x, y), model(x, y))


def test_an_infinite_end_of_a_trapezoid_gives_nan(compile_module):
    model = Function(lambda x: torch.trapezoid(x, dx=0.5))
    compiled = compile_module(model, (torch.ones(2, 3),))
    inf = float("inf")
    for rows in ([[1.0, inf, 2.0]], [[inf, 1.0, 2.0]], [[1.0, 2.0, -inf]], [[3.0]], [[inf]], [[], []]):
        x = torch.tensor(rows)
        torch.testing.assert_close(compiled(x), model(x), equal_nan=True)
