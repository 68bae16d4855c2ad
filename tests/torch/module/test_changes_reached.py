"""Modules that are changed where the walk over them has to look twice: tied weights, layers in
lists, objects of Python's library, tables of hooks.
"""

from __future__ import annotations

import collections
import functools
import sys
import types

import disc
import pytest
import torch
from test_changes import Config, Holds, _check
from torch import nn


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


class Apart(nn.Module):
    """A layer that is no submodule, and settings in objects of Python's library."""

    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4)]
        self.space, self.queue = types.SimpleNamespace(gain=2.0), collections.deque([1.5])
        self.view = types.MappingProxyType({"shift": 1.0})
        self.steps = functools.partial(torch.add, alpha=2.0)
        self.sizes = [1.0, 2.0]
        self.parts = nn.ModuleDict({"a": nn.Tanh(), "b": nn.Linear(4, 4)})

    def forward(self, x):
        y = self.layers[0](x) * self.space.gain * self.queue[0] + self.view["shift"] + sum(self.sizes)
        for part in self.parts.values():
            y = part(y)
        return self.steps(y, x) * getattr(sys.modules[__name__], "LATE", 1.0)


def _reorder(m):
    m.parts["a"] = m.parts.pop("a")


REACHED = {
    "untied": (Tied, lambda m: setattr(m.b, "weight", nn.Parameter(torch.randn(4, 4)))),
    "weight of a layer in a list": (Apart, lambda m: m.layers[0].weight.mul_(3)),
    "parameter of a layer in a list": (
        Apart,
        lambda m: setattr(m.layers[0], "bias", nn.Parameter(torch.ones(4))),
    ),
    "namespace": (Apart, lambda m: setattr(m.space, "gain", 5.0)),
    "queue": (Apart, lambda m: (m.queue.clear(), m.queue.append(float("2.5")))),
    "partial": (Apart, lambda m: m.steps.keywords.update(alpha=7.0)),
    "order": (Apart, _reorder),
    "table of hooks": (
        Apart,
        lambda m: setattr(m.parts["a"], "_forward_hooks", {1: lambda layer, args, y: y * 3}),
    ),
    "class of an object": (Apart, lambda m: setattr(m, "space", types.SimpleNamespace(gain=4.0))),
}


@pytest.mark.fallback
@pytest.mark.parametrize("name", REACHED)
def test_what_is_reached_in_other_ways_is_watched(name):
    kind, change = REACHED[name]
    module = kind().eval()
    with torch.no_grad():
        fast = disc.optimize(module, torch.randn(3, 4))
        _check(fast, module)
        change(module)
        _check(fast, module)


def test_data_of_vectors_that_are_folded_is_watched():
    module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU()).eval()
    with torch.no_grad():
        fast = disc.optimize(module, torch.randn(3, 4))
        for change in (
            lambda: module[1].running_mean.data.add_(1),
            lambda: module[1].weight.data.mul_(3),
            lambda: module[0].bias.data.add_(3),
        ):
            change()
            _check(fast, module)


@pytest.mark.fallback
def test_hooks_of_all_modules_run_once():
    module = nn.Sequential(nn.Linear(4, 4), nn.GELU()).eval()
    with torch.no_grad():
        fast = disc.optimize(module, torch.randn(3, 4))
        _check(fast, module)
        handle = nn.modules.module.register_module_forward_hook(lambda layer, args, y: y * 1.5)
        try:
            _check(fast, module)
        finally:
            handle.remove()
        _check(fast, module)


@pytest.mark.fallback
def test_tensors_in_the_place_of_parameters_give_gradients_after_a_call_without():
    module, x = Holds().eval(), torch.randn(3, 4)
    fast = disc.optimize(module, x)
    given = {name: torch.randn_like(p).requires_grad_() for name, p in module.named_parameters()}
    for _ in range(2):
        with torch.no_grad():
            assert not torch.func.functional_call(fast, given, x).requires_grad
        assert torch.func.functional_call(fast, given, x).requires_grad


def test_equal_lists_in_the_place_of_others_compile_nothing():
    module = Apart().eval()
    with torch.no_grad():
        fast = disc.optimize(module, torch.randn(3, 4))
        for _ in range(4):
            module.sizes = [1.0, 2.0]
            _check(fast, module)
        assert disc.report(fast).to_dict()["compiles"] == 1
        module.sizes[0] = 5.0
        _check(fast, module)


class Notes(nn.Module):
    """Leaves what it computes in its class, in an object, and in a new global."""

    last = None

    def __init__(self):
        super().__init__()
        self.held = Config()

    def forward(self, x):
        y = x * 2
        type(self).newest, self.held.newest = y, y
        globals()["NEWEST"] = y
        return y + 1


@pytest.mark.fallback
def test_no_fakes_stay_in_new_attributes():
    module = Notes().eval()
    with torch.no_grad():
        fast = disc.optimize(module, torch.ones(2))
        assert not hasattr(Notes, "newest")
        assert not hasattr(module.held, "newest")
        fast(torch.ones(3))
    assert type(Notes.newest) is torch.Tensor
    assert Notes.newest.shape == (3,)


def test_code_that_cannot_take_weights_is_tried_once(monkeypatch):
    module, x = Holds().eval(), torch.randn(3, 4)
    fast, tried = disc.optimize(module, x), []

    def fails(*args, **kwargs):
        tried.append(kwargs)
        raise disc.Error("no code")

    monkeypatch.setattr(fast._dispatcher, "build", fails)
    with torch.no_grad():
        for _ in range(8):
            module.linear.weight.add_(1)
            torch.testing.assert_close(fast(x), module(x))
    assert [kwargs["takes_weights"] for kwargs in tried] == [True]


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Tanh()])
        self.last = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


SIGN = nn.Softsign()

#: Functions that put something in, and those that take it out, which leave another table.
THERE_AND_BACK = {
    "insert": (lambda m: m.layers.insert(1, SIGN), lambda m: m.layers.pop(1)),
    "append": (lambda m: m.last.append(SIGN), lambda m: m.last.pop(-1)),
    "delete": (lambda m: m.last.pop(1), lambda m: m.last.append(RELU)),
    "list": (lambda m: setattr(m, "layers", OTHERS), lambda m: setattr(m, "layers", KEPT[m])),
}
RELU, OTHERS, KEPT = nn.ReLU(), nn.ModuleList([SIGN]), {}


@pytest.mark.fallback
@pytest.mark.parametrize("name", THERE_AND_BACK)
def test_what_is_put_in_and_taken_out_compiles_nothing(name):
    there, back = THERE_AND_BACK[name]
    module = Layers().eval()
    module.last[1], KEPT[module] = RELU, module.layers
    with torch.no_grad():
        fast = disc.optimize(module, torch.randn(3, 4))
        for _ in range(5):
            _check(fast, module, (2,))
            there(module)
            _check(fast, module, (2,))
            back(module)
        _check(fast, module)
    values = disc.report(fast).to_dict()
    assert values["compiles"] == 2
    assert values["coverage"] == 1.0


@pytest.mark.fallback
def test_other_layers_in_other_tables_are_compiled():
    module = Layers().eval()
    with torch.no_grad():
        fast = disc.optimize(module, torch.randn(3, 4))
        for layer in (SIGN, RELU, nn.Tanh(), nn.Tanh()):
            module.layers.insert(0, layer)
            _check(fast, module, (2,))
            module.layers.pop(0)
            module.layers[0].weight = nn.Parameter(torch.randn(4, 4))
            _check(fast, module, (2,))
        module.last[0].weight = module.layers[0].weight
        _check(fast, module, (2,))


@pytest.mark.fallback
@pytest.mark.parametrize("is_before", [False, True])
def test_hooks_of_all_modules_are_skipped_where_pytorch_skips_them(is_before):
    module, x = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), torch.randn(2, 3, 8)
    fast = None if is_before else disc.optimize(module, x)
    hook = nn.modules.module.register_module_forward_hook(
        lambda layer, args, y: y * 2 if isinstance(layer, nn.Linear) else None
    )
    with torch.no_grad():
        try:
            fast = fast or disc.optimize(module, x)
            torch.testing.assert_close(fast(x), module(x))
        finally:
            hook.remove()
        torch.testing.assert_close(fast(x), module(x))
