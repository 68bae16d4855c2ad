"""Kernels that a first call does not run are compiled after it."""

import os
import subprocess
import sys

import disc
import pytest
import torch
from disc import _disc
from in_threads import in_threads
from torch import nn

#: Compiled code serves each call, or there is an error.
_OPTIONS = disc.Options(cache=False, fallback="error")


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.LayerNorm(64))

    def forward(self, x):
        return x + self.layers(x)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Layers().eval()


def _optimized(model, rows):
    return disc.optimize(model, torch.randn(rows, 64), options=_OPTIONS)


def test_the_first_call_needs_a_part_of_the_functions(model):
    fast = _optimized(model, 23)
    values = disc.report(fast).to_dict()
    # Fewer where micro-kernels have fewer rows (AVX2).
    assert values["deferred"] > 5
    x = torch.randn(23, 64)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x))


def test_results_do_not_depend_on_what_is_compiled(model):
    xs = [torch.randn(rows, 64) for rows in (1, 2, 7, 12, 13, 40, 300, 1)]
    with torch.no_grad():
        # What a call of these rows runs is there from the start.
        wanted = [_optimized(model, len(x))(x) for x in xs]
        fast = _optimized(model, 23)
        for x, y in zip(xs, wanted, strict=True):
            assert torch.equal(fast(x), y)
        _disc.await_specializations()
        for x, y in zip(xs, wanted, strict=True):
            assert torch.equal(fast(x), y)


def test_threads_that_need_the_rest_at_once_wait_for_it(model):
    fast, xs = _optimized(model, 23), [torch.randn(rows, 64) for rows in range(1, 33)]
    with torch.no_grad():
        wanted = [model(x) for x in xs]

    def serve(first):
        with torch.no_grad():
            for x, y in [*zip(xs, wanted, strict=True)][first::4]:
                torch.testing.assert_close(fast(x), y)

    in_threads(4, serve)


_FORKED = """
import os, sys
import torch
sys.path[:] = sys.argv[1:]
import disc
from test_deferred import Layers
torch.set_num_threads(1)
torch.manual_seed(0)
model = Layers().eval()
fast = disc.optimize(model, torch.randn(23, 64), options=disc.Options(cache=False, threads=1, fallback="error"))
with torch.no_grad():
    fast(torch.randn(23, 64))
    # The background thread compiles now.
    child = os.fork()
    x = torch.randn(5, 64)
    torch.testing.assert_close(fast(x), model(x))
    if child == 0:
        os._exit(0)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_child_that_is_forked_meanwhile_compiles_for_itself():
    run = [sys.executable, "-c", _FORKED, *sys.path]
    assert subprocess.run(run, timeout=300).returncode == 0


_ENDS = """
import sys
import torch
sys.path[:] = sys.argv[1:]
import disc
from test_deferred import Layers
torch.manual_seed(0)
model = Layers().eval()
fast = disc.optimize(model, torch.randn(23, 64))
with torch.no_grad():
    fast(torch.randn(23, 64))
print(disc.report(fast).to_dict()["cache"]["code"])
"""


def test_a_process_that_ends_leaves_its_code_to_the_next(tmp_path):
    env = {**os.environ, "DISC_CACHE": "1", "DISC_CACHE_DIR": str(tmp_path)}
    run = [sys.executable, "-c", _ENDS, *sys.path]
    states = [
        subprocess.run(
            run, env=env, stdout=subprocess.PIPE, text=True, check=True, timeout=300
        ).stdout.strip()
        for _ in range(2)
    ]
    assert states == ["miss", "hit"]


def test_a_package_has_every_function(model, tmp_path, monkeypatch):
    """Also where the same process has compiled the program in part."""
    monkeypatch.setenv("DISC_CACHE", "1")
    monkeypatch.setenv("DISC_CACHE_DIR", str(tmp_path / "cache"))
    x = torch.randn(23, 64)
    fast = disc.optimize(model, x)
    path = tmp_path / "m.discpkg"
    disc.export(model, x, path)
    run = f"import disc, numpy\ndisc.load({str(path)!r})(numpy.zeros((5, 64), 'float32'))"
    assert subprocess.run([sys.executable, "-c", run], timeout=300).returncode == 0
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x))


def test_each_cache_gets_the_code(model, tmp_path, monkeypatch):
    monkeypatch.setenv("DISC_CACHE", "1")
    for name in ("one", "other"):
        monkeypatch.setenv("DISC_CACHE_DIR", str(tmp_path / name))
        fast = disc.optimize(model, torch.randn(23, 64))
        assert disc.report(fast).to_dict()["cache"]["code"] == "miss"


_FAILS = """
import resource, sys
import torch
sys.path[:] = sys.argv[1:]
import disc
from disc import _disc
from test_deferred import Layers
torch.manual_seed(0)
model = Layers().eval()
fast = disc.optimize(model, torch.randn(23, 64), options=disc.Options(cache=False, threads=1))
# No block of 23 rows has 2 rows, on any CPU: blocks have up to 4, 6 or 12.
few, many = torch.randn(2, 64), torch.randn(23, 64)
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
torch.testing.assert_close(few, few)  # it imports what it needs
with torch.no_grad():
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        fast(many)
        _disc.await_specializations()
        torch.testing.assert_close(fast(few), model(few))
        torch.testing.assert_close(fast(many), model(many))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    text = str(disc.report(fast))
    assert "functions that the call needs could not be compiled" in text, text
    again = disc.optimize(Layers().eval(), torch.randn(23, 64), options=disc.Options(fallback="error"))
    again(few)
"""


def test_functions_that_cannot_be_linked_are_a_reason_in_the_report():
    """No file can be opened: PyTorch serves the calls that need them."""
    run = [sys.executable, "-c", _FAILS, *sys.path]
    assert subprocess.run(run, timeout=300).returncode == 0
