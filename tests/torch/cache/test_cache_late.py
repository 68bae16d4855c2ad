"""Tests keys that are made after a capture: where nothing can be found, no key is waited for, and
what is stored is under the key of the moment before the capture.
"""

from __future__ import annotations

import contextvars
import os
import threading

import disc
import pytest
import torch
from disc.core import extension
from disc.torch.cache import capture_cache
from disc.torch.cache.fingerprint import Unsure, read
from disc.torch.cache.moment import Moment

_variable = contextvars.ContextVar("_variable", default=1.0)
_held = contextvars.ContextVar("_held", default=None)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.inner(x)


class OfVariable(torch.nn.Module):
    def forward(self, x):
        return x * _variable.get()


class OfObject(torch.nn.Module):
    def forward(self, x):
        return x * 2 if _held.get() is None else x


class Setting(torch.nn.Module):
    """Leaves another environment than it met."""

    def forward(self, x):
        os.environ["TEST_LATE"] = "1"
        return x * 2


def _state(module, x=None) -> str:
    x = torch.rand(5, 4) if x is None else x
    fast = disc.optimize(module, x)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), module(x))
    return disc.report(fast).to_dict()["cache"]["capture"]


def test_a_program_is_compiled_without_waiting_for_its_key(folder, monkeypatch):
    compiling, walked = threading.Event(), []
    compile_function, make = extension.compile_function, capture_cache.read

    def compiled(*given):
        compiling.set()
        return compile_function(*given)

    def made(*parts, **given):
        walked.append(compiling.wait(60))
        return make(*parts, **given)

    monkeypatch.setattr(extension, "compile_function", compiled)
    monkeypatch.setattr(capture_cache, "read", made)
    assert _state(Net()) == "miss"
    assert walked == [True]
    monkeypatch.setattr(capture_cache, "read", make)
    assert _state(Net()) == "hit"


def test_a_structure_that_was_asked_for_has_its_key_made_first(folder, monkeypatch):
    assert _state(Net()) == "miss"
    late = capture_cache.keep_late
    monkeypatch.setattr(capture_cache, "keep_late", lambda *given: 1 / 0)
    other = Net()
    other.name = "another key"
    assert [_state(other) for _ in range(2)] == ["miss", "hit"]
    monkeypatch.setattr(capture_cache, "keep_late", late)
    wider = Net()
    wider.inner = torch.nn.Linear(4, 5)
    assert [_state(wider) for _ in range(2)] == ["miss", "hit"]


def test_a_compilation_that_fails_says_so_and_leaves_no_thread(folder, monkeypatch):
    def fails(*given):
        raise disc.CompileError("on purpose")

    monkeypatch.setattr(extension, "compile_function", fails)
    fast = disc.optimize(Net(), torch.rand(5, 4), options=disc.Options(fallback="framework"))
    assert "on purpose" in str(disc.report(fast))
    assert not [thread for thread in threading.enumerate() if thread.name == "disc-compile"]


def test_a_late_key_is_of_the_variables_before_the_capture():
    key = read(module=OfVariable()).key
    before = Moment.now()
    token = _variable.set(2.0)
    try:
        assert read(module=OfVariable()).key != key
        assert read(module=OfVariable(), moment=before).key == key
    finally:
        _variable.reset(token)
    # Nobody knows what an object held.
    token = _held.set([1])
    try:
        with pytest.raises(Unsure, match="context variable _held"):
            read(module=OfObject(), moment=Moment.now())
    finally:
        _held.reset(token)


def test_what_a_capture_changes_is_not_stored_under_what_it_became(folder, monkeypatch):
    monkeypatch.delenv("TEST_LATE", raising=False)
    assert _state(Setting()) == "unsure: its capture changed what it reads"
    monkeypatch.delenv("TEST_LATE", raising=False)
    # The next one has its key made first.
    assert _state(Setting()) == "miss"
