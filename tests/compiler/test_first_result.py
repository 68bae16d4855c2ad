"""The tree of stages of a model in a file, as ``disc bench --start`` prints it."""

import subprocess
import sys

import torch
from torch import nn


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x, y, *, scale):
        return self.layer(x) * scale + y


def test_a_model_with_several_inputs_is_timed(tmp_path):
    path = tmp_path / "m.pt2"
    args, kwargs = (torch.randn(3, 8), torch.randn(3, 4)), {"scale": torch.ones(4)}
    torch.export.save(torch.export.export(Pair().eval(), args, kwargs), path)
    run = "import sys; from disc.core.cli import disc; sys.exit(disc())"
    command = [sys.executable, "-c", run, "bench", "--start", str(path)]
    text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300).stdout
    names = [line.strip().split("  ")[0] for line in text.splitlines()]
    assert names[0] == "stage"
    for name in ("trace", "compile", "codegen", "optimize", "eager call", "first call"):
        assert name in names, text


def test_a_file_that_is_no_model_is_named(tmp_path):
    path = tmp_path / "m.pt2"
    path.write_text("nothing")
    run = "import sys; from disc.core.cli import disc; sys.exit(disc())"
    command = [sys.executable, "-c", run, "bench", "--start", str(path)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 1
    assert "m.pt2 is no file of torch.export.save" in done.stderr
