"""Tests prepared weights in the cache on disk: they are kept, found again, and never mixed up."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import textwrap

import disc
import torch
from cache_check import entries, used


def _linear(seed):
    torch.manual_seed(seed)
    return torch.nn.Linear(1024, 1030).eval()


def _weights(model, x, **options):
    """Returns the outcome for prepared weights, and the compiled module."""
    fast = used(model, x, options=disc.Options(**options))[1]
    disc._disc.cache_write_out()
    report = disc.report(fast)
    outcome = report.to_dict()["cache"]["weights"]
    assert (", weights " in str(report)) == (outcome != "off")
    return outcome, fast


def test_prepared_weights_are_kept(folder):
    x = torch.rand(3, 1024)
    assert [_weights(_linear(seed), x)[0] for seed in (0, 0, 1, 1)] == ["miss", "hit", "miss", "hit"]
    fast = _weights(_linear(0), x)[1]
    fast.load_state_dict(_linear(2).state_dict())
    torch.testing.assert_close(fast(x), _linear(2)(x).detach())
    del fast
    assert disc.clear_cache() > 0
    assert entries(folder) == []


def test_prepared_weights_are_not_kept_where_somebody_says_so(folder, monkeypatch):
    x = torch.rand(3, 1024)
    assert [_weights(_linear(0), x, cache="code")[0] for _ in range(2)] == ["off", "off"]
    monkeypatch.setenv("DISC_CACHE_WEIGHTS", "0")
    assert _weights(_linear(0), x)[0] == "off"
    assert not (folder / "weights").exists()


def test_what_is_cleared_is_not_written_later(folder):
    used(_linear(0), torch.rand(3, 1024))
    assert disc.clear_cache() > 0
    disc._disc.cache_write_out()
    assert entries(folder) == []


def test_weights_that_change_before_they_are_written_are_not_mixed_up(folder):
    """They are packed when they change; the packed ones are written,
    under the key of their plain ones.
    """
    x, model = torch.rand(3, 1024), _linear(0)
    fast = used(model, x)[1]
    with torch.no_grad():
        model.weight.mul_(2)
    disc._disc.cache_write_out()
    fast.refresh()
    torch.testing.assert_close(fast(x), model(x).detach())
    assert _weights(model, x)[0] == "miss"
    assert [_weights(_linear(0), x)[0], _weights(model, x)[0]] == ["hit", "hit"]


LEAVING = """
    import atexit, os, sys, torch, disc

    def begin(work):
        number = os.fork()
        if number:
            return number
        work()
        sys.exit()

    def end(*numbers):
        assert [os.waitpid(number, 0)[1] for number in numbers] == [0] * len(numbers)

    def use():
        torch.manual_seed(0)
        model, x = torch.nn.Linear(1024, 1030).eval(), torch.rand(3, 1024)
        with torch.no_grad():
            fast = disc.optimize(model, x)
            assert torch.allclose(fast(x), model(x), atol=1e-4)
        print(disc.report(fast).to_dict()["cache"]["weights"], flush=True)

    def use_and_fork():
        use()
        # The hooks of an exit, which takes a second where torch is loaded.
        end(begin(lambda: atexit._run_exitfuncs() or os._exit(0)))

    # What all of them import.
    disc.optimize(torch.nn.ReLU(), torch.rand(2))
    end(begin(use_and_fork), begin(use))
    print(len(os.listdir(os.path.join(os.environ["DISC_CACHE_DIR"], "weights"))), flush=True)
    use()
"""


def test_processes_that_end_leave_their_weights(tmp_path):
    """At once after the first result, two of them side by side, one of which forks meanwhile."""
    env = {**os.environ, "DISC_CACHE": "1", "DISC_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", textwrap.dedent(LEAVING)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280)
    assert (done.returncode, done.stderr) == (0, "")
    first, second, files, third = done.stdout.split()
    assert "miss" in (first, second)
    assert (files, third) == ("1", "hit")


def test_a_write_that_fails_leaves_nothing(folder):
    """No file may be longer than a part of the weights, as if the disk were full;
    nothing else is different.
    """
    before = disc.core.extension.cache_counts()["weights"]["unwritten"]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, limits[1]))
    try:
        assert _weights(_linear(0), torch.rand(3, 1024))[0] == "miss"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert disc.core.extension.cache_counts()["weights"]["unwritten"] == before + 1
    assert list((folder / "weights").iterdir()) == []
    assert [_weights(_linear(0), torch.rand(3, 1024))[0] for _ in range(2)] == ["miss", "hit"]


def test_weights_that_cannot_be_written_are_counted(folder):
    folder.mkdir(mode=0o700)
    (folder / "weights").write_text("")
    before = disc.core.extension.cache_counts()["weights"]["unwritten"]
    assert _weights(_linear(0), torch.rand(3, 1024))[0] == "miss"
    assert disc.core.extension.cache_counts()["weights"]["unwritten"] == before + 1
