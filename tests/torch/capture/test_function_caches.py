"""Caches of functions (``functools.lru_cache``) keep no fake tensor of a capture."""

from __future__ import annotations

import functools

import disc
import pytest
import torch
from disc.torch.capture.function_caches import FunctionCaches
from torch import nn


@functools.lru_cache
def _table(width):
    return torch.arange(float(width))


@functools.cache
def _nested(width):
    return {"tables": [torch.ones(width), (torch.arange(width) * 2.0,)]}


@functools.cache
def _number(value):
    return value * 3


class Global(nn.Module):
    def forward(self, x):
        return x * _table(4) + _number(2)


class Nested(nn.Module):
    def forward(self, x):
        held = _nested(4)["tables"]
        return x + held[0] * held[1][0]


class OfClass(nn.Module):
    @staticmethod
    @functools.lru_cache(maxsize=2)
    def table(width):
        return torch.arange(float(width)) + 1

    def forward(self, x):
        return x * self.table(4)


class OfInstance(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = functools.cache(lambda width: torch.arange(float(width)) + 2)

    def forward(self, x):
        return x * self.table(4)


def enclosed():
    @functools.lru_cache
    def table(width):
        return torch.arange(float(width)) + 3

    class Enclosed(nn.Module):
        def forward(self, x):
            return x * table(4)

    return Enclosed()


class Branching(nn.Module):
    """It is traced again, at a size of 1."""

    def forward(self, x):
        if x.shape[0] == 1:
            return x * _table(4)
        return x * _table(4)


class Refused(nn.Module):
    def forward(self, x):
        if (x * _table(4)).sum() > 0:
            raise ValueError("of the data")
        return x


@pytest.fixture(autouse=True)
def _empty():
    for cache in (_table, _nested, _number, OfClass.table):
        cache.cache_clear()


@pytest.mark.parametrize("make", [Global, Nested, OfClass, OfInstance, enclosed, Branching])
def test_eager_works_after_a_capture_that_filled_a_cache(make):
    model = make().eval()
    fast = disc.optimize(model, torch.rand(3, 4), options=disc.Options(cache=False))
    for rows in (3, 1, 0, 5):
        x = torch.rand(rows, 4)
        torch.testing.assert_close(fast(x), model(x))


def test_eager_works_after_a_capture_that_failed():
    with pytest.raises(disc.Error):
        disc.optimize(Refused(), torch.rand(3, 4), options=disc.Options(cache=False))
    assert type(_table(4)) is torch.Tensor
    assert _table(4).tolist() == [0, 1, 2, 3]


def test_a_cache_that_got_no_fake_tensor_keeps_its_entries():
    _number(5)
    before = _table(4)
    fast = disc.optimize(Global(), torch.rand(3, 4), options=disc.Options(cache=False))
    assert _table(4) is before
    assert _number.cache_info().currsize == 2
    torch.testing.assert_close(fast(torch.ones(1, 4)), before[None] + 6)


def test_only_caches_with_fake_tensors_are_cleared():
    caches = FunctionCaches(Global())
    with caches.without_fakes(), torch._subclasses.FakeTensorMode():
        _table(3), _number(1)
    assert caches.cleared == [_table]
    assert (_table.cache_info().currsize, _number.cache_info().currsize) == (0, 1)


def test_a_program_is_found_again_though_its_capture_cleared_a_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DISC_CACHE", "1")
    monkeypatch.setenv("DISC_CACHE_DIR", str(tmp_path / "cache"))

    def state():
        fast = disc.optimize(Global(), torch.rand(3, 4))
        torch.testing.assert_close(fast(torch.ones(2, 4)), Global()(torch.ones(2, 4)))
        return disc.report(fast).to_dict()["cache"]["capture"]

    assert state() == "miss"
    _table.cache_clear()
    _number.cache_clear()
    assert state() == "hit"
    # The call of the original has filled the cache: its result might be another one.
    assert state() == "miss"
    assert state() == "hit"
