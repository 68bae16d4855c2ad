"""Nested arguments and results of a saved model: rebuilt from a description that is plain JSON.

A description is a dict with ``kind``: ``leaf`` (``index`` into the flat list), ``number`` (a leaf
that is a Python number), ``constant`` (``value``), ``tuple``, ``list``, ``dict`` (``keys``) or
``record`` (``type`` and ``keys``), the last four with ``items``. A package is data of others, so a
record is made by its class only where the program has imported it; else it is a dict.

Not here: how a framework's structures become descriptions.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import Error


def build(description: dict[str, Any], leaves: Sequence[Any]) -> Any:
    """The nested value of which ``leaves`` are the parts."""
    kind = description["kind"]
    if kind == "leaf":
        return leaves[description["index"]]
    if kind == "number":
        return leaves[description["index"]].item()
    if kind == "constant":
        return description["value"]
    items = [build(item, leaves) for item in description["items"]]
    if kind == "tuple":
        return tuple(items)
    if kind == "list":
        return items
    named = dict(zip(description["keys"], items, strict=True))
    return named if kind == "dict" else _record(description["type"], named)


def flatten(description: dict[str, Any], value: Any, leaves: dict[int, Any], where: str = "") -> None:
    """Puts the parts of a nested value into ``leaves``, by index.

    Raises disc.Error if the value is of another structure; ``where`` names it.
    """
    kind = description["kind"]
    if kind in ("leaf", "number"):
        leaves[description["index"]] = value
    elif kind == "constant":
        wanted = description["value"]
        if type(value) is not type(wanted) or value != wanted:
            raise _differs(where, f"{value!r}", f"{wanted!r}, which is compiled in")
    elif kind in ("tuple", "list"):
        items = description["items"]
        if not isinstance(value, (tuple, list)) or len(value) != len(items):
            raise _differs(where, _short(value), f"a {kind} of {len(items)}")
        for i, (item, part) in enumerate(zip(items, value, strict=True)):
            flatten(item, part, leaves, f"{where}[{i}]")
    else:
        named = value if isinstance(value, Mapping) else getattr(value, "__dict__", {})
        keys = description["keys"]
        if set(keys) - set(named):
            raise _differs(where, _short(value), f"a {kind} with {', '.join(map(str, keys))}")
        for key, item in zip(keys, description["items"], strict=True):
            flatten(item, named[key], leaves, f"{where}.{key}" if where else str(key))


def _record(name: str, fields: dict[str, Any]) -> Any:
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for step in path.split("."):
        found = getattr(found, step, None)
    if not isinstance(found, type) or not (dataclasses.is_dataclass(found) or hasattr(found, "_fields")):
        return fields
    return found(**fields)


def _differs(where: str, came: str, expected: str) -> Error:
    return Error(f"input {where or 'of the call'} is {came}, expected {expected}", code="E0601")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"
