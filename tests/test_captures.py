"""Calls written to files, and run again by another process."""

from __future__ import annotations

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
        pytest.raises(disc.Error, match="no compiled code ran"),
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
