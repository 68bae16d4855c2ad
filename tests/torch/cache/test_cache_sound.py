"""The cache never answers with what another process, or another model, had:
two processes with other seeds, and verifying.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import pickle
import subprocess
import sys
import time
from dataclasses import replace

import disc
import pytest
import torch
from disc.core import extension
from disc.torch.cache.fingerprint import read
from disc.torch.graph import weight_names

SCRIPT = pathlib.Path(__file__).with_name("cache_cases.py")
#: Weights alone differ: the second process uses the capture of the first.
SHARED = {"detached_weight", "complex_weight", "tensor_subclass"}
#: The key covers all that decides them: they are kept, and the second process has another key.
KEPT = {
    "cached_tensor", "cached_array", "cached_number", "cached_random", "cached_keyword", "cached_method", "cached_property",
    "dict_of_module", "class_attributes", "global_tensor", "global_array", "default_argument", "closure_number", "closure_tensor",
    "bound_method", "bound_item", "metaclass", "descriptor", "environment", "seed", "argument_of_the_program",
    "attribute_of_a_weight", "hidden_weights",
}  # fmt: skip
#: Kept as well, but by the second process that meets the like: what a thread holds may be another
#: thing after a capture.
KEPT_LATER = {"holders"}


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """The outcomes of the cache in two processes, whose results were compared with eager's."""
    folder = tmp_path_factory.mktemp("cases")
    found = []
    for seed in (0, 1):
        env = {**os.environ, "DISC_CACHE": "1", "DISC_CACHE_DIR": str(folder / "cache")}
        command = [sys.executable, str(SCRIPT), str(seed), str(folder)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return found


def test_each_process_gets_its_own_values(states):
    for once in states:
        assert {name: state for name, state in once.items() if state.startswith("failed")} == {}


def test_a_process_shares_what_the_key_covers_and_keeps_nothing_else(states):
    first, second = states
    assert {name for name, state in second.items() if state == "hit"} == SHARED
    assert {name for name, state in first.items() if state == "miss"} == SHARED | KEPT
    assert {name for name, state in second.items() if state == "miss"} == KEPT | KEPT_LATER
    assert all(first[name].startswith("unsure: ") for name in first.keys() - SHARED - KEPT)
    unsure = second.keys() - SHARED - KEPT - KEPT_LATER
    assert all(second[name].startswith("unsure: ") for name in unsure)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 3)

    def forward(self, x):
        scale = float(os.environ.get("CACHE_TEST_SCALE", "2"))
        return {"y": self.inner(x) * scale, "rows": x.shape[0]}


def _state(module, x=None) -> str:
    fast = disc.optimize(module, torch.rand(5, 4) if x is None else x)
    return disc.report(fast).to_dict()["cache"]["capture"]


def test_verifying_captures_anyway_and_compares(folder, monkeypatch):
    assert _state(Net()) == "miss"
    # The model reads the environment, which is in the key but for what disc reads.
    monkeypatch.setenv("DISC_CACHE", "verify")
    assert _state(Net()) == "verified"
    spoil = folder / "capture"
    get = extension.cache_get

    def other(directory, level, key):
        found = get(directory, level, key)
        if level != "capture" or found is None:
            return found
        entry = pickle.loads(found)
        captured = replace(entry.captured, source=entry.captured.source.replace("2.0", "3.0"))
        return pickle.dumps(replace(entry, captured=captured))

    assert len(list(spoil.iterdir())) == 1
    monkeypatch.setattr(extension, "cache_get", other)
    with pytest.warns(RuntimeWarning, match=r"line \d+ of the program is .*3\.0.*, and now .*2\.0"):
        fast = disc.optimize(Net(), torch.rand(5, 4))
    x = torch.rand(2, 4)
    torch.testing.assert_close(fast(x)["y"], fast.original(x)["y"].detach())
    assert disc.report(fast).to_dict()["cache"]["capture"].startswith("wrong: line")


def test_a_variable_of_the_cache_that_is_none_is_an_error(monkeypatch):
    monkeypatch.setenv("DISC_CACHE", "check")
    with pytest.raises(disc.Error, match="expected 0, 1 or verify"):
        disc.optimize(Net(), torch.rand(5, 4))


@functools.lru_cache(2)
def _table(count):
    return torch.arange(float(count))


@functools.cache
def _factor(scale=1.0):
    return {"scale": scale}


class Cached(torch.nn.Module):
    def forward(self, x):
        return x * _table(4) * _factor(scale=2.0)["scale"]


def test_entries_of_caches_that_a_capture_did_not_use_make_no_difference(folder):
    for memo in (_table, _factor):
        memo.cache_clear()
    _table(4), _factor(scale=2.0)
    assert _state(Cached()) == "miss"
    _table(9)
    assert _state(Cached()) == "hit"
    _table.cache_clear()
    _table(9)
    assert _state(Cached()) == "miss", "what it used may be another one when it is made again"
    _table.cache_clear()


def _clock():
    return time.time()


def _holds_an_object(value=iter([1])):  # noqa: B008
    return value


class Choosing(torch.nn.Module):
    """Names what changes from process to process, and may not run it."""

    def __init__(self, runs):
        super().__init__()
        self.runs = runs

    def forward(self, x):
        if self.runs == "clock":
            return x + _clock()
        return x if self.runs == "object" and _holds_an_object() is None else x * 2


def test_a_function_in_doubt_counts_if_it_runs(folder):
    x = torch.rand(3)
    assert len(read(module=Choosing("none")).findings.doubts) == 2
    # Nobody looks at what runs where nothing can be found.
    found = [_state(Choosing("none"), x) for _ in range(3)]
    assert found == ["unsure: its code uses time", "miss", "hit"]
    assert [_state(Choosing("clock"), x) for _ in range(2)] == ["unsure: its code uses time"] * 2
    assert [_state(Choosing("object"), x) for _ in range(2)] == [
        "unsure: an object of builtins.list_iterator"
    ] * 2
    assert sys.getprofile() is None


class HalfRead:
    def __init__(self):
        self.first, self.second = _uses_it, iter([1])


def _uses_it():
    return _held


_held = HalfRead()


class Indirect(torch.nn.Module):
    def forward(self, x):
        return x * _first() if x.dim() > 9 else x * _second()


def _first():
    return _held.first


def _second():
    return 2.0 if _uses_it() is _held else 3.0


def test_what_refers_to_an_object_that_is_half_read_is_in_doubt(folder):
    """The object is met first below a function that does not run."""
    assert _state(Indirect(), torch.rand(3)).startswith("unsure: an object of builtins.list_iterator")


class OfTorch(torch.nn.Module):
    def forward(self, x):
        return x + torch.disc_test_table


def test_a_constant_of_unknown_origin_is_not_kept(folder, monkeypatch):
    """torch is known by version: what somebody adds to it is seen only in the graph."""
    monkeypatch.setattr(torch, "disc_test_table", torch.rand(4), raising=False)
    for _ in range(2):
        assert _state(OfTorch(), torch.rand(4)) == "unsure: a tensor [4] of unknown origin"


def test_the_tensors_of_a_subclass_are_weights_that_are_found_again():
    inner = torch.nn.Linear(4, 3)
    names = [name for name, _ in weight_names.named(torch.nn.Sequential(inner))]
    assert names == ["0.weight", "0.bias"]
    assert weight_names.Names(inner).of(inner.weight.data) == "weight"
    assert weight_names.Names(inner).of(inner.weight.data[:2]) is None
    assert weight_names.find(inner, "weight") is inner.weight
    assert weight_names.find(inner, "weight.gone") is None
