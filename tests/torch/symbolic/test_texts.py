"""Texts of sizes: what a model looks up by one is that of the number,
and texts that are only said fix nothing.
"""

from __future__ import annotations

import json
import logging
import pprint
import string
import warnings

import disc
import numpy
import pytest
import torch
from torch.utils import _pytree as pytree

_LOG = logging.getLogger(__name__)
_FACTORS = {"5": 2.0, "7": 3.0, "11": 4.0}


class Of(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.w1, self.w5 = 7.0, 9.0

    def forward(self, x, *more):
        return self.function(x, *more)


def _by(text: str) -> float:
    return _FACTORS.get(text, 1.0)


#: A text of ``n``, and what is taken of it.
TEXTS = {
    "str": lambda n: _by(str(n)),
    "repr": lambda n: _by(repr(n)),
    "f-string": lambda n: 2.0 if f"len{n}" == "len5" else 3.0,
    "f-string with a width": lambda n: 2.0 if f"{n:03d}" == "005" else 3.0,
    "format": lambda n: _by(format(n)),
    "format of a text": lambda n: _by("{}".format(n)),  # noqa: UP032
    "%d": lambda n: _by("%d" % n),  # noqa: UP031
    "%s": lambda n: _by("%s" % n),  # noqa: UP031
    "%r": lambda n: _by("%r" % (n,)),  # noqa: UP031
    "length": lambda n: len(str(n)),
    "joined": lambda n: _by("".join(map(str, (n,)))),
    "in a tuple": lambda n: 2.0 if str((n,)) == "(5,)" else 3.0,
    "in a list": lambda n: 2.0 if f"{[n]}" == "[5]" else 3.0,
    "in a dict": lambda n: 2.0 if str({"n": n}) == "{'n': 5}" else 3.0,
    "a key": lambda n: {f"k{n}": 2.0}["k5"],
    "json": lambda n: 2.0 if json.dumps({"n": [n]}, default=str) == '{"n": [5]}' else 3.0,
    "pprint": lambda n: _by(pprint.pformat(n)),
    "template": lambda n: _by(string.Template("$n").substitute(n=n)),
    "numpy": lambda n: 2.0 if str(numpy.array([n], dtype=object)) == "[5]" else 3.0,
    "pytree": lambda n: _by(pytree.tree_map(str, [n])[0]),
    "hex": lambda n: len(hex(n)),
    "derived": lambda n: _by(str(n + 2)),
    "half": lambda n: 2.0 if str(n // 2) == "2" else 3.0,
    "quotient": lambda n: 2.0 if str(n / 2) == "2.5" else 3.0,
    "condition": lambda n: 2.0 if str(n > 4) == "True" else 3.0,
}


def _follows_eager(module, fast, *inputs) -> bool:
    """Returns true if sizes are served; what is served is right."""
    try:
        found = fast(*inputs)
    except disc.Error:
        return False
    torch.testing.assert_close(found, module(*inputs))
    return True


@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
@pytest.mark.parametrize("kind", TEXTS)
def test_the_text_of_a_size_is_that_of_the_number(kind, layout):
    """A transposed example is traced by torch.export."""
    text = TEXTS[kind]
    module = Of(lambda x: x * text(x.shape[1]))

    def of(n):
        return torch.ones(2, n) if layout == "contiguous" else torch.ones(n, 2).t()

    fast = disc.optimize(module, of(5))
    assert _follows_eager(module, fast, of(5))
    for n in (1, 4, 7, 11, 123):
        try:
            module(of(n))
        except KeyError:
            continue
        _follows_eager(module, fast, of(n))


def test_the_text_of_a_shape_is_that_of_the_numbers():
    module = Of(lambda x: x * (2.0 if str(x.shape) == "torch.Size([2, 5])" else 3.0))
    fast = disc.optimize(module, torch.ones(2, 5))
    assert _follows_eager(module, fast, torch.ones(2, 5))
    assert disc.report(fast).to_dict()["fixed"] == ["x axis 0 == 2", "x axis 1 == 5"]
    with pytest.raises(disc.Error, match="axis 1 of x is 6, expected 5"):
        fast(torch.ones(2, 6))


@pytest.mark.parametrize("sizes", [(5, 5), (1, 3), (5, 1)])
def test_an_attribute_whose_name_holds_a_size(sizes):
    """Capture chooses other sizes, for which there is none."""
    module = Of(lambda x, y: x * getattr(module, f"w{x.shape[0]}") + y.sum())
    inputs = [torch.ones(n) for n in sizes]
    fast = disc.optimize(module, tuple(inputs))
    assert _follows_eager(module, fast, *inputs)
    assert disc.report(fast).to_dict()["fixed"] == [f"x axis 0 == {sizes[0]}"]
    assert _follows_eager(module, fast, inputs[0], torch.ones(9))
    with pytest.raises(disc.Error, match=f"axis 0 of x is 8, expected {sizes[0]}"):
        fast(torch.ones(8), inputs[1])


def _says(x):
    n = x.shape[1]
    message = f"{n} columns"
    print("size", x.shape, n, f"{n}")
    _LOG.debug("%s %s", n, f"{n}")
    logging.getLogger("there").debug(f"{x.shape}")
    torch._check(n >= 0, f"columns: {n}")
    torch._check(
        len(x.shape) == 2,
        lambda: f"{n} {x.shape}",
    )
    torch._assert(x.dim() == 2, f"{x.shape}")
    assert x.dim() == 2, f"{x.shape}"
    if x.dim() == 3:
        raise ValueError(message)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn(f"{n}", stacklevel=1)
    return x * 2


def _says_and_uses(x):
    text = f"{x.shape[1]}"
    print(text)
    return x * _by(text)


def _checks_the_text(x):
    torch._check(str(x.shape[1]) in ("5", "8"), "odd")
    return x * 2


def _raises_and_reads(x):
    try:
        raise KeyError(f"{x.shape[1]}")
    except KeyError as error:
        return x * _by(error.args[0])


def test_a_text_that_is_only_said_fixes_nothing():
    fast = disc.optimize(Of(_says), torch.ones(2, 5))
    assert disc.report(fast).to_dict()["fixed"] == []
    assert _follows_eager(Of(_says), fast, torch.ones(3, 7))


@pytest.mark.parametrize("function", [_says_and_uses, _checks_the_text, _raises_and_reads])
def test_a_text_that_is_said_and_used_fixes_the_size(function):
    fast = disc.optimize(Of(function), torch.ones(2, 5))
    assert disc.report(fast).to_dict()["fixed"] == ["x axis 1 == 5"]
    assert _follows_eager(Of(function), fast, torch.ones(3, 5))
