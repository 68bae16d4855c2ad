"""Finds lists and dicts among the arguments that a module changes (``batch["y"] = y``): calls of
compiled code would leave the caller's as they are.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

from ...core.errors import Error
from .side_effects import is_other

_KINDS = (list, dict, set, collections.deque)


class WritesArgument(Error):
    """A module changes a list or a dict that it is given."""


class ArgumentContainers:
    """The containers that a trace passes to a module, and what they held before it."""

    def __init__(self, args: tuple, kwargs: dict):
        #: Python makes the outermost ones anew in each call.
        self._held = [row for value in (*args, *kwargs.values()) for row in _containers(value)]

    def refuse_changed(self, module) -> None:
        """Raises if one of them holds something else now."""
        for holder, before in self._held:
            if is_other(holder, before):
                raise WritesArgument(
                    f"{type(module).__name__} changes a {type(holder).__name__} that it is given",
                    code="E0405",
                    help="return a new one: calls of compiled code would not change the caller's",
                )


def _containers(value: Any) -> Iterator[tuple[Any, Any]]:
    """The containers in an argument, each with a copy."""
    if isinstance(value, _KINDS):
        yield value, _copy(value)
    if isinstance(value, (*_KINDS, tuple)):
        for x in value.values() if isinstance(value, dict) else value:
            yield from _containers(x)


def _copy(holder: Any) -> Any:
    """What a container holds, without code of its class."""
    return next(kind for kind in _KINDS if isinstance(holder, kind))(holder)
