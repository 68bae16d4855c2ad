"""Modules that are changed after they were compiled: each call is as eager's."""

from __future__ import annotations

import copy
import random
import threading
from typing import ClassVar

import disc
import pytest
import torch
from torch import nn

SCALE = 2.0
TABLE = {"shift": 1.0}
OFFSET = torch.zeros(4)


def _helper(x):
    return x * SCALE + TABLE["shift"]


class Config:
    def __init__(self):
        self.factor, self.names = 3.0, ["a"]


class Block(nn.Module):
    """Flags, numbers, lists, configurations, globals, layers."""

    step = 0.5

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 24), nn.Linear(24, 4)
        self.act, self.drop = nn.ReLU(), nn.Dropout(0.5)
        self.on, self.gain, self.mode = True, 1.0, "plain"
        self.gains, self.options, self.config = [1.0, 2.0], {"sign": 1.0}, Config()
        self.register_buffer("bias", torch.zeros(4))
        self.loose = torch.zeros(4)

    def forward(self, x):
        y = self.second(self.drop(self.act(self.first(x))))
        y = y * self.gain + self.bias + self.loose + OFFSET
        if self.on:
            y = y + 100
        if self.mode == "plain":
            y = y * sum(self.gains) * self.options["sign"]
        return _helper(y) * self.config.factor * len(self.config.names) * self.step


def _globals(**values):
    globals().update(values)


#: A change of a module, and what takes it back.
CHANGES = {
    "flag": (lambda m: setattr(m, "on", False), lambda m: setattr(m, "on", True)),
    "number": (lambda m: setattr(m, "gain", 5.0), lambda m: setattr(m, "gain", 1.0)),
    "text": (lambda m: setattr(m, "mode", "other"), lambda m: setattr(m, "mode", "plain")),
    "element of a list": (lambda m: m.gains.__setitem__(0, 7.0), lambda m: m.gains.__setitem__(0, 1.0)),
    "length of a list": (lambda m: m.gains.append(3.0), lambda m: m.gains.pop()),
    "element of a dict": (lambda m: m.options.update(sign=-1.0), lambda m: m.options.update(sign=1.0)),
    "configuration": (lambda m: setattr(m.config, "factor", 9.0), lambda m: setattr(m.config, "factor", 3.0)),
    "list of a configuration": (lambda m: m.config.names.append("b"), lambda m: m.config.names.pop()),
    "global": (lambda m: _globals(SCALE=4.0), lambda m: _globals(SCALE=2.0)),
    "element of a global": (lambda m: TABLE.update(shift=6.0), lambda m: TABLE.update(shift=1.0)),
    "class attribute": (lambda m: setattr(Block, "step", 2.0), lambda m: setattr(Block, "step", 0.5)),
    "forward of a layer": (
        lambda m: setattr(m.act, "forward", torch.tanh),
        lambda m: delattr(m.act, "forward"),
    ),
    "layer": (lambda m: setattr(m, "act", nn.Tanh()), lambda m: setattr(m, "act", nn.ReLU())),
    "mode of a part": (lambda m: m.drop.train(), lambda m: m.drop.eval()),
    "class": (lambda m: setattr(m.act, "__class__", nn.Tanh), lambda m: setattr(m.act, "__class__", nn.ReLU)),
}


def _check(fast, module, rows=(1, 5)):
    for n in rows:
        x = torch.randn(n, 4)
        torch.manual_seed(1)
        expected = module(x)
        torch.manual_seed(1)
        torch.testing.assert_close(fast(x), expected)


@pytest.mark.fallback
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("is_before", [False, True])
def test_changes_are_seen_and_taken_back(name, is_before):
    change, undo = CHANGES[name]
    module = Block().eval()
    with torch.no_grad():
        fast = disc.optimize(module, torch.randn(3, 4))
        if not is_before:
            _check(fast, module)
        try:
            change(module)
            _check(fast, module)
        finally:
            undo(module)
        _check(fast, module)
        compiles = disc.report(fast).to_dict()["compiles"]
        if name == "layer":
            return  # Another object each time.
        for _ in range(3):
            try:
                change(module)
                _check(fast, module, (2,))
            finally:
                undo(module)
            _check(fast, module, (2,))
    assert disc.report(fast).to_dict()["compiles"] == compiles


WEIGHTS = {
    "in place": lambda m: m.first.weight.mul_(2),
    "a row": lambda m: m.first.weight[1].zero_(),
    "bias": lambda m: m.second.bias.add_(1),
    "data": lambda m: setattr(m.first.weight, "data", torch.randn(24, 4)),
    "elements of data": lambda m: m.first.weight.data.mul_(3),
    "parameter": lambda m: setattr(m.second, "weight", nn.Parameter(torch.randn(4, 24))),
    "buffer": lambda m: setattr(m, "bias", torch.ones(4)),
    "buffer in place": lambda m: m.bias.add_(2),
    "tensor": lambda m: m.loose.add_(2),
    "other tensor": lambda m: setattr(m, "loose", torch.ones(4)),
    "tensor of a global": lambda m: OFFSET.add_(1),
    "vector": lambda m: nn.utils.vector_to_parameters(torch.randn(220), m.parameters()),
    "state": lambda m: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}),
    "assigned state": lambda m: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}, assign=True),
    "other shape": lambda m: (setattr(m, "first", nn.Linear(4, 7)), setattr(m, "second", nn.Linear(7, 4))),
    "no bias": lambda m: setattr(m.second, "bias", None),
    "half": lambda m: m.first.weight.data.copy_(m.first.weight.half().float()),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_are_read_again(name):
    module = Block().eval()
    with torch.no_grad():
        fast = disc.optimize(module, torch.randn(3, 4))
        _check(fast, module)
        WEIGHTS[name](module)
        _check(fast, module)
        OFFSET.zero_()
        _check(fast, module)


def test_steps_of_an_optimizer_are_seen():
    module = Block().eval()
    fast = disc.optimize(module, torch.randn(3, 4))
    for fused in (False, True):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, fused=fused)
        for _ in range(2):
            module(torch.randn(3, 4)).sum().backward()
            optimizer.step()
            with torch.no_grad():
                _check(fast, module)


class Holds(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).relu()


@pytest.mark.fallback
@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("kind", [Holds, lambda: nn.Linear(4, 4)])
def test_functional_call_uses_what_is_given(kind, is_first):
    module = kind().eval()
    eager = copy.deepcopy(module)
    fast = disc.optimize(module) if is_first else disc.optimize(module, torch.randn(2, 4))
    x = torch.randn(3, 4)
    for grad in (False, True):
        for _ in range(3):
            given = {k: torch.randn_like(v).requires_grad_(grad) for k, v in module.named_parameters()}
            with torch.set_grad_enabled(grad):
                y = torch.func.functional_call(fast, given, x)
                expected = torch.func.functional_call(eager, given, x)
                torch.testing.assert_close(y, expected)
                assert y.requires_grad is grad
            with torch.no_grad():
                torch.testing.assert_close(fast(x), eager(x))
    losses = torch.func.grad(lambda p: torch.func.functional_call(fast, p, x).sum())
    expected = torch.func.grad(lambda p: torch.func.functional_call(eager, p, x).sum())
    given = {k: v.detach() for k, v in module.named_parameters()}
    for name, gradient in losses(given).items():
        torch.testing.assert_close(gradient, expected(given)[name])


HOOKS = {
    "forward": lambda m, calls: m.act.register_forward_hook(lambda layer, args, y: y * 3),
    "pre": lambda m, calls: m.second.register_forward_pre_hook(lambda layer, args: (args[0] + 1,)),
    "keywords": lambda m, calls: m.act.register_forward_hook(lambda layer, a, k, y: y - 1, with_kwargs=True),
    "whole": lambda m, calls: m.register_forward_hook(lambda layer, args, y: y + 7),
    "kept": lambda m, calls: m.act.register_forward_hook(lambda layer, args, y: calls.append(y)),
    "features": lambda m, calls: m.act.register_forward_hook(
        lambda layer, args, y: calls.__setitem__(slice(None), [y])
    ),
    "all modules": lambda m, calls: nn.modules.module.register_module_forward_hook(
        lambda layer, args, y: y * 2 if isinstance(layer, nn.ReLU) else None
    ),
}


@pytest.mark.fallback
@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("is_before", [False, True])
def test_hooks_run_as_in_eager(name, is_before):
    module, kept = Block().eval(), []
    eager, expected = copy.deepcopy(module), []
    x = torch.randn(3, 4)
    handles = []

    def put_on():
        handles.append(HOOKS[name](module, kept))
        if name != "all modules":
            handles.append(HOOKS[name](eager, expected))

    with torch.no_grad():
        if is_before:
            put_on()
        fast = disc.optimize(module, x)
        assert not kept
        if not is_before:
            torch.testing.assert_close(fast(x), eager(x))
            put_on()
        for n in (3, 1, 6):
            x = torch.randn(n, 4)
            torch.testing.assert_close(fast(x), eager(x))
            torch.testing.assert_close(kept, expected)
            assert all(type(t) is torch.Tensor for t in kept)
        for handle in handles:
            handle.remove()
        torch.testing.assert_close(fast(x), eager(x))
        assert len(kept) == len(expected)


SEEN = []


class Appends(nn.Module):
    def forward(self, x):
        SEEN.append(x.sum())
        return x * 2


class Remembers(nn.Module):
    """A table of its file, made once for each size."""

    tables: ClassVar[dict] = {}

    def forward(self, x):
        n = x.shape[0]
        if n not in self.tables:
            self.tables[n] = torch.arange(n)
        return x + self.tables[n][:, None]


@pytest.mark.fallback
def test_what_forward_writes_outside_is_written_at_each_call():
    module = Appends().eval()
    fast = disc.optimize(module, torch.ones(2))
    assert SEEN == []
    for n in (2, 3, 3):
        assert torch.equal(fast(torch.ones(n)), torch.full((n,), 2.0))
    assert [float(s) for s in SEEN] == [2.0, 3.0, 3.0]
    SEEN.clear()


def test_fakes_are_taken_out_beside_what_others_write():
    from disc.torch.watch.outside import Outside
    from disc.torch.watch.reach import Reach

    outside = Outside(Reach(Appends().eval()))
    with torch._subclasses.FakeTensorMode():
        SEEN.append(torch.ones(2))
    SEEN.append("of another thread")
    assert len(outside.take_out_fakes()) == 1
    assert SEEN == ["of another thread"]
    SEEN.clear()


@pytest.mark.fallback
def test_a_table_by_sizes_is_no_state():
    module = Remembers().eval()
    fast = disc.optimize(module, torch.ones(2, 2))
    assert Remembers.tables == {}
    for n in (2, 4):
        assert torch.equal(fast(torch.ones(n, 2)), module(torch.ones(n, 2)))
    Remembers.tables.clear()


class Asks(nn.Module):
    def forward(self, x):
        y = torch.ones(3) * torch.tensor(1.5)
        if torch.is_grad_enabled():
            x = x * 2
        if torch.is_inference_mode_enabled():
            x = x * 3
        if torch.are_deterministic_algorithms_enabled():
            x = x * 5
        return x, y


def test_modes_of_torch_are_seen():
    module = Asks().eval()
    given = torch.ones(2)
    fast = disc.optimize(module, given)

    def check():
        for a, b in zip(fast(given), module(given), strict=True):
            assert a.dtype == b.dtype
            assert a.device == b.device
            assert a.device.type == "meta" or torch.equal(a, b)

    for _ in range(2):
        check()
        with torch.no_grad():
            check()
        with torch.inference_mode():
            check()
        try:
            torch.use_deterministic_algorithms(True)
            check()
        finally:
            torch.use_deterministic_algorithms(False)
        try:
            torch.set_default_dtype(torch.float64)
            check()
        finally:
            torch.set_default_dtype(torch.float32)
    assert disc.report(fast).to_dict()["compiles"] == 5


@pytest.mark.fallback
def test_a_mode_sees_the_functions_of_a_call():
    met = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            met.append(func)
            return func(*args, **(kwargs or {}))

    module = Holds().eval()
    fast = disc.optimize(module, torch.ones(2, 4))
    with torch.no_grad():
        fast(torch.ones(2, 4))
        with Mode():
            fast(torch.ones(2, 4))
    assert torch.relu in met or torch.Tensor.relu in met


@pytest.mark.fallback
def test_a_default_device_counts():
    class Makes(nn.Module):
        def forward(self, x):
            return x + 1, torch.zeros(3)

    module = Makes().eval()
    fast = disc.optimize(module, torch.ones(2))
    assert fast(torch.ones(2))[1].device.type == "cpu"
    x = torch.ones(2)
    try:
        torch.set_default_device("meta")
        assert fast(x)[1].device.type == "meta"
    finally:
        torch.set_default_device(None)
    assert fast(x)[1].device.type == "cpu"


def test_a_change_by_another_thread_is_seen_at_the_next_call():
    module = Block().eval()
    with torch.no_grad():
        fast = disc.optimize(module, torch.randn(3, 4))
        for on in (False, True, False):
            thread = threading.Thread(target=setattr, args=(module, "on", on))
            thread.start()
            thread.join()
            _check(fast, module)


@pytest.mark.fallback
def test_a_value_that_keeps_changing_ends_in_torch():
    module = Holds().eval()
    module.register_forward_hook(lambda layer, args, y: y * layer.gain if layer.gain > 3 else y)
    module.gain = 1.0
    with torch.no_grad():
        fast = disc.optimize(module, torch.randn(3, 4))
        for gain in range(12):
            module.gain = float(gain)
            _check(fast, module, (2,))
        values = disc.report(fast).to_dict()
        assert values["compiles"] <= 8
        assert any("gain changed" in row["reason"] for row in values["fallbacks"])
        module.gain = 1.0
        _check(fast, module, (2,))
        assert disc.report(fast).to_dict()["compiles"] == values["compiles"]


def test_nobody_looks_if_the_watch_is_off():
    module = Block().eval()
    with torch.no_grad():
        fast = disc.optimize(module, torch.randn(3, 4), options=disc.Options(watch="off"))
        x = torch.randn(3, 4)
        before = fast(x)
        module.first.weight.mul_(2)
        module.on = False
        torch.testing.assert_close(fast(x), before)
        fast.refresh()
        module.on = True
        torch.testing.assert_close(fast(x), module(x))


class Average(nn.Module):
    """Moving averages: a buffer in place, a buffer anew, and a tensor that is neither."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.register_buffer("mean", torch.ones(4))
        self.loose = torch.ones(4)

    def forward(self, x):
        if self.kind == "place":
            self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
            return x - self.mean
        if self.kind == "assigned":
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
            return x - self.mean
        if self.kind == "data":
            self.mean.data = 0.9 * self.mean + 0.1 * x.mean(0)
            return x - self.mean
        self.loose.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - self.loose


@pytest.mark.fallback
@pytest.mark.parametrize("kind", ["place", "assigned", "data", "loose"])
def test_compiling_changes_no_state(kind):
    module = Average(kind).eval()
    eager = copy.deepcopy(module)
    with torch.no_grad():
        fast = disc.optimize(module, torch.randn(3, 4))
        assert torch.equal(module.mean, torch.ones(4))
        assert torch.equal(module.loose, torch.ones(4))
        for n in (3, 2, 5):
            x = torch.randn(n, 4)
            torch.testing.assert_close(fast(x), eager(x))
            torch.testing.assert_close(module.mean, eager.mean)
            torch.testing.assert_close(module.loose, eager.loose)


class Part(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear, self.norm, self.act = nn.Linear(n, n), nn.LayerNorm(n), nn.ReLU()
        self.gain, self.on, self.more, self.signs = 1.0, True, None, {"x": 1.0}

    def forward(self, x):
        y = self.act(self.linear(x)) * self.gain
        if self.on:
            y = self.norm(y)
        return (y if self.more is None else y + self.more) * self.signs["x"]


EDITS = [
    lambda r, m, n: setattr(m, "gain", r.choice([1.0, 2.0])),
    lambda r, m, n: setattr(m, "on", not m.on),
    lambda r, m, n: setattr(m, "more", r.choice([None, 1.0, torch.randn(n)])),
    lambda r, m, n: m.signs.update(x=r.choice([1.0, -1.0])),
    lambda r, m, n: setattr(m, "act", r.choice([nn.ReLU(), nn.Tanh()])),
    lambda r, m, n: m.linear.weight.data.mul_(1.1),
    lambda r, m, n: m.linear.weight.mul_(0.9),
    lambda r, m, n: setattr(m.linear, "weight", nn.Parameter(torch.randn(n, n))),
    lambda r, m, n: setattr(m.linear, "bias", r.choice([None, nn.Parameter(torch.randn(n))])),
    lambda r, m, n: setattr(m.linear.weight, "data", torch.randn(n, n)),
    lambda r, m, n: m.act.register_forward_hook(lambda layer, args, y: y + 1),
    lambda r, m, n: setattr(m.norm, "eps", r.choice([1e-5, 1e-2])),
]


@pytest.mark.fallback
@pytest.mark.parametrize("seed", range(2))
def test_random_edits_of_a_module(seed):
    r, n = random.Random(seed), (8, 24)[seed]
    torch.manual_seed(seed)
    module = nn.Sequential(Part(n), Part(n)).eval()
    with torch.no_grad():
        fast = disc.optimize(module, torch.randn(2, n))
        for _ in range(10):
            r.choice(EDITS)(r, r.choice(list(module)), n)
            x = torch.randn(3, n)
            torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-4)


@pytest.mark.fallback
def test_weights_of_another_type_are_compiled_again():
    module = Holds().eval()
    x = torch.randn(3, 4)
    with torch.no_grad():
        fast = disc.optimize(module, x)
        module.bfloat16()
        assert fast(x.bfloat16()).dtype is torch.bfloat16
        module.float()
        torch.testing.assert_close(fast(x), module(x))
        assert disc.report(fast).to_dict()["compiles"] == 2


@pytest.mark.parametrize("change", ["in place", "functional"])
def test_weights_that_each_call_changes_are_inputs(change):
    module = Block().eval()
    eager = copy.deepcopy(module)
    x = torch.randn(3, 4)
    fast = disc.optimize(module, x)
    for _ in range(8):
        with torch.no_grad():
            if change == "in place":
                for p, q in zip(module.parameters(), eager.parameters(), strict=True):
                    q.copy_(p.add_(0.1))
                torch.testing.assert_close(fast(x), eager(x))
            else:
                given = {name: torch.randn_like(p) for name, p in module.named_parameters()}
                expected = torch.func.functional_call(eager, given, x)
                torch.testing.assert_close(torch.func.functional_call(fast, given, x), expected)
    values = disc.report(fast).to_dict()
    assert values["compiles"] == 2
    assert values["prepared_weight_bytes"] == 0
    with torch.no_grad():
        torch.testing.assert_close(fast(x), module(x))


@pytest.mark.fallback
def test_tensors_in_the_place_of_parameters_give_gradients_also_as_inputs():
    module, x = Holds().eval(), torch.randn(3, 4)
    fast = disc.optimize(module, x)
    for _ in range(8):
        given = {name: torch.randn_like(p) for name, p in module.named_parameters()}
        with torch.no_grad():
            torch.func.functional_call(fast, given, x)
    given = {name: t.requires_grad_() for name, t in given.items()}
    assert torch.func.functional_call(fast, given, x).requires_grad


class Sets(nn.Module):
    """A short call sets a number that other calls read."""

    def __init__(self):
        super().__init__()
        self.gain, self.rows = 1.0, 0

    def forward(self, x):
        self.rows = x.shape[0]
        if x.shape[0] < 4:
            self.gain = 5.0
        return (x * self.gain).reshape(self.rows, -1)


@pytest.mark.fallback
def test_a_number_that_a_call_in_torch_sets_is_seen():
    module, eager = Sets().eval(), Sets().eval()
    fast = disc.optimize(module, torch.ones(8, 2))
    for n in (8, 9, 2, 8, 9):
        torch.testing.assert_close(fast(torch.ones(n, 2)), eager(torch.ones(n, 2)))
    assert disc.report(fast).to_dict()["signatures"] == 2
