"""Flags, names and submodules that calls change for those after them."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import disc
import pytest
import torch
from torch import nn


class Switches(nn.Module):
    """A short call turns a mode on permanently, as BigBird does."""

    def __init__(self):
        super().__init__()
        self.mode, self.linear = "sparse", nn.Linear(4, 4)

    def forward(self, x):
        if self.mode == "sparse" and x.shape[0] < 4:
            self.set_mode("full")
        return self.linear(x).relu() * 2 if self.mode == "sparse" else self.linear(x) - 1

    def set_mode(self, mode):
        self.mode = mode


class Replaces(nn.Module):
    """A short call replaces a submodule."""

    def __init__(self):
        super().__init__()
        self.inner, self.other = nn.Linear(4, 4), [nn.Linear(4, 4)]

    def forward(self, x):
        if x.shape[0] < 4:
            self.inner = self.other[0]
        return self.inner(x).relu()


class Flags(nn.Module):
    """A flag that one way sets and the other one reads."""

    def __init__(self):
        super().__init__()
        self.flag = False

    def forward(self, x):
        if x.shape[0] < 4:
            self.flag = True
            return x * 3 + 1
        return x.relu() * 2 if self.flag else x + 1


class Later(nn.Module):
    """A count that decides only after some calls."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 3:
            return x * 100
        return x + 1


KINDS = [Switches, Replaces, Flags, Later]
ORDERS = [(8, 2, 8, 2, 9, 3, 6), (2, 8, 3, 9, 2), (8, 9, 2, 2, 2, 3, 8, 9)]


def pair(kind):
    module = kind().eval()
    return module, copy.deepcopy(module)


@pytest.mark.fallback
@pytest.mark.parametrize("has_example", [False, True])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_calls_after_a_change_are_eagers(kind, order, has_example):
    module, eager = pair(kind)
    fast = disc.optimize(module, torch.randn(order[0], 4) if has_example else None)
    with torch.no_grad():
        for size in order:
            x = torch.randn(size, 4)
            torch.testing.assert_close(fast(x), eager(x))
            fast._dispatcher.variants.wait()


@pytest.mark.fallback
def test_programs_come_back_with_the_attributes():
    module, eager = pair(Switches)
    fast = disc.optimize(module, torch.randn(8, 4))
    with torch.no_grad():
        for size in (8, 2, 8, 9):
            x = torch.randn(size, 4)
            torch.testing.assert_close(fast(x), eager(x))
        values = disc.report(fast).to_dict()
        assert values["signatures"] == 2
        assert values["compiles"] == 2
        module.mode = eager.mode = "sparse"
        for size in (8, 2, 8):
            x = torch.randn(size, 4)
            torch.testing.assert_close(fast(x), eager(x))
    assert disc.report(fast).to_dict()["compiles"] == 2


@pytest.mark.fallback
@pytest.mark.parametrize("kind", KINDS)
def test_the_call_after_one_that_settles_attributes_is_compiled(kind):
    module, eager = pair(kind)
    x = torch.randn(2, 4)
    fast = disc.optimize(module, x)
    assert disc.report(fast).to_dict()["compiles"] == 0
    with torch.no_grad():
        torch.testing.assert_close(fast(x), eager(x))
        for size in (2, 3):
            x = torch.randn(size, 4)
            torch.testing.assert_close(fast(x), eager(x))
    values = disc.report(fast).to_dict()
    assert values["captured_by"] == ("dynamo" if kind is Later else "none"), "of the first call"
    if kind is not Later:
        assert values["compiles"] + values["cache_hits"] == 1


@pytest.mark.fallback
def test_a_call_that_leaves_the_attributes_does_not_wait_for_one_that_settles_them():
    module, eager = pair(Flags)
    fast = disc.optimize(module, torch.randn(2, 4))
    with torch.no_grad():
        for size in (8, 9, 2, 8, 9):
            x = torch.randn(size, 4)
            torch.testing.assert_close(fast(x), eager(x))
            if size == 9:
                assert disc.report(fast).to_dict()["compiles"] > 0
    rows = {row["op"]: row["calls"] for row in disc.report(fast).to_dict()["fallbacks"]}
    assert rows["module"] < 3


@pytest.mark.parametrize("kind", [Switches, Replaces, Flags, Later])
@pytest.mark.parametrize("exported", [False, True])
def test_a_change_that_later_calls_may_read_is_refused(kind, exported, monkeypatch):
    if exported:
        monkeypatch.setattr("disc.torch.capture.capture.quick", lambda *a, **k: [][0])
    module, _ = pair(kind)
    named = {"Switches": "attribute mode .*set_mode|attribute mode", "Replaces": "submodule inner"}
    named |= {"Flags": "attribute flag", "Later": "attribute calls"}
    with pytest.raises(disc.Error, match=f"keeps state .*{named[kind.__name__]}") as caught:
        disc.optimize(module, torch.randn(2, 4))
    assert caught.value.code == "E0405"
    assert "set it before disc.optimize" in caught.value.help
    assert getattr(module, "mode", "sparse") == "sparse"


@pytest.mark.fallback
@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
def test_a_copy_begins_with_the_attributes_of_its_original(way):
    module, eager = pair(Switches)
    fast = disc.optimize(module, torch.randn(8, 4))
    with torch.no_grad():
        for size in (8, 2):
            x = torch.randn(size, 4)
            torch.testing.assert_close(fast(x), eager(x))
        twin = copy.deepcopy(fast) if way == "deepcopy" else pickle.loads(pickle.dumps(fast))
        for size in (8, 2, 9):
            x = torch.randn(size, 4)
            torch.testing.assert_close(twin(x), eager(x))


@pytest.mark.fallback
def test_checks_and_verified_calls_leave_attributes_alone():
    module, eager = pair(Switches)
    fast = disc.optimize(module, options=disc.Options(verify=4))
    with torch.no_grad():
        for size in (8, 2, 8, 2):
            x = torch.randn(size, 4)
            torch.testing.assert_close(fast(x), eager(x))
    assert disc.report(fast).to_dict()["verified"] == {"compared": 4, "first_difference": None}
    module, _ = pair(Switches)
    fast = disc.optimize(module, torch.randn(8, 4))
    assert disc.check(fast, torch.randn(8, 4))
    assert module.mode == "sparse"


class Notes(nn.Module):
    """Notes of sizes, and a count that nobody else reads."""

    def __init__(self):
        super().__init__()
        self.size, self.calls, self.last = 0, 0, None

    def forward(self, x):
        self.size, self.last = x.shape[0], x
        self.calls += 1
        return (x * self.size).reshape(-1, 4)


@pytest.mark.fallback
def test_notes_do_not_compile_anew():
    module, eager = pair(Notes)
    fast = disc.optimize(module, torch.randn(8, 4))
    for shape in [(8, 4), (3, 4), (2, 3), (9, 4), (2, 7), (5, 4)]:
        x = torch.randn(shape)
        try:
            expected = eager(x)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                fast(x)
            continue
        torch.testing.assert_close(fast(x), expected)
    assert disc.report(fast).to_dict()["signatures"] == 1


def test_a_released_module_goes_away():
    module = Switches().eval()
    fast = disc.optimize(module, torch.randn(8, 4), options=disc.Options(release_weights=True))
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None
    fast(torch.randn(5, 4))
