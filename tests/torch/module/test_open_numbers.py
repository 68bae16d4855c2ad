"""Numbers among the arguments: one form of call for all values that reach sizes and arithmetic."""

import math

import disc
import pytest
import torch

pytestmark = pytest.mark.fallback


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, n, k=1):
        return self.function(x, n, k)


def _looped(x, n, k):
    for _ in range(k):
        x = x + 1
    return x.repeat(n)


FUNCTIONS = {
    "slice": lambda x, n, k: x[:n] * n,
    "arange": lambda x, n, k: torch.arange(n) * x.sum(),
    "repeat": lambda x, n, k: (x.repeat(n), n, n + 1),
    "pad": lambda x, n, k: torch.nn.functional.pad(x, (0, n))[-2:],
    "mask": lambda x, n, k: x.masked_fill(torch.arange(x.shape[0]) >= n, 0.0),
    "branch": lambda x, n, k: x + n if n > 4 else x * n,
    "root": lambda x, n, k: x * n**-0.5,
}


def _run(module, *args):
    with torch.no_grad():
        return torch.utils._pytree.tree_leaves(module(*args))


def _check(module, fast, x, *args):
    for wanted, got in zip(_run(module, x, *args), _run(fast, x, *args), strict=True):
        if isinstance(wanted, torch.Tensor):
            torch.testing.assert_close(got, wanted, equal_nan=True)
        else:
            assert (type(got), repr(got)) == (type(wanted), repr(wanted))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_integer_that_changes_is_a_size(name):
    module = Module(FUNCTIONS[name])
    fast = disc.optimize(module)
    for n in (5, 3, 9, 1, 12, 4, 7):
        _check(module, fast, torch.randn(6), n)
    assert len(fast._dispatcher.forms.held) == 2
    if name != "branch":
        assert not disc.report(fast).to_dict()["fallbacks"]


def test_an_integer_that_decides_stays_a_constant_beside_one_that_does_not():
    module = Module(_looped)
    fast = disc.optimize(module)
    for n, k in ((2, 3), (3, 3), (4, 2), (5, 2), (6, 4), (7, 4), (1, 3), (0, 3), (2, 0), (-1, 3)):
        if n < 0:
            with pytest.raises(RuntimeError):
                _run(fast, torch.randn(3), n, k)
        else:
            _check(module, fast, torch.randn(3), n, k)
    compiled = [form for form in fast._dispatcher.forms.held if form.numbers]
    assert len(compiled) == 3


def test_integers_within_containers_and_booleans_beside_them():
    module = Module(lambda x, n, k: x[: n["length"]] if k is True else x[n["length"] :])
    fast = disc.optimize(module)
    for n in (4, 2, 3, 5):
        for k in (True, False):
            _check(module, fast, torch.randn(6), {"length": n}, k)
    assert len(fast._dispatcher.forms.held) == 4


def test_a_place_beyond_the_end_is_eagers_error():
    fast = disc.optimize(Module(lambda x, n, k: x[n] * 2))
    x = torch.randn(6)
    assert [_run(fast, x, n)[0].item() for n in (5, 3, 2, 1)] == [2 * x[n].item() for n in (5, 3, 2, 1)]
    with pytest.raises(IndexError):
        _run(fast, x, 6)


FLOATS = {
    "scale": lambda x, t, k: x * t + k,
    "of integers": lambda x, t, k: x.to(torch.int64) * t,
    "of halves": lambda x, t, k: (x.half() * t, x.bfloat16() / t),
    "of doubles": lambda x, t, k: x.double() ** t,
    "computed": lambda x, t, k: x * math.sqrt(1 - t / 20) + (t + 1) / x.shape[0],
    "bounds": lambda x, t, k: x.clamp(-t, t),
    "filled": lambda x, t, k: torch.full((x.shape[0],), t) + x.masked_fill(x > t, t),
    "tensors": lambda x, t, k: torch.tensor([t, 1.0])[0] * torch.linspace(0.0, t, 6) + x,
    "returned": lambda x, t, k: (x * 2, t, t * 2),
    "an option of ops": lambda x, t, k: torch.addmm(x, x[:, None], x[None], alpha=t),
}
DECIDING = {
    "branch": lambda x, t, k: x + t if t > 0.5 else x * t,
    "truth": lambda x, t, k: x * t if t else x - 1,
    "integer of it": lambda x, t, k: x[: int(t * 2)],
    "text of it": lambda x, t, k: x * len(f"{t}"),
}


@pytest.mark.parametrize("name", FLOATS)
def test_a_float_that_changes_is_read_by_each_call(name):
    module = Module(FLOATS[name])
    fast = disc.optimize(module)
    for t in (0.7, 0.3, 0.0, -1.5, 2.5, math.inf, math.nan):
        if name == "computed" and not -10 < t < 10:
            continue
        _check(module, fast, torch.randn(6), t)
    assert len(fast._dispatcher.forms.held) == 2
    assert not disc.report(fast).to_dict()["fallbacks"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_a_float_that_is_an_exponent_takes_roots_as_eager_does(dtype):
    module = Module(lambda x, t, k: (x**t, 1 / x**t))
    fast = disc.optimize(module)
    x = torch.tensor([-math.inf, -2.0, -0.0, 0.0, 1.0, 2.5, math.inf, math.nan], dtype=dtype)
    for t in (3.0, 1.5, 0.5, -0.5, 2.0, -1.0, 0.0):
        _check(module, fast, x, t)
    assert len(fast._dispatcher.forms.held) == 2


@pytest.mark.parametrize("name", DECIDING)
def test_a_float_that_decides_stays_a_constant(name):
    module = Module(DECIDING[name])
    fast = disc.optimize(module)
    for t in (0.7, 0.3, 0.0, 2.5, 0.3):
        _check(module, fast, torch.randn(6), t)
    assert len(fast._dispatcher.forms.held) == 4


def test_a_float_that_decides_stays_a_constant_beside_an_integer():
    module = Module(lambda x, t, n: x[:n] + t if t > 0.5 else x[n:])
    fast = disc.optimize(module)
    for t, n in ((0.7, 2), (0.3, 3), (0.7, 4), (0.7, 5), (0.3, 1), (0.3, 2)):
        _check(module, fast, torch.randn(6), t, n)
    assert len(fast._dispatcher.forms.held) <= 4
