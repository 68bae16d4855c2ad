"""Sizes that a model makes numbers of (``int``, ``float``, ``len``) stay open,
and the names are Python's own afterwards.
"""

from __future__ import annotations

import importlib
import sys
import types

import pytest
import torch
from disc.torch.overrides import builtins
from model_check import Function
from torch import nn
from torch.utils import _pytree as pytree

SHAPES = ((5, 8), (1, 4), (2, 1), (0, 3), (3, 0), (7, 13))


class Part(nn.Module):
    def forward(self, x):
        return x[:, : int(x.shape[1] * 0.75)], x[: int(x.shape[0]) // 2]


class Values(nn.Module):
    def forward(self, x):
        known = isinstance(x.shape[0], int) and isinstance(3, int) and not isinstance("3", int)
        return x * float(x.shape[0]), x + len(x), len([1, 2]), int("7") + int(2.5), float("1.5"), known


class Types(nn.Module):
    def forward(self, x):
        return x.to(int), torch.zeros(3, dtype=float)


class Split(nn.Module):
    def forward(self, x):
        return x.tensor_split(3, 1), torch.tensor_split(x, 2), x.tensor_split((1, 3), 1)


class Areas(nn.Module):
    def forward(self, x):
        return (
            torch.trapezoid(x, dim=1),
            torch.trapezoid(x, dx=0.5, dim=0),
            torch.cumulative_trapezoid(x, dim=1),
        )


@pytest.mark.parametrize("make", [Part, Values, Types, Split, Areas])
def test_sizes_stay_open(make, compile_module):
    compiled = compile_module(make(), (torch.rand(SHAPES[0]),))
    for shape in SHAPES:
        x = torch.rand(shape)
        ours, eager = pytree.tree_leaves(compiled(x)), pytree.tree_leaves(make()(x))
        torch.testing.assert_close(ours, eager)


def test_the_names_are_pythons_own_afterwards():
    with builtins.open_numbers(Part()):
        assert id(globals()["int"]) != id(int.__base__)
    assert not {"int", "float", "len", "isinstance", "type"} & globals().keys()


@pytest.mark.parametrize(
    "question",
    [
        "type(k) is int",
        "int is type(k)",
        "any(type(k) is t for t in (int, float))",
        "[f for t, f in ((int, True), (float, False)) if type(k) is t][0]",
    ],
)
def test_who_asks_for_the_class_itself_is_answered_by_python(question, compile_module, monkeypatch):
    source = f"""
import torch

def factor(k):
    return 2.0 if {question} else 3.0

class Model(torch.nn.Module):
    def forward(self, x):
        return x[: int(x.shape[0]) - 1] * factor(4)
"""
    module = types.ModuleType("asks_which_class")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(source, vars(module))
    x = torch.rand(4, 3)
    assert torch.equal(compile_module(module.Model(), (x,))(x), x[:3] * 2)


@pytest.mark.parametrize(
    "question",
    [
        "isinstance(n, int)",
        "isinstance(n, (float, int))",
        "isinstance(n, numbers.Integral)",
        "isinstance(n > 2, bool) and not isinstance(n, (bool, float, type))",
        "isinstance(n / 2, float)",
        "type(n) is int",
        "type(n) in (float, int) and type(type) is type and isinstance(int, type)",
        "{int: True}.get(type(n), False)",
        "type[int] == type[int] and isinstance(type.__call__(dict), dict) and type(n) == int",
        "issubclass(type(n), int) and type('Made', (), {}).__name__ == 'Made'",
    ],
)
def test_a_size_is_a_number_for_who_asks(question, compile_module, monkeypatch):
    source = f"""
import numbers
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        n = x.shape[0]
        return x * 2 if {question} else x * 3
"""
    module = types.ModuleType("asks_for_numbers")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(source, vars(module))
    compiled = compile_module(module.Model(), (torch.rand(4, 3),))
    for rows in (4, 1, 2, 7, 0):
        x = torch.rand(rows, 3)
        assert torch.equal(compiled(x), x * 2)


@pytest.mark.parametrize("call", ["torch.ones(3, dtype=int)", "torch.ones(3, dtype=int, device=x.device)"])
def test_a_type_is_pythons_own_for_those_who_run_the_code_meanwhile(call, monkeypatch):
    source = f"""
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * {call}
"""
    module = types.ModuleType("passes_a_type")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(source, vars(module))
    model, x = module.Model(), torch.rand(3)
    with builtins.open_numbers(model):
        assert torch.equal(model(x), x)


def test_a_comparison_in_another_function_does_not_close_sizes(compile_module, monkeypatch, tmp_path):
    """Functions in a table are found only in their module's file; each is judged separately."""
    (tmp_path / "compares_elsewhere.py").write_text(
        "def same(a, b):\n"
        "    return a is b\n"
        "class Other:\n"
        "    def is_of(self, kind):\n"
        "        return type(self) is kind\n"
        "TABLE = {'half': lambda x: x[: int(x.shape[0] * 0.5)]}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    half = importlib.import_module("compares_elsewhere").TABLE["half"]
    compiled = compile_module(Function(half), (torch.rand(8, 3),))
    for rows in (1, 5, 12):
        x = torch.rand(rows, 3)
        assert torch.equal(compiled(x), half(x))
