"""Events of disc in Python's logging: loggers ``disc.capture``, ``disc.compile``, ..."""

import logging
import os
import subprocess
import sys
import threading

import disc
import pytest
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return torch.softmax(torch.tanh(x), -1)


class Refused(nn.Module):
    """disc serves only sizes below eight."""

    def forward(self, x):
        return x + 1 if x.shape[0] < 8 else x - 1


@pytest.fixture
def records(caplog):
    caplog.set_level(logging.DEBUG, logger="disc")
    return lambda name: [r.getMessage() for r in caplog.records if r.name == name]


def test_a_compilation_says_what_it_does(records):
    disc.optimize(Net(), (torch.randn(3, 4),), options=disc.Options(cache=False))
    assert any(text.startswith("Net is captured by disc") for text in records("disc.capture"))
    assert "capture of Net: off" in records("disc.cache")
    compiled = records("disc.compile")
    # The first is of the compiler in Rust.
    assert any("a program is compiled" in text and "kernels=" in text for text in compiled)
    assert any(text.startswith("pass name=") for text in compiled)
    assert any(text.startswith("Net is compiled whole") for text in compiled)


def test_hits_and_misses_of_the_cache_are_events(records, tmp_path, monkeypatch):
    monkeypatch.setenv("DISC_CACHE", "1")
    monkeypatch.setenv("DISC_CACHE_DIR", str(tmp_path))
    for _ in range(2):
        disc.optimize(Net(), (torch.randn(3, 4),))
    found = records("disc.cache")
    assert [text for text in found if text.startswith("capture")] == [
        "capture of Net: miss",
        "capture of Net: hit",
    ]
    assert [text for text in found if text.startswith("code")] == [
        "code of a program: miss",
        "code of a program: hit",
    ]


def test_a_call_that_torch_runs_is_an_event_with_its_reason(records):
    fast = disc.optimize(Refused(), (torch.randn(3, 4),), options=disc.Options(fallback="framework"))
    fast(torch.randn(9, 4))
    (text,) = records("disc.runtime")
    assert text.startswith("torch runs a call of Refused: ")
    assert "8" in text


def test_levels_hold_for_the_events_of_the_compiler(caplog):
    caplog.set_level(logging.INFO, logger="disc")
    disc.optimize(Net(), (torch.randn(3, 4),), options=disc.Options(cache=False))
    levels = {record.levelno for record in caplog.records if record.name.startswith("disc")}
    assert levels == {logging.INFO}


def test_compilations_of_many_threads_log_without_waiting_for_each_other(caplog):
    caplog.set_level(logging.DEBUG, logger="disc")

    def work(rank: int) -> None:
        disc.optimize(Net(), (torch.randn(*[2] * rank),), options=disc.Options(cache=False))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    compiled = [record for record in caplog.records if "a program is compiled" in record.getMessage()]
    assert len(compiled) == 4


PROGRAM = """
import torch, disc
disc.optimize(torch.nn.Tanh(), (torch.randn(3, 4),), options=disc.Options(cache=False))
"""


def run(program: str = PROGRAM, **variables) -> str:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment = {**kept, "PYTHONPATH": ":".join(sys.path), "DISC_CACHE": "0", **variables}
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return found.stderr


def test_torch_logs_takes_disc_as_a_name():
    found = run(TORCH_LOGS="+disc")
    assert "is captured by disc" in found, found
    assert "a program is compiled" in found, found


def test_nothing_is_logged_by_default():
    assert run() == ""


def test_disc_log_goes_to_standard_error_as_before():
    found = run(DISC_LOG="disc=info")
    assert "a program is compiled" in found
    assert "is captured by" not in found


#: The runtime warns of the number of threads when it loads code.
WARNS = "import numpy, disc; disc.load({path!r})(numpy.zeros(3, numpy.float32))"


def test_a_warning_of_the_runtime_is_said_once(tmp_path):
    path = str(tmp_path / "tanh.discpkg")
    disc.export(nn.Tanh(), (torch.randn(4),), path)
    program = WARNS.format(path=path)
    bare = run(program, DISC_NUM_THREADS="many")
    assert bare.count("DISC_NUM_THREADS is `many`") == 1
    configured = run(
        f"import logging; logging.basicConfig(format='log: %(message)s'); {program}", DISC_NUM_THREADS="many"
    )
    assert configured.count("DISC_NUM_THREADS is `many`") == 1
    assert "log: DISC_NUM_THREADS" in configured
    both = run(f"import logging; logging.basicConfig(); {program}", DISC_NUM_THREADS="many", DISC_LOG="warn")
    assert both.count("DISC_NUM_THREADS is `many`") == 2
