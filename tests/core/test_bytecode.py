"""Compares the reading of the code of functions with what ``dis`` says of them."""

import argparse
import dataclasses
import dis
import itertools
import json.decoder
import marshal
import types

import pytest
import torch
from disc.torch.cache import code_names


def functions(module: types.ModuleType) -> list[types.CodeType]:
    """The code of a module's functions, methods, and what they hold."""
    found, left = [], [getattr(f, "__code__", None) for f in vars(module).values()]
    for kind in filter(lambda x: isinstance(x, type), vars(module).values()):
        left += [getattr(f, "__code__", None) for f in vars(kind).values()]
    while left:
        if isinstance(code := left.pop(), types.CodeType):
            found.append(code)
            left += code.co_consts
    return found


def by_dis(code: types.CodeType) -> set[str]:
    fillers = ("CACHE", "EXTENDED_ARG", "PRECALL")
    steps = [step for step in dis.get_instructions(code) if step.opname not in fillers]
    return {
        step.argval
        for step, after in itertools.pairwise(steps)
        if step.opname.startswith("LOAD_")
        and isinstance(step.argval, str)
        and after.opname not in ("LOAD_ATTR", "LOAD_METHOD")
    }


@pytest.mark.parametrize(
    "module", [argparse, dataclasses, json.decoder, torch.nn.functional, torch.nn.modules.module]
)
def test_values_are_those_that_dis_tells(module):
    codes = functions(module)
    assert codes
    for code in codes:
        wanted = by_dis(code).union(
            *(code_names.values(one) for one in code.co_consts if isinstance(one, types.CodeType))
        )
        assert code_names.values(code) == wanted, code.co_qualname


def test_names_beyond_the_first_256():
    lines = "\n".join(f"    a{n}.b{n}(c{n})" for n in range(200))
    space = {}
    exec(f"def f():\n{lines}\n", space)
    wanted = {*(f"b{n}" for n in range(200)), *(f"c{n}" for n in range(200))}
    assert code_names.values(space["f"].__code__) == wanted


def test_what_looks_nothing_up_is_not_taken_apart():
    def plain(self):
        return self.x + 1

    def looks(self, name):
        return getattr(self, name)

    def by_another_name(getattr, x):
        return getattr(x, x.name)

    assert not code_names.lookups(plain.__code__).by_value
    assert code_names.lookups(looks.__code__).by_value
    assert code_names.lookups(by_another_name.__code__).by_value


@pytest.mark.parametrize("module", [argparse, torch.nn.functional])
def test_notes_say_in_the_next_process_what_was_read_in_this_one(module, monkeypatch):
    codes = functions(module)
    first = code_names.Notes()
    facts = [first.of(code) for code in codes]
    stored = first.to_store()
    monkeypatch.setattr(code_names, "_facts", None)
    again = code_names.Notes(stored)
    assert [again.of(code) for code in codes] == facts
    assert again.to_store() is None, "nothing is new"
    assert code_names.Notes(stored).to_store() is None, "nothing was asked"


def test_notes_of_other_parts_are_kept():
    codes = functions(argparse)
    first = code_names.Notes()
    first.of(codes[0])
    second = code_names.Notes(first.to_store())
    second.of(codes[1])
    third = code_names.Notes(second.to_store())
    third.of(codes[0])
    third.of(codes[1])
    assert third.to_store() is None


@pytest.mark.parametrize("kind", ["cut", "other", "empty", "list", "entries"])
def test_broken_notes_are_none(kind):
    codes = functions(argparse)
    first = code_names.Notes()
    facts = [first.of(code) for code in codes]
    stored = first.to_store()
    keys = marshal.loads(stored)
    wrong = itertools.cycle([None, (), (1, 2, 3, 4, 5, 6), "text"])
    broken = {
        "cut": stored[: len(stored) // 2],
        "other": b"\xff no notes",
        "empty": b"",
        "list": marshal.dumps(list(keys)),
        "entries": marshal.dumps(dict(zip(keys, wrong, strict=False))),
    }[kind]
    again = code_names.Notes(broken)
    assert [again.of(code) for code in codes] == facts
    assert marshal.loads(again.to_store()) == keys, "they are stored anew"


def test_functions_that_read_the_same_and_name_other_things_have_notes_of_their_own():
    def f(x, name):
        return getattr(x, "a_" + name)

    def g(x, name):
        return getattr(x, "b_" + name)

    def h(x, name):
        return [lambda: getattr(x, "a_" + name)]

    digests = {code_names.digest(one.__code__) for one in (f, g, h)}
    assert len(digests) == 3
    again = f.__code__.replace(co_filename="elsewhere", co_firstlineno=7)
    assert code_names.digest(again) == code_names.digest(f.__code__)
