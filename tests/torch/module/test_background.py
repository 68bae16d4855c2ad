"""PyTorch serves calls while disc compiles: ``Options(background=True)``."""

import subprocess
import sys
import threading
import time

import disc
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.fallback


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.is_doubled = False

    def forward(self, x, y=None):
        x = self.linear(x).relu()
        x = x * 2 if self.is_doubled else x
        return x if y is None else x + y


@pytest.fixture
def held(monkeypatch):
    """A module whose compilations wait for the event, which is set at the end."""
    module, event = Model().eval(), threading.Event()
    fast = disc.optimize(module, background=True)
    build = fast._dispatcher.build

    def waiting(*args, **kwargs):
        event.wait(60)
        return build(*args, **kwargs)

    monkeypatch.setattr(fast._dispatcher, "build", waiting)
    yield module, fast, event
    event.set()
    assert fast.wait(60)


def _check(fast, module, *shape):
    x = torch.randn(*(shape or (3, 4)))
    with torch.no_grad():
        torch.testing.assert_close(fast(x), module(x))


def _report(fast):
    return disc.report(fast).to_dict()


def test_a_call_does_not_wait(held):
    module, fast, event = held
    for rows in (3, 1, 0):
        _check(fast, module, rows, 4)
    values = _report(fast)
    assert [(row["reason"], row["calls"]) for row in values["fallbacks"]] == [
        ("this form of call is being compiled", 3)
    ]
    assert (values["calls"], values["coverage"], fast.wait(0.01)) == (0, 0.0, False)
    event.set()
    assert fast.wait(60)
    _check(fast, module)
    assert (_report(fast)["calls"], _report(fast)["compiles"]) == (1, 1)


def test_an_example_is_compiled_behind_optimize():
    module = Model().eval()
    fast = disc.optimize(module, torch.randn(3, 4), options=disc.Options(background=True))
    assert fast.wait(60)
    _check(fast, module)
    assert (_report(fast)["coverage"], _report(fast)["fallbacks"]) == (1.0, [])


def test_each_form_is_compiled_once(held):
    module, fast, event = held
    for _ in range(3):
        _check(fast, module)
        with torch.no_grad():
            x = torch.randn(2, 4)
            torch.testing.assert_close(fast(x, y=x), module(x, x))
    event.set()
    assert fast.wait(60)
    assert _report(fast)["compiles"] == 2


def test_who_only_asks_may_wait():
    fast = disc.optimize(Model().eval(), background=True)
    x = torch.randn(3, 4)
    with torch.no_grad():
        assert not fast._dispatcher.is_compiled((x,), {})
        assert fast.wait(60)
        assert fast._dispatcher.is_compiled((x,), {})


def test_threads_get_right_answers_meanwhile():
    module = Model().eval()
    fast, wrong, end = disc.optimize(module, background=True), [], time.monotonic() + 60

    def calls():
        while len(fast._dispatcher.forms.held) < 1 and time.monotonic() < end:
            for rows in (1, 2, 5):
                x = torch.randn(rows, 4)
                with torch.no_grad():
                    if not torch.allclose(fast(x), module(x), atol=1e-6):
                        wrong.append(rows)

    threads = [threading.Thread(target=calls) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert fast.wait(60)
    _check(fast, module)
    assert _report(fast)["compiles"] == 1


def test_a_compilation_that_fails_is_a_reason(monkeypatch):
    module = Model().eval()
    fast = disc.optimize(module, background=True)
    tried = []

    def fails(*args, **kwargs):
        tried.append(args)
        raise RuntimeError("planted")

    monkeypatch.setattr(fast._dispatcher, "build", fails)
    for _ in range(3):
        _check(fast, module)
        assert fast.wait(60)
    assert len(tried) == 1
    assert any("planted" in row["reason"] for row in _report(fast)["fallbacks"])


def test_a_change_meanwhile_is_seen(held):
    module, fast, event = held
    _check(fast, module)
    time.sleep(0.1)
    module.is_doubled = True
    event.set()
    assert fast.wait(60)
    for _ in range(3):
        _check(fast, module)
        assert fast.wait(60)
    assert _report(fast)["calls"] > 0
    module.is_doubled = False
    _check(fast, module)


class Counted(Model):
    def forward(self, x):
        self.last = x.sum()
        return super().forward(x) + self.last


def test_a_module_whose_calls_assign_attributes_is_compiled_in_front():
    module = Counted().eval()
    fast = disc.optimize(module, background=True)
    _check(fast, module)
    assert fast._dispatcher.behind._asked == {}


def test_who_forbids_pytorch_cannot_have_it_serve():
    for options in (disc.Options(fallback="error"), disc.Options(release_weights=True)):
        with pytest.raises(disc.Error, match="background=True"):
            disc.optimize(Model(), background=True, options=options)
    with pytest.raises(Exception, match=r"for disc[.]optimize alone"):
        torch.compile(Model(), backend="disc", options={"background": True})(torch.randn(2, 4))


PROGRAM = """
import os, sys, torch, disc
torch.set_num_threads(1)  # the threads of PyTorch do not outlive a fork
m = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Linear(4, 2)).eval()
fast, x = disc.optimize(m, background=True), torch.randn(3, 4)
with torch.no_grad():
    y = fast(x)
    if sys.argv[1] == "fork" and (child := os.fork()):
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
    torch.testing.assert_close(fast(x), m(x))
    if sys.argv[1] == "fork":
        assert fast.wait(60)
        torch.testing.assert_close(fast(x), m(x))
print("done", flush=True)
"""


@pytest.mark.parametrize("way", ["exit", "fork"])
def test_a_process_may_end_or_fork_meanwhile(way):
    run = subprocess.run([sys.executable, "-c", PROGRAM, way], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["done"] * (2 if way == "fork" else 1)
