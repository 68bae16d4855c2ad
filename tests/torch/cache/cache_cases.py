"""Modules whose result depends on something beside their weights, for a process whose seed is SEED;
see test_cache_sound.py.

Each is compiled in two processes that share a cache and have other seeds: the second one has to get
its own values.
"""

from __future__ import annotations

import collections
import contextvars
import datetime
import enum
import functools
import json
import operator
import os
import pathlib
import sys
import threading
import types
import warnings
from random import Random

import disc
import numpy
import torch
from torch import nn

SEED = int(sys.argv[1])
FOLDER = pathlib.Path(sys.argv[2])
VALUE = SEED + 2.0
ROW = torch.full((4,), VALUE)
ARRAY, NUMBER = ROW.numpy(), float(numpy.float32(VALUE))
torch.manual_seed(SEED)
torch.save(ROW, FOLDER / "table.pt")
numpy.save(FOLDER / "table.npy", ROW.numpy())
(FOLDER / "table.txt").write_text(str(VALUE))
os.environ["CACHE_CASE"] = str(VALUE)
CASES, STATES = {}, {}


def case(function):
    CASES[function.__name__] = function
    return function


def with_state(make):
    def put(function):
        STATES[function.__name__] = make
        return case(function)

    return put


class Case(nn.Module):
    def __init__(self, **state):
        super().__init__()
        for name, value in state.items():
            setattr(self, name, value)


# Caches of functions.


@functools.lru_cache
def loaded():
    return torch.load(FOLDER / "table.pt")


@functools.cache
def loaded_by_numpy():
    return numpy.load(FOLDER / "table.npy")


@functools.cache
def read():
    return float((FOLDER / "table.txt").read_text())


@functools.lru_cache(8)
def drawn(count):
    return torch.randn(count)


@functools.lru_cache
def listed(scale=1.0):
    return {"rows": [ROW * scale]}


@case
def cached_tensor(self, x):
    return x * loaded()


@case
def cached_array(self, x):
    return x * torch.tensor(loaded_by_numpy())


@case
def cached_number(self, x):
    return x * read()


@case
def cached_random(self, x):
    return x * drawn(4)


@case
def cached_keyword(self, x):
    return x * listed(scale=2.0)["rows"][0]


class Library:
    number = VALUE
    row = ROW

    @functools.lru_cache  # noqa: B019
    def table(self):
        return torch.load(FOLDER / "table.pt")

    @functools.cached_property
    def factor(self):
        return float((FOLDER / "table.txt").read_text())


library = Library()
memory: dict[str, torch.Tensor] = {}


@case
def cached_method(self, x):
    return x * library.table()


@case
def cached_property(self, x):
    return x * library.factor


@case
def dict_of_module(self, x):
    if "row" not in memory:
        memory["row"] = torch.load(FOLDER / "table.pt")
    return x * memory["row"]


# Other places of values.


@case
def class_attributes(self, x):
    return x * Library.number + Library.row


@case
def global_tensor(self, x):
    return x * ROW


@case
def global_array(self, x):
    return x * torch.tensor(ARRAY) * NUMBER


@case
def default_argument(self, x, value=VALUE):
    return x * value


def closure(value):
    return lambda self, x: x * value


CASES["closure_number"], CASES["closure_tensor"] = closure(VALUE), closure(ROW)
fetch = {"value": VALUE}.get
pick = operator.itemgetter(0)
draw = Random(SEED).random


@case
def bound_method(self, x):
    return x * fetch("value")


@with_state(lambda: {"take": [VALUE].__getitem__})
def bound_item(self, x):
    return x * self.take(0)


@case
def itemgetter(self, x):
    return x * pick([VALUE])


class Meta(type):
    @property
    def scale(cls):
        return VALUE


class Scaled(metaclass=Meta):
    pass


@case
def metaclass(self, x):
    return x * Scaled.scale


class Descriptor:
    def __get__(self, owner, kind):
        return VALUE


class Described:
    value = Descriptor()


@case
def descriptor(self, x):
    return x * Described.value


class Choice(enum.Enum):
    A = VALUE


Pair = collections.namedtuple("Pair", "a b")
pair, chain = Pair(VALUE, 1), collections.ChainMap({"a": VALUE})
variable = contextvars.ContextVar("variable")
variable.set(VALUE)
local = threading.local()
local.value = VALUE
space = types.SimpleNamespace(value=VALUE)
span = datetime.timedelta(seconds=VALUE)


@case
def holders(self, x):
    return x * pair.a + chain["a"] + variable.get() + local.value + Choice.A.value


@case
def namespace(self, x):
    return x * space.value


@case
def timedelta(self, x):
    return x * span.total_seconds()


@case
def module_dict(self, x):
    return x * vars(sys.modules[__name__])["VALUE"]


@case
def argument_of_the_program(self, x):
    return x * float(sys.argv[1])


@case
def seed(self, x):
    return x * (torch.initial_seed() + 1)


# The system.


@case
def environment(self, x):
    return x * float(os.environ["CACHE_CASE"])


@case
def environment_in_a_path(self, x):
    return x * float(os.path.expandvars("$CACHE_CASE"))


@case
def file(self, x):
    return x * float((FOLDER / "table.txt").read_text())


@case
def existing_file(self, x):
    return x * (2.0 if os.path.exists(FOLDER / f"only{SEED}") else VALUE)


@case
def folder(self, x):
    return x * len(os.listdir(FOLDER))


@case
def object_identity(self, x):
    return x * (id(ROW) % 1000)


@case
def text_hash(self, x):
    return x * (hash("some text") % 1000)


# Weights.


def _with_attribute():
    weight = nn.Parameter(torch.rand(4))
    weight.factor, weight.table = VALUE, ROW
    return {"weight": weight}


@with_state(_with_attribute)
def attribute_of_a_weight(self, x):
    return x * self.weight * self.weight.factor + self.weight.table


@with_state(lambda: {"weight": nn.Parameter(torch.rand(4))})
def detached_weight(self, x):
    return x * self.weight.detach()


@with_state(lambda: {"weight": nn.Parameter(torch.rand(4))})
def text_of_a_weight(self, x):
    return x * len(repr(self.weight)) + (1.0 if "0.1" in repr(self.weight) else 2.0)


@with_state(lambda: {"parts": [nn.Linear(4, 4)], "held": {"a": nn.Parameter(torch.rand(4))}})
def hidden_weights(self, x):
    return self.parts[0](x) * self.held["a"]


@with_state(lambda: {"inner": nn.Linear(4, 3), "scale": nn.Parameter(torch.rand(3) + 0j)})
def complex_weight(self, x):
    return self.inner(x) * (self.scale * self.scale).real


class Quantised(torch.Tensor):
    """Small integers and a scale; ``linear`` takes it apart, as torchao's tensors do."""

    @staticmethod
    def __new__(cls, values, scale):
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=scale.dtype)

    def __init__(self, values, scale):
        self.values, self.scale, self.bias = values, scale, 1.0

    def __tensor_flatten__(self):
        return ["values", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["values"], inner["scale"])

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is nn.functional.linear:
            x, weight, bias = args
            return nn.functional.linear(x, weight.values.to(x.dtype) * weight.scale, bias) + weight.bias
        return super().__torch_function__(func, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return cls(args[0].values, args[0].scale)
        if func is torch.ops.aten.copy_.default:
            args[0].values.copy_(args[1].values)
            args[0].scale.copy_(args[1].scale)
            return args[0]
        raise NotImplementedError(str(func))


def quantised():
    made = nn.Linear(4, 3)
    values = torch.randint(-9, 9, (3, 4), dtype=torch.int8)
    made.weight = nn.Parameter(Quantised(values, torch.rand(3, 1)), requires_grad=False)
    return {"inner": made}


@with_state(quantised)
def tensor_subclass(self, x):
    return self.inner(x)


def build(name):
    kind = type(name, (Case,), {"forward": CASES[name], "__module__": __name__})
    return kind(**STATES.get(name, dict)()).eval()


def run(name) -> str:
    """Returns the outcome of the cache, after comparing the result with that of the module."""
    module, x = build(name), torch.arange(1.0, 9.0).reshape(2, 4)
    with torch.no_grad():
        # As a rule a model has run before it is compiled: its caches are filled.
        module(x)
        fast = disc.optimize(module, x)
        torch.testing.assert_close(fast(x), module(x))
        if name == "tensor_subclass":
            print(fast.load_state_dict(build(name).state_dict()), file=sys.stderr)
            torch.testing.assert_close(fast(x), module(x))
    return disc.report(fast).to_dict()["cache"]["capture"]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    states = {}
    for name in CASES:
        try:
            states[name] = run(name)
        except Exception as error:
            states[name] = f"failed: {error}"
    print(json.dumps(states))
