"""Tests the overrides of capture: they hold only in the tracing thread, and are put back."""

from __future__ import annotations

import builtins
import logging
import math
import sys
import threading
from dataclasses import replace

import disc
import pytest
import torch
from disc.torch.capture import capture
from disc.torch.overrides import registry
from disc.torch.tracer import tracer  # noqa: F401
from torch import nn
from torch.nn import functional as F

#: Held from before any capture, as modules hold what they import by name.
HELD = torch.compiler.is_compiling


class Loss(nn.Module):
    def forward(self, x, y, v):
        return F.gaussian_nll_loss(x, y, v.abs() + 1)


class Sizes(nn.Module):
    """Asks for sizes by all that is replaced."""

    def forward(self, x):
        n = max(x.shape[1], 2) + len(x)
        return x[x.shape[0] - 1].contiguous() * n + F.max_pool1d(x.unsqueeze(1), 1).sum()


ANSWERS = {
    "any": lambda: torch.any(torch.tensor([False, True])).item() is True,
    "none": lambda: torch.any(torch.tensor([False])).item() is False,
    "max": lambda: max(3, 5) == 5 and max([1, 2], key=lambda n: -n) == 1,
    "pow": lambda: math.pow(2.0, 3.0) == 8.0 and type(math.pow(2, 3)) is float,
    "item": lambda: torch.arange(4)[2].item() == 2,
    "compiling": lambda: torch.compiler.is_compiling() is False and HELD() is False,
    "exporting": lambda: torch.compiler.is_exporting() is False,
    "len": lambda: len([1, 2]) == 2 and len(torch.ones(3, 2)) == 3,
}


def places():
    """Returns the functions that are in place now."""
    found = []
    for override in registry.table():
        owner, name = override.owner, override.name
        if isinstance(owner, dict):
            found.append(owner.get(name))
        else:
            found.append(
                vars(owner).get(name, "inherited") if isinstance(owner, type) else getattr(owner, name)
            )
    return found


def model_and_examples(number: int):
    if number % 2:
        return Loss().eval(), [torch.ones(2 + number % 3, 4)] * 3
    return Sizes().eval(), [torch.ones(3, 5)]


def captured(number: int):
    model, examples = model_and_examples(number)
    with torch.no_grad():
        fast = disc.optimize(model, tuple(examples), options=disc.Options(cache=False, progress=False))
    return fast, model, examples


@pytest.mark.parametrize(("models", "calls"), [(50, 100_000)])
def test_other_threads_get_their_own_answers_while_models_are_captured(models, calls):
    wrong, ended, rounds = [], threading.Event(), dict.fromkeys(ANSWERS, 0)

    def ask(names):
        while not ended.is_set() or min(rounds[name] for name in names) < calls // 100:
            for name in names:
                wrong.extend(name for _ in range(100) if not ANSWERS[name]())
                rounds[name] += 1

    # A capture gives way in each op: with the usual 5 ms it would wait most of the time.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(2e-4)
    names = list(ANSWERS)
    threads = [threading.Thread(target=ask, args=(names[i::3],)) for i in range(3)]
    for thread in threads:
        thread.start()
    try:
        results = [captured(number) for number in range(2)]
        # The others are not compiled: capture alone overrides anything.
        for number in range(2, models):
            model, examples = model_and_examples(number)
            capture.capture(model, tuple(examples))
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert wrong == []
    for fast, model, examples in results:
        torch.testing.assert_close(fast(*examples), model(*examples))


def test_everything_is_put_back():
    before = places()
    captured(0)
    captured(1)
    with pytest.raises(disc.Error):
        disc.optimize(Raises(), torch.ones(2, 3), options=disc.Options(cache=False))
    assert all(a is b or a == b for a, b in zip(places(), before, strict=True))
    assert not any(registry.is_active(override.scope) for override in registry.table())


def test_nothing_stays_if_an_override_cannot_be_put_in_place(monkeypatch):
    missing = registry.Override(torch, "no_such_function", lambda: None, "tests an owner that lacks the name")
    before = places()
    with monkeypatch.context() as patch:
        patch.setattr(registry, "_registered", [*registry._registered, missing])
        with pytest.raises(AttributeError, match="no_such_function"), registry.overridden("capture"):
            pass
    assert all(a is b or a == b for a, b in zip(places(), before, strict=True))


class Raises(nn.Module):
    def forward(self, x):
        raise RuntimeError("never")


def test_each_override_says_why_and_none_is_declared_twice():
    table = registry.table()
    assert {builtins, math, torch, torch.Tensor} <= {o.owner for o in table if not isinstance(o.owner, dict)}
    for override in table:
        assert override.why, override
        same = [o for o in table if o.owner is override.owner and o.name == override.name]
        assert same == [override], override


def test_an_override_is_active_in_its_scope_alone(monkeypatch):
    space = type("Space", (), {"name": staticmethod(lambda: "plain")})
    one = registry.Override(space, "name", lambda: "other", "a test", scope="of the test")
    monkeypatch.setattr(
        registry, "_registered", [one, replace(one, owner={"k": len}, name="k", function=max)]
    )
    seen = []
    with registry.overridden("another"):
        seen.append(space.name())
        with registry.overridden("of the test"):
            seen.append(space.name())
            thread = threading.Thread(target=lambda: seen.append(space.name()))
            thread.start()
            thread.join()
        seen.append(space.name())
    assert seen == ["plain", "other", "plain", "plain"]


def test_other_threads_log_while_a_model_is_captured(caplog):
    log = logging.getLogger("torch._subclasses.fake_tensor")
    with capture._quiet():
        log.error("of the capture")
        thread = threading.Thread(target=log.error, args=("of another thread",))
        thread.start()
        thread.join()
    log.error("afterwards")
    assert [record.message for record in caplog.records] == ["of another thread", "afterwards"]
