"""Python, its library and numpy on sizes: caches by sizes, helpers of other modules, bits, roots,
order. A size stays open, or is fixed and reported.
"""

from __future__ import annotations

import functools
import math
import sys
import types

import disc
import numpy as np
import pytest
import torch
from disc.torch.overrides.registry import table
from model_check import Function, one_compile
from torch import nn
from torch.nn import functional as F

rand = torch.rand


@functools.lru_cache(8)
def _slopes(n):
    return torch.arange(n) * 0.5


@functools.cache
def _mask(rows, columns):
    return torch.ones(rows, columns).triu(1)


@functools.cache
def _scale(n):
    return 1 / math.sqrt(n)


class Held(nn.Module):
    @functools.lru_cache  # noqa: B019
    def bias(self, n):
        return torch.arange(n) * 0.25

    @staticmethod
    @functools.cache
    def slope(n):
        return 1.0 / n

    def forward(self, x):
        return x * self.slope(x.shape[0]) + self.bias(x.shape[1])


OPEN = {
    "lru_cache": lambda x: x + _slopes(x.shape[1]),
    "cache of two sizes": lambda x: x + _mask(x.shape[0], x.shape[1]),
    "cache of a number": lambda x: x * _scale(x.shape[1]),
    "np.sqrt": lambda x: x * float(np.sqrt(x.shape[1])) + x / np.sqrt(x.shape[0]),
    "np.log": lambda x: x * np.log(x.shape[1]) + np.log2(x.shape[0] + 1),
    "np.ceil": lambda x: x[:, : int(np.ceil(x.shape[1] / 2))],
    "np.prod": lambda x: x * int(np.prod(x.shape)),
    "np.minimum": lambda x: x * np.minimum(x.shape[0], x.shape[1]),
    "np.int64": lambda x: x * (np.int64(3) * x.shape[0] + x.shape[1] // np.int64(2)),
    "odd": lambda x: F.pad(x, (0, x.shape[1] & 1)),
    "aligned": lambda x: F.pad(x, (0, ((x.shape[1] + 7) & -8) - x.shape[1])),
    "bits": lambda x: x * ((x.shape[1] & 6) + (x.shape[1] | 5) - (x.shape[1] ^ 3) + ~x.shape[0]),
    "bits on the left": lambda x: x * ((5 & x.shape[1]) + (2 | x.shape[1]) + (1 ^ x.shape[1])),
    "sorted": lambda x: x * (sorted([x.shape[0], x.shape[1]])[0] + 3 * sorted(x.shape, reverse=True)[0]),
    "sorted with a number": lambda x: x * sorted((x.shape[0], 4, x.shape[1]))[1],
}  # fmt: skip


@pytest.mark.parametrize("name", OPEN)
def test_a_size_stays_open(name, compile_module):
    calls = [((rand(m, n),), {}) for m, n in ((2, 5), (5, 2), (3, 12), (4, 4), (1, 7), (3, 1))]
    one_compile(compile_module, Function(OPEN[name]), calls)


def test_enclosed_caches_stay_open(compile_module):
    @functools.lru_cache
    def slopes(n):
        return torch.arange(n) * 0.5

    model = Function(lambda x: x + slopes(x.shape[1]))
    one_compile(compile_module, model, [((rand(m, n),), {}) for m, n in ((2, 5), (3, 1), (4, 0))])
    assert slopes.cache_info().currsize > 0
    assert slopes(3).tolist() == [0.0, 0.5, 1.0]


def test_caches_of_methods_stay_open_and_empty(compile_module):
    one_compile(compile_module, Held(), [((rand(m, n),), {}) for m, n in ((2, 5), (3, 1), (4, 0))])
    torch.testing.assert_close(Held()(torch.ones(2, 3)), 0.5 + torch.tensor([[0.0, 0.25, 0.5]] * 2))


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = {}

    def forward(self, x):
        n = x.shape[1]
        if n not in self.tables:
            self.tables[n] = torch.arange(n) * 0.5
        return x + self.tables[n]


_KNOWN = {5: 2.0, 7: 3.0}
_TABLE: dict = {}


def _by_global_table(x):
    n = x.shape[1]
    if n not in _TABLE:
        _TABLE[n] = torch.arange(n) * 0.5
    return x + _TABLE[n]


FIXED = {
    "dict of the module": Table().forward,
    "dict of numbers": lambda x: x * _KNOWN[x.shape[1]],
    "get": lambda x: x * _KNOWN.get(x.shape[1], 1.0),
    "global dict": _by_global_table,
    "set": lambda x: x * len({x.shape[1], 5}),
    "np.arange": lambda x: x * torch.from_numpy(np.arange(x.shape[1])).float(),
    "bit_length": lambda x: x * x.shape[1].bit_length(),
}  # fmt: skip


@pytest.mark.parametrize("name", FIXED)
def test_a_size_is_fixed_and_reported(name, compile_module):
    model = Function(FIXED[name]) if name != "dict of the module" else Table()
    compiled = one_compile(compile_module, model, [((rand(2, 5),), {}), ((rand(3, 5),), {})])
    with pytest.raises(disc.DimError):
        compiled(rand(2, 7))
    if isinstance(compiled, nn.Module):
        assert any("axis 1 == 5" in text for text in disc.report(compiled).to_dict()["fixed"])


def _module(name, text, monkeypatch):
    made = types.ModuleType(name)
    exec(compile(text, f"{name}.py", "exec"), vars(made))
    monkeypatch.setitem(sys.modules, name, made)
    return made


def test_helpers_of_other_modules_keep_sizes_open(compile_module, monkeypatch):
    inner = _module("helper_of_sizes", "def half(n): return int(n * 0.5)\n", monkeypatch)
    outer = _module(
        "helper_of_helpers",
        "import helper_of_sizes\n"
        "def part(n): return helper_of_sizes.half(n + 1)\n"
        "class Part:\n"
        "    def __init__(self, k): self.k = k\n"
        "    def __call__(self, n): return int(n / self.k)\n",
        monkeypatch,
    )
    functions = (
        lambda x: x[: inner.half(x.shape[0])],
        lambda x: x[: outer.part(x.shape[0])],
        lambda x: x[: outer.Part(2)(x.shape[0])],
    )
    for function in functions:
        one_compile(compile_module, Function(function), [((rand(n),), {}) for n in (4, 7, 1, 0)])
    assert "int" not in vars(inner)
    assert "int" not in vars(outer)


def test_sizes_are_as_they_were_behind_a_capture(compile_module):
    compile_module(Function(OPEN["odd"]), (rand(2, 3),))
    assert not hasattr(torch.SymInt, "__array_ufunc__")
    assert {o.name for o in table()} >= {"__hash__", "sorted", "__and__"}


@pytest.mark.parametrize(
    "root",
    [lambda n: int(n**0.5), lambda n: int(math.sqrt(n)), lambda n: round(n**0.5), lambda n: math.isqrt(n)],
)
def test_a_root_of_a_size_is_a_size_of_squares(root):
    class Patches(torch.nn.Module):
        def forward(self, x):
            b, n, c = x.shape
            side = root(n)
            return x.reshape(b, side, side, c).permute(0, 3, 1, 2) * side

    module = Patches()
    fast = disc.optimize(module, torch.randn(2, 16, 4))
    for b, n in ((2, 16), (3, 25), (1, 1), (2, 2**10)):
        x = torch.randn(b, n, 4)
        torch.testing.assert_close(fast(x), module(x))
    with pytest.raises(disc.Error, match="x_1 = 15"):
        fast(torch.randn(2, 15, 4))


@pytest.mark.fallback
def test_torch_runs_a_program_that_is_no_valid_one():
    def square(x):
        side = int(x.shape[0] ** 0.5)
        return x.reshape(side, side)

    fast = disc.optimize(Function(square), torch.randn(16))
    for n in (16, 25):
        x = torch.randn(n)
        torch.testing.assert_close(fast(x), square(x))


ROOTS = [
    lambda n: int(n**0.5),
    lambda n: math.isqrt(n),
    lambda n: int(math.sqrt(n)),
    lambda n: round(n**0.5),
]


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("view", ["reshape", "view", "unflatten"])
def test_a_vector_is_a_square_of_its_root(root, view):
    class Square(torch.nn.Module):
        def forward(self, x):
            side = root(x.shape[0])
            square = x.unflatten(0, (side, side)) if view == "unflatten" else getattr(x, view)(side, side)
            return square @ square.t() + square.sum(0)

    module = Square()
    fast = disc.optimize(module, torch.randn(16))
    for n in (16, 25, 1, 2**10):
        x = torch.randn(n)
        torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-4)
    for n in (15, 17, 2):
        with pytest.raises(disc.Error, match=f"x_0 = {n}"):
            fast(torch.randn(n))
