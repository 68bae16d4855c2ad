"""Plans: what runs where more is true of the sizes than the program states;
right on both sides of each guard.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

disc = pytest.importorskip("disc")


def halves(x):
    n = x.shape[-1]
    return torch.cat((-x[..., n // 2 :], x[..., : n // 2]), -1)


class Rotary(nn.Module):
    def forward(self, q, k, cos, sin):
        return q * cos + halves(q) * sin, k * cos + halves(k) * sin


class Halves(nn.Module):
    def forward(self, x):
        return halves(x).exp()


class Gate(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, -1)
        return a * torch.sigmoid(b)


class Attention(nn.Module):
    """Rotary embeddings within what reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(48, 48)

    def forward(self, x, y, cos, sin):
        turned = x * cos + halves(x) * sin, y * cos + halves(y) * sin
        return [self.project(t.softmax(-1)) for t in turned]


def rotary(batch, heads, other, keys, length, width):
    q, k = torch.randn(batch, heads, length, width), torch.randn(other, keys, length, width)
    return q, k, torch.randn(length, width), torch.randn(length, width)


def plans(module):
    return [plan["kernels"] for plan in disc.report(module).to_dict()["plans"]]


SIZES = (
    (2, 3, 2, 3, 5, 64),
    (2, 3, 2, 3, 5, 48),
    (2, 3, 2, 3, 5, 7),
    (2, 4, 2, 1, 5, 64),
    (1, 3, 2, 3, 4, 66),
    (2, 4, 2, 2, 3, 33),
    (1, 1, 1, 1, 1, 1),
    (1, 1, 1, 1, 1, 2),
    (0, 3, 0, 3, 5, 8),
    (2, 3, 0, 3, 5, 8),
    (2, 3, 2, 3, 0, 8),
    (2, 3, 2, 3, 5, 0),
)


@pytest.mark.parametrize("example", [SIZES[0], SIZES[5]], ids=["even", "odd"])
def test_queries_and_keys_of_any_sizes(example):
    module = disc.optimize(Rotary(), rotary(*example))
    report = disc.report(module)
    assert plans(module) == [1, 2]
    assert report.to_dict()["kernels"] == 2
    assert "% 2 == 0" in report.to_dict()["plans"][1]["when"]
    assert "plan        1 where" in str(report)
    for sizes in SIZES:
        inputs = rotary(*sizes)
        for found, expected in zip(module(*inputs), Rotary()(*inputs), strict=True):
            torch.testing.assert_close(found, expected, msg=lambda text, sizes=sizes: f"{sizes}: {text}")
    with pytest.raises(disc.DimError):
        module(*rotary(2, 3, 2, 3, 5, 64)[:3], torch.randn(5, 66))


def test_halves_alone_have_one_plan():
    module = disc.optimize(Halves(), (torch.randn(3, 10),))
    assert plans(module) == [1]
    for rows, width in [(3, 10), (3, 11), (0, 4), (1, 1), (2, 0), (2, 1), (5, 64), (5, 65), (2, 2)]:
        x = torch.randn(rows, width)
        torch.testing.assert_close(module(x), Halves()(x))


@pytest.mark.parametrize("dims", ["static", {0: {1: disc.Dim("D", multiple_of=2)}}], ids=["static", "even"])
def test_what_is_known_needs_no_plan(dims):
    assert not plans(disc.optimize(Halves(), (torch.randn(3, 10),), dims=dims))


def test_parts_that_have_to_be_equal_have_none():
    assert not plans(disc.optimize(Gate(), (torch.randn(3, 10),)))


def test_plans_share_weights():
    model = Attention().eval()

    def inputs(rows, others):
        return torch.randn(rows, 7, 48), torch.randn(others, 7, 48), torch.randn(7, 48), torch.randn(7, 48)

    module = disc.optimize(model, inputs(2, 2))
    with torch.no_grad():
        for rows, others in [(2, 2), (1, 3), (0, 2)]:
            given = inputs(rows, others)
            for found, expected in zip(module(*given), model(*given), strict=True):
                torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        model.project.weight.mul_(2)
        module.refresh()
        given = inputs(2, 2)
        torch.testing.assert_close(module(*given)[1], model(*given)[1], rtol=1e-4, atol=1e-5)


def test_plans_are_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DISC_CACHE", "1")
    monkeypatch.setenv("DISC_CACHE_DIR", str(tmp_path))
    made = [disc.optimize(Rotary(), rotary(*SIZES[0])) for _ in range(2)]
    assert [disc.report(module).to_dict()["cache"]["code"] for module in made] == ["miss", "hit"]
    assert [plans(module) for module in made] == [[1, 2], [1, 2]]
    for sizes in SIZES[:6]:
        inputs = rotary(*sizes)
        torch.testing.assert_close(tuple(made[1](*inputs)), Rotary()(*inputs))


def test_shapes_that_come_often_are_specialised_as_ever():
    options = disc.Options(specialize="always")
    module, inputs = disc.optimize(Rotary(), rotary(*SIZES[0]), options=options), rotary(*SIZES[0])
    expected = Rotary()(*inputs)
    for _ in range(5):
        torch.testing.assert_close(tuple(module(*inputs)), expected)
    others = rotary(*SIZES[2])
    torch.testing.assert_close(tuple(module(*others)), Rotary()(*others))
