"""Calls written to files, and run again by another process."""

from __future__ import annotations

import json
import subprocess
import sys

import disc
import pytest
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(7, 4)
        self.out = torch.nn.Linear(4, 3)

    def forward(self, ids):
        return torch.softmax(self.out(self.table(ids)), -1)


@pytest.fixture
def fast():
    torch.manual_seed(0)
    return disc.optimize(Model().eval(), torch.tensor([[1, 2, 3]]))


def test_calls_of_a_recording_are_written(fast, tmp_path):
    with disc.capture(fast, tmp_path / "call.discap") as recording:
        fast(torch.tensor([[1, 2]]))
        fast(torch.tensor([[3]]))
    fast(torch.tensor([[4]]))
    assert recording.calls == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["call-2.discap", "call.discap"]
    other = disc.optimize(Model().eval(), torch.tensor([[1]]))
    with (
        pytest.raises(disc.Error, match="no compiled code of this"),
        disc.capture(other, tmp_path / "none.discap"),
    ):
        fast(torch.tensor([[1, 2]]))


def test_a_failing_call_leaves_a_file(fast, tmp_path, monkeypatch):
    monkeypatch.setenv("DISC_CAPTURE", str(tmp_path / "calls"))
    with pytest.raises(disc.Error):
        fast(torch.tensor([[1, 99]]))
    (path,) = (tmp_path / "calls").iterdir()
    assert path.suffix == ".discap"
    # What the caller did wrong is no failure of a call.
    with pytest.raises(disc.Error):
        fast("no tensor")
    assert len(list((tmp_path / "calls").iterdir())) == 1


def test_a_failing_call_of_a_recording_is_written(fast, tmp_path):
    with pytest.raises(disc.Error), disc.capture(fast, tmp_path / "call.discap") as recording:
        fast(torch.tensor([[1, 99]]))
    assert recording.calls == 1
    assert (tmp_path / "call.discap").exists()
    # A file that cannot be written does not hide what failed.
    (tmp_path / "taken.discap").mkdir()
    with pytest.raises(disc.Error) as raised, disc.capture(fast, tmp_path / "taken.discap"):
        fast(torch.tensor([[1, 99]]))
    assert raised.value.code == "E0603"
    with pytest.raises(disc.Error, match="no folder"), disc.capture(fast, tmp_path / "none" / "call.discap"):
        pass


class Divided(torch.nn.Module):
    """A module that disc compiles in parts: torch runs an op that it does not know."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        x = torch.softmax(self.first(x), -1)
        x = torch.linalg.matrix_exp(x[:4, :4] * 0.1) @ x[:4]
        return torch.softmax(self.second(x), -1)


def replayed(path):
    """Runs ``disc replay`` on a capture; its words as JSON."""
    found = subprocess.run(
        [sys.executable, "-c", "import disc.core.cli as cli; cli.disc()", "replay", str(path), "--json"],
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return json.loads(found.stdout)


@pytest.mark.fallback
def test_parts_of_a_module_are_written(tmp_path):
    fast = disc.optimize(Divided().eval(), torch.randn(5, 4))
    parts = disc.report(fast).to_dict()["clusters"]
    assert parts > 1
    with disc.capture(fast, tmp_path / "call.discap") as recording:
        fast(torch.randn(6, 4))
    assert recording.calls == parts
    for path in tmp_path.iterdir():
        replayed(path)


@pytest.mark.parametrize("kind", [Model, Divided])
@pytest.mark.fallback
def test_graphs_of_dynamo_are_written(kind, tmp_path):
    torch._dynamo.reset()
    example = torch.tensor([[1, 2, 3]]) if kind is Model else torch.randn(5, 4)
    other = torch.compile(torch.nn.Linear(4, 4).eval(), backend="disc")
    fast = torch.compile(kind().eval(), backend="disc")
    with torch.no_grad(), disc.capture(fast, tmp_path / "call.discap") as recording:
        fast(example)
        other(torch.randn(2, 4))
    assert recording.calls == disc.report(fast).to_dict()["clusters"]
    for path in tmp_path.iterdir():
        replayed(path)


def test_a_graph_of_dynamo_that_fails_leaves_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("DISC_CAPTURE", str(tmp_path / "calls"))
    fast = torch.compile(Model().eval(), backend="disc")
    with torch.no_grad(), pytest.raises((disc.Error, IndexError)):
        fast(torch.tensor([[1, 99]]))
    (path,) = (tmp_path / "calls").iterdir()
    assert path.suffix == ".discap"


@pytest.mark.parametrize("weights", ["exact", "bf16", "int8", "int4"])
def test_a_call_that_is_right_is_replayed_and_not_reduced(weights, tmp_path):
    model, x = torch.nn.Linear(64, 48).eval(), torch.randn(3, 64)
    fast = disc.optimize(model, x, options=disc.Options(weights=weights))
    path = tmp_path / "call.discap"
    with torch.no_grad(), disc.capture(fast, path):
        fast(x)

    def said(*arguments):
        code = "from disc.core.cli import disc; raise SystemExit(disc())"
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments, path], capture_output=True, text=True, check=True
        )
        return done.stdout

    assert said("replay").startswith("replay: as the interpreter;")
    assert said("reduce") == "the call gives the right result; nothing to reduce\n"
    assert json.loads(said("reduce", "--json"))["capture"] is None
    assert list(tmp_path.iterdir()) == [path]
