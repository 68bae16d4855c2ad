"""Nested arguments and results of a saved model: rebuilt from a description that is plain JSON.

A description is a dict with ``kind``: ``leaf`` (``index`` into the flat list), ``number`` (a leaf
that is a Python number), ``constant`` (``value``, or ``float`` as text where JSON has no such
number), ``tuple``, ``list``, ``dict`` (``keys``) or ``record`` (``type`` and ``keys``), the last
four with ``items``. A package is data of others, so a record is made by its class only where the
program has imported it; else it is a dict.

Not here: how a framework's structures become descriptions.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import Error, PackageError

#: The help of errors about constants that the saved call did not have.
ANOTHER_CONSTANT = "values that are not tensors are compiled in: save the model once more with this one"
#: Deeper structures are no model's.
_DEEPEST = 100


def check(description: Any, leaves: int, depth: int = 0) -> None:
    """Raises disc.PackageError unless this describes a value of at most ``leaves`` parts."""
    kind = description.get("kind") if isinstance(description, dict) else None
    if kind in ("leaf", "number"):
        index = description.get("index")
        is_right = type(index) is int and 0 <= index < leaves
    elif kind == "constant":
        is_right = "value" in description or _is_number(description.get("float"))
    elif kind in ("tuple", "list", "dict", "record"):
        items, keys = description.get("items"), description.get("keys")
        is_right = isinstance(items, list) and depth < _DEEPEST
        if kind in ("dict", "record"):
            is_right = is_right and isinstance(keys, list) and len(keys) == len(items)
            is_right = is_right and all(isinstance(key, (str, int, float, bool, type(None))) for key in keys)
        if kind == "record":
            is_right = is_right and isinstance(description.get("type"), str)
    else:
        is_right = False
    if not is_right:
        raise PackageError("entry `manifest.json`: the structure of a saved model is damaged")
    for item in description.get("items", ()):
        check(item, leaves, depth + 1)


def build(description: dict[str, Any], leaves: Sequence[Any]) -> Any:
    """The nested value of which ``leaves`` are the parts."""
    kind = description["kind"]
    if kind == "leaf":
        return leaves[description["index"]]
    if kind == "number":
        return leaves[description["index"]].item()
    if kind == "constant":
        return constant(description)
    items = [build(item, leaves) for item in description["items"]]
    if kind == "tuple":
        return tuple(items)
    if kind == "list":
        return items
    named = dict(zip(description["keys"], items, strict=True))
    return named if kind == "dict" else _record(description["type"], named)


def constant(description: dict[str, Any]) -> Any:
    """The value of a constant."""
    return float(description["float"]) if "float" in description else description["value"]


def is_same(value: Any, wanted: Any) -> bool:
    """Returns true if a value is the compiled-in one; NaN is NaN, and 0.0 is not -0.0."""
    if type(value) is not type(wanted):
        return False
    return repr(value) == repr(wanted) if isinstance(wanted, float) else value == wanted


def flatten(description: dict[str, Any], value: Any, leaves: dict[int, Any], where: str = "") -> None:
    """Puts the parts of a nested value into ``leaves``, by index.

    Raises disc.Error if the value is of another structure; ``where`` names it.
    """
    kind = description["kind"]
    if kind in ("leaf", "number"):
        leaves[description["index"]] = value
    elif kind == "constant":
        wanted = constant(description)
        if not is_same(value, wanted):
            error = _differs(where, short(value), f"{wanted!r}, which is compiled in")
            error.help = ANOTHER_CONSTANT
            raise error
    elif kind in ("tuple", "list"):
        items = description["items"]
        if not isinstance(value, (tuple, list)) or len(value) != len(items):
            raise _differs(where, short(value), f"a {kind} of {len(items)}")
        for i, (item, part) in enumerate(zip(items, value, strict=True)):
            flatten(item, part, leaves, f"{where}[{i}]")
    else:
        named, keys = _fields(value), description["keys"]
        # A model may depend on the order of a dict.
        fits = list(named) == keys if kind == "dict" else set(named) == set(keys)
        if not fits:
            raise _differs(where, short(value), f"a {kind} with {', '.join(map(str, keys))}, in this order")
        for key, item in zip(keys, description["items"], strict=True):
            flatten(item, named[key], leaves, f"{where}.{key}" if where else str(key))


def _fields(value: Any) -> Mapping:
    if isinstance(value, Mapping):
        return value
    if hasattr(value, "_asdict"):
        return value._asdict()
    held = getattr(value, "__dict__", {})
    return {name: part for name, part in held.items() if part is not None}


def _record(name: str, fields: dict[str, Any]) -> Any:
    if name == "collections:OrderedDict":
        return OrderedDict(fields)
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for step in path.split("."):
        found = getattr(found, step, None)
    if not isinstance(found, type) or not (dataclasses.is_dataclass(found) or hasattr(found, "_fields")):
        return fields
    try:
        return found(**fields)
    except TypeError:
        # The class of this program has other fields than that of the model.
        return fields


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return isinstance(text, str)


def _differs(where: str, came: str, expected: str) -> Error:
    return Error(f"input {where or 'of the call'} is {came}, expected {expected}", code="E0601")


def short(value: Any) -> str:
    """A value as a message has it."""
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"
