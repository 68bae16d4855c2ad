"""The list of models that benches/zoo.py writes: wrong results and failures are rows of it."""

from __future__ import annotations

import copy
from pathlib import Path

import disc
import pytest
import torch

pytestmark = pytest.mark.fallback


@pytest.fixture
def zoo(request, monkeypatch):
    if request.config.getoption("--examples") != "all":
        pytest.skip("runs in `make examples`")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benches"))
    import zoo

    return zoo


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.scale = torch.nn.Parameter(torch.zeros(4))

    def forward(self, x):
        return x + self.scale * self.linear(x)


def row(zoo, module) -> dict:
    calls = [{"x": torch.randn(n, 4)} for n in (3, 1, 7)]
    return zoo._row(zoo.Entry("torch", lambda: module, lambda _: calls))


def test_a_right_model_is_whole(zoo):
    found = row(zoo, Model())
    assert (found["kind"], found["served"], found["faults"]) == ("whole", 3, [])
    assert 0 < found["error"] < 1e-5
    assert found["ratio"] > 0


def test_branches_that_begin_at_zero_are_compared(zoo):
    assert zoo.stirred(Model()).scale.abs().max() > 0


def test_a_wrong_result_is_listed(zoo, monkeypatch):
    optimize = disc.optimize

    def of_another(module, **more):
        other = copy.deepcopy(module)
        other.scale.data *= 1.01
        return optimize(other, **more)

    monkeypatch.setattr(zoo.disc, "optimize", of_another)
    found = row(zoo, Model())
    assert found["kind"] == "wrong"
    assert "differs by" in found["faults"][0]["text"]
    import zoo_page

    assert "| wrong |" in zoo_page._line({"model": "m", "library": "torch", **found})


def test_a_process_that_dies_is_a_row(zoo):
    import os
    import signal

    def dies():
        os.kill(os.getpid(), signal.SIGTERM)

    found = zoo.apart.run(dies, 20)
    assert (found["kind"], found["note"]) == ("error", "it died of SIGTERM")


def test_rounding_as_of_eager_is_no_fault(zoo):
    exact = torch.tensor([1.0, 2.0], dtype=torch.float64)
    eager = torch.tensor([1.001, 2.0])
    assert zoo._is_as_near(torch.tensor([0.998, 2.0]), eager, exact)
    assert not zoo._is_as_near(torch.tensor([0.99, 2.0]), eager, exact)


def test_names_are_distinct_and_many(zoo):
    assert len(zoo.MODELS) >= 150
    assert {entry.library for entry in zoo.MODELS.values()} == {"transformers", "timm", "torchvision"}
