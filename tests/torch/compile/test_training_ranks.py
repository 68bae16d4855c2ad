"""Two processes that train one model, beside one process with the joined batch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from training_ranks import model, train

PROGRAM = Path(__file__).with_name("training_ranks.py")


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_ranks_are_one_process_with_the_joined_batch(kind, tmp_path):
    # Both ranks share the processors of the test.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DISC_CACHE": "0"}
    arguments = ["2", str(tmp_path / "meeting"), str(tmp_path / "weights")]
    started = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), kind, str(rank), *arguments],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    for process in started:
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said[-3000:]
    expected = model()
    train(expected, expected, lambda whole: whole)
    wanted = {name: p.detach() for name, p in expected.named_parameters()}
    for rank in range(2):
        torch.testing.assert_close(torch.load(f"{tmp_path / 'weights'}.{rank}"), wanted, rtol=1e-4, atol=1e-5)
