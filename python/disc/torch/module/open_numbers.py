"""Finds the numbers of a call that other calls have with other values, and compiles one form for
all of them.

The first value of a number is a constant. With the second one an integer becomes a size, which has
a symbol: a form of call for all values from 1 on. A float becomes an element of a tensor. A number
of which the model makes more than sizes and arithmetic (a loop of Python, a key of a dict, a
branch) stays a constant.

Invariant: a form for all values has facts, which each call is checked for, as sizes of tensors have
them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from torch.utils import _pytree as pytree

from ...core.errors import Error
from ..pytree import kv_caches, open_numbers
from ..watch.module_watch import ModuleWatch
from .entry import GraphEntry, Refused
from .forms import FIRST, Form, Leaf, opened

if TYPE_CHECKING:
    from .dispatcher import Dispatcher

_LOG = logging.getLogger("disc.compile")


class OpenNumbers:
    """The numbers of one module of which forms take all values."""

    def __init__(self):
        #: The key of a form for all values of some numbers -> those of which values are needed.
        self._fixed: dict[tuple, frozenset[Leaf]] = {}

    def form(
        self,
        dispatcher: Dispatcher,
        key: tuple,
        watch: ModuleWatch,
        args: tuple,
        kwargs: dict,
        is_behind: bool = False,
    ) -> Form | None:
        """Compiles a form for all values of the numbers in which a call differs from earlier ones;
        None if there are none, or the model needs their values.
        """
        numbers, likes = _changed(dispatcher, key)
        while numbers:
            asked = opened(key, numbers)
            if (known := self._fixed.get(asked)) is not None:
                numbers -= known
                continue
            # Sizes serve more models than elements do.
            fixed = _floats(key, numbers) or numbers
            try:
                given = with_open(dispatcher, numbers, args, kwargs)
                entry = dispatcher.build(*given, dispatcher.dims, is_behind=is_behind)
                if any(type(entry) is type(like) for like in likes) and isinstance(entry, GraphEntry):
                    entry.explain(entry.tensors(args, kwargs))
                    fixed = _fixed(dispatcher, entry, numbers, args, kwargs)
            except (Error, Refused) as error:
                _LOG.info("%s has constants for numbers: %s", dispatcher.name, error)
            if not fixed:
                return Form(asked, watch, [entry], numbers=numbers)
            self._fixed[asked] = fixed
        return None

    def refuse(self, form: Form) -> None:
        """Compiles no further form for all values of the numbers of ``form``."""
        self._fixed[form.key] = form.numbers


def _changed(dispatcher: Dispatcher, key: tuple) -> tuple[frozenset[Leaf], list]:
    """The numbers in which a call differs from earlier ones, where it differs in nothing else; and
    what served those.
    """
    found: set[Leaf] = set()
    likes = []
    for form in dispatcher.forms.held:
        if (places := _differences(form.key, key)) is None or not form.is_for(dispatcher.original):
            continue
        whole = frozenset(places) | form.numbers
        if opened(key, whole) is not None:
            found |= whole
            likes.append(form.entries[0])
    return frozenset(found), likes


def _differences(one: tuple, other: tuple) -> list[Leaf] | None:
    """The numbers that two keys have with two values; None if they differ in more."""
    found: list[Leaf] = []
    if len(one) != len(other):
        return None
    for number, (row, like) in enumerate(zip(one, other, strict=True)):
        if row == like:
            continue
        if not isinstance(row, tuple) or len(row) != 3 or row[:2] != like[:2] or len(row[2]) != len(like[2]):
            return None
        for place, (kind, wanted) in enumerate(zip(row[2], like[2], strict=True)):
            if kind != wanted:
                if kind[0] is not wanted[0] or kind[0] not in (int, float):
                    return None
                found.append((number, place))
    return found


def _floats(key: tuple, numbers: frozenset[Leaf]) -> frozenset[Leaf]:
    return frozenset((row, place) for row, place in numbers if key[row][2][place][0] is float)


def with_open(
    dispatcher: Dispatcher, numbers: frozenset[Leaf], args: tuple, kwargs: dict
) -> tuple[tuple, dict]:
    """The arguments of a call, with ``numbers`` marked as open."""
    if not numbers:
        return args, kwargs
    wanted: dict = {}
    for name, place in _named(dispatcher, numbers, args, kwargs):
        wanted.setdefault(name, set()).add(place)

    def marked(name, value):
        if name not in wanted:
            return value
        leaves, spec = kv_caches.flatten(value)
        leaves = [open_numbers.opened(leaf) if i in wanted[name] else leaf for i, leaf in enumerate(leaves)]
        return pytree.tree_unflatten(leaves, spec)

    first = dispatcher.forms.parameters.first(len(args))
    return (
        tuple(marked(name, value) for name, value in zip(first, args, strict=True)),
        {name: marked(name, value) for name, value in kwargs.items()},
    )


def _named(dispatcher: Dispatcher, numbers: frozenset[Leaf], args: tuple, kwargs: dict) -> dict:
    """The numbers by the name of their argument and the place among its leaves."""
    names = dispatcher.forms.rows(args, kwargs)
    return {(names[row - FIRST], place): (row, place) for row, place in numbers}


def _fixed(
    dispatcher: Dispatcher, entry: GraphEntry, numbers: frozenset[Leaf], args: tuple, kwargs: dict
) -> frozenset[Leaf]:
    """The numbers of which the model needs the values."""
    named = _named(dispatcher, numbers, args, kwargs)
    dims = entry.call.integers()
    return frozenset(leaf for name, leaf in named.items() if dims.get(name, "").isdigit())
