"""Finds lists, dicts and objects of pytrees among the arguments that a module changes
(``batch["y"] = y``, ``batch.y = y``): calls of compiled code would leave the caller's as they are.

Not here: caches of keys and values (``pytree.given_caches``).
"""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

from torch.utils import _pytree as pytree

from ...core.errors import Error
from ..pytree.given_caches import is_cache
from .side_effects import is_other

_KINDS = (list, dict, set, collections.deque)


class WritesArgument(Error):
    """A module changes a list, a dict or an object that it is given."""


class ArgumentContainers:
    """The containers that a trace passes to a module, and what they held before it."""

    def __init__(self, args: tuple, kwargs: dict):
        #: Python makes the outermost ones anew in each call.
        self._held = [row for value in (*args, *kwargs.values()) for row in _containers(value)]

    def refuse_changed(self, module) -> None:
        """Raises if one of them holds something else now."""
        for holder, before in self._held:
            if is_other(_contents(holder), before):
                raise WritesArgument(
                    f"{type(module).__name__} changes a {type(holder).__name__} that it is given",
                    code="E0405",
                    help="return a new one: calls of compiled code would not change the caller's",
                )


def _containers(value: Any) -> Iterator[tuple[Any, Any]]:
    """The containers in an argument, each with a copy of what it holds."""
    is_object = type(value) in pytree.SUPPORTED_NODES and not is_cache(value)
    if is_object or isinstance(value, _KINDS):
        held = _contents(value)
        yield value, held
        for x in held.values() if isinstance(held, dict) else held:
            yield from _containers(x)


def _contents(holder: Any) -> Any:
    """A copy of what a container holds, without code of its class; of an object its attributes."""
    for kind in (*_KINDS, tuple):
        if isinstance(holder, kind):
            return kind(holder)
    slots = (name for kind in type(holder).__mro__ for name in vars(kind).get("__slots__", ()))
    names = (*getattr(holder, "__dict__", ()), *slots)
    return {name: getattr(holder, name) for name in names if hasattr(holder, name)}
