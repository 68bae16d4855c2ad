"""Values of a module that keep changing become inputs of its code."""

import collections
import sys
import threading

import disc
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.fallback

GAIN = 1.0
MASK = torch.ones(4)


class Config:
    factor = 1.0

    def __init__(self):
        self.shift = 0.5


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale, self.rows, self.threshold, self.mask = 1.0, 3, 0.5, torch.ones(4)
        self.config = Config()

    def forward(self, x):
        y = self.linear(x)[: self.rows] * self.scale * self.mask + self.config.shift * self.config.factor
        return y * GAIN * MASK if self.threshold < 1 else y


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(Scaled(), nn.Tanh())

    def forward(self, x):
        return self.inner(x)


def _check(fast, module, rows=(6, 3, 1)):
    with torch.no_grad():
        for n in rows:
            x = torch.randn(n, 4)
            torch.testing.assert_close(fast(x), module(x))


def _compiles(fast) -> int:
    return disc.report(fast).to_dict()["compiles"]


def _gain(_, value):
    sys.modules[__name__].GAIN = value


VALUES = {
    "number": lambda m, i: setattr(m, "scale", i * 0.37 - 1),
    "integer": lambda m, i: setattr(m, "rows", i + 1),
    "tensor": lambda m, i: setattr(m, "mask", torch.randn(4)),
    "tensor in place": lambda m, i: m.mask.mul_(1.5),
    "configuration": lambda m, i: setattr(m.config, "shift", i * 1.5),
    "attribute of a class": lambda m, i: setattr(Config, "factor", i * 0.3),
    "global": lambda m, i: _gain(m, 1.5 - i),
    "tensor of a global in place": lambda m, i: MASK.add_(i),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_that_keeps_changing_is_an_input(name, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "GAIN", 1.0)
    monkeypatch.setattr(sys.modules[__name__], "MASK", torch.ones(4))
    monkeypatch.setattr(Config, "factor", 1.0)
    module = Outer().eval()
    fast = disc.optimize(module)
    for i in range(14):
        VALUES[name](module.inner[0], i)
        _check(fast, module)
    values = disc.report(fast).to_dict()
    assert values["compiles"] <= 4
    assert not values["fallbacks"]


class Queued(nn.Module):
    def __init__(self):
        super().__init__()
        self.queue = collections.deque([Config(), Config()])

    def forward(self, x):
        return x * self.queue[0].shift + self.queue[1].shift


def test_values_of_objects_that_have_one_name_are_told_apart():
    module = Queued()
    fast = disc.optimize(module)
    for i in range(6):
        module.queue[0].shift, module.queue[1].shift = i * 0.5, 10.0 - i
        _check(fast, module)
    assert _compiles(fast) <= 4


class Asking(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 0.5

    def forward(self, x):
        return x * self.scale if isinstance(self.scale, (int, float)) else x - 1


@pytest.mark.parametrize("values", [[0.5, 1.5, -2.0, 0.0, 3.0], [2, 5, 7, 3, 1]])
def test_an_input_is_a_number_for_a_model_that_asks(values):
    module = Asking()
    fast = disc.optimize(module)
    for value in values:
        module.scale = value
        _check(fast, module)
    assert _compiles(fast) <= 4


def test_several_values_and_a_flag_beside_them():
    module = Outer().eval()
    scaled = module.inner[0]
    fast = disc.optimize(module)
    for i in range(6):
        scaled.scale = float(i)
        _check(fast, module)
    for i in range(6):
        scaled.mask, scaled.scale = torch.randn(4), i * 2.5
        scaled.rows = 1 + i
        _check(fast, module)
    known = _compiles(fast)
    for i in range(4):
        scaled.scale, scaled.rows, scaled.mask = -float(i), 2 + i, torch.randn(4)
        _check(fast, module)
    assert _compiles(fast) == known
    scaled.threshold = 2.0
    _check(fast, module)
    scaled.threshold = 0.5
    _check(fast, module)
    assert _compiles(fast) == known + 1
    for value in (2, torch.tensor(3.0), None, "text"):
        scaled.scale = value
        if value is None or value == "text":
            for call in (module, fast):
                with pytest.raises(TypeError), torch.no_grad():
                    call(torch.randn(2, 4))
        else:
            _check(fast, module)


def test_a_number_that_decides_stays_a_constant():
    module = Outer().eval()
    fast = disc.optimize(module)
    for i in range(5):
        module.inner[0].threshold = 0.3 * i
        _check(fast, module)
    assert _compiles(fast) == 5
    for i in range(5):
        module.inner[0].scale = 0.3 * i
        _check(fast, module)


class Aliased(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = torch.ones(4)
        self.masks = (self.mask,)

    def forward(self, x):
        return x * self.mask + self.masks[0]


def test_a_tensor_with_two_names_is_no_constant_under_one_of_them():
    module = Aliased().eval()
    fast = disc.optimize(module)
    for _ in range(6):
        module.mask.mul_(1.5)
        _check(fast, module)


def test_a_model_that_compares_values_sees_which_tensor_is_which():
    module = Aliased()
    module.masks = None
    module.other = torch.ones(4)
    module.forward = lambda x: x * module.mask if module.mask is module.other else x + module.other
    fast = disc.optimize(module)
    for i in range(8):
        module.mask = torch.full((4,), i * 0.5)
        module.other = module.mask if i > 5 else torch.full((4,), i * 2.0)
        _check(fast, module)


def test_sizes_of_a_tensor_that_is_an_input_may_change():
    module = Aliased().eval()
    module.masks = ()
    module.forward = lambda x: x.sum() * module.mask.cumsum(0)
    fast = disc.optimize(module)
    for n in (4, 5, 6, 1, 0, 9):
        module.mask = torch.randn(n)
        _check(fast, module)
    assert _compiles(fast) <= 4


def test_values_stay_constants_where_threads_share_a_module():
    module = Outer().eval()
    fast = disc.optimize(module)
    for i in range(4):
        module.inner[0].scale = float(i)
        if i == 1:
            thread = threading.Thread(target=_check, args=(fast, module))
            thread.start()
            thread.join()
        _check(fast, module)
    assert _compiles(fast) == 4
