"""``disc compile model.pt2``: files of ``torch.export.save`` become packages."""

import json
import subprocess
import sys

import disc
import numpy as np
import pytest
import torch
from disc.torch.exported_file import compile_file


class Scores(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(50, 8)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, ids):
        return {"scores": torch.softmax(self.linear(self.table(ids)), -1), "sum": ids.sum()}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    module, ids = Scores().eval(), torch.randint(0, 50, (2, 5))
    sizes = {0: torch.export.Dim("B"), 1: torch.export.Dim("S", min=2, max=512)}
    path = tmp_path_factory.mktemp("saved") / "scores.pt2"
    torch.export.save(torch.export.export(module, (ids,), dynamic_shapes=(sizes,)), path)
    return module, path


def request(path, output, **changes):
    plain = {"entry": "main", "targets": [], "dims": {}, "options": {}, "threads": 1}
    return {"model": str(path), "output": str(output), **plain, **changes}


def test_an_exported_program_becomes_a_package(saved, tmp_path):
    module, path = saved
    dims = {"ids": {"0": "B"}}
    compile_file(
        request(path, tmp_path / "m.discpkg", entry="score", dims=dims, options={"winograd": "false"})
    )
    package = disc.load(tmp_path / "m.discpkg")
    entry = package["score"]
    assert [port.name for port in entry.outputs] == ["scores", "sum"]
    assert entry.inputs[0].dims[0] == "B"
    ids = torch.randint(0, 50, (3, 9))
    scores, total = entry(ids.numpy())
    np.testing.assert_allclose(scores, module(ids)["scores"].detach().numpy(), rtol=1e-5)
    assert total == ids.sum()


def test_the_worker_answers_with_one_line(saved, tmp_path):
    other = tmp_path / "other.pt2"
    other.write_bytes(b"no model")
    for wish, words in [
        (request(other, tmp_path / "m.discpkg"), "is no file of torch.export.save"),
        (
            request(saved[1], tmp_path / "m.discpkg", options={"weightz": "int8"}),
            "there is no option weightz",
        ),
    ]:
        command = [sys.executable, "-m", "disc.torch.exported_file"]
        done = subprocess.run(command, input=json.dumps(wish), capture_output=True, text=True, check=False)
        error = json.loads(done.stdout.splitlines()[-1])["error"]
        assert words in error["message"]
        assert done.returncode == 1
        assert not (tmp_path / "m.discpkg").exists()
