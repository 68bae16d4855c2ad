"""Describes a form of call that was served, so that the next one is served natively: ``warm_call``.

Not here: the call itself (crates/disc-python/src/warm), and forms that need Python: values of the
module that calls read, open numbers, programs in parts, calls that write, conditions on sizes that
no fact states, caches of keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch.utils import _pytree as pytree

from ...core import extension
from ..compat import children_of
from ..pytree.arguments import CONSTANTS
from ..pytree.parameters import same_constant

if TYPE_CHECKING:
    from ..calls.call import Call
    from ..watch.module_watch import ModuleWatch
    from .entry import CompiledEntry

#: A kind and what belongs to it, as the extension reads it.
_Row = tuple[str, Any]
_CONTAINERS = {tuple: "tuple", list: "list"}


class _Unknown(Exception):
    """Only Python serves the call."""


class WarmCalls:
    """The native calls of one entry, by the way in which its arguments come."""

    def __init__(self, entry: CompiledEntry):
        self._entry = entry
        self._results = _results(entry) if _is_native(entry) else None
        self._patterns: dict[tuple, tuple[list[_Row], dict[str, _Row]] | None] = {}

    def of(self, watch: ModuleWatch, args: tuple, kwargs: dict):
        """The native call for a form that was served with these arguments; None without one."""
        entry = self._entry
        if self._results is None:
            return None
        way = len(args), tuple(kwargs)
        if way not in self._patterns:
            self._patterns[way] = _patterns(entry.call, *way)
        if (patterns := self._patterns[way]) is None:
            return None
        positional, keywords = patterns
        return extension.warm_call(
            entry.executable,
            watch=watch.native,
            weights=entry.weight_watch,
            positional=positional,
            keywords=keywords,
            questions=sorted(entry.call.questions),
            results=self._results,
        )


def _is_native(entry: CompiledEntry) -> bool:
    arguments = entry.call.arguments
    needs_python = arguments.numbers or arguments.held or entry.call.signature.checks
    return entry.state is None and not entry.returned_caches and not needs_python


def _patterns(call: Call, count: int, names: tuple[str, ...]) -> tuple[list[_Row], dict[str, _Row]] | None:
    """The patterns of ``count`` positional arguments and of keywords."""
    inputs = {leaf: number for number, leaf in enumerate(call.arguments.tensors)}
    given = [*call.parameters.first(count), *names]
    defaults = call.parameters.defaults
    found: dict[Any, _Row] = {}
    leaf = 0
    try:
        for name, spec, leaves in call.slots:
            if name in given:
                found[name] = _pattern(spec, leaf, inputs, call.arguments.constants)
            elif spec is not None or not same_constant(defaults[name], call.arguments.constants[leaf]):
                # A default that is no constant.
                return None
            leaf += leaves
        # Others have their defaults.
        rows = [found[name] if name in found else ("constant", _constant(defaults[name])) for name in given]
    except (_Unknown, KeyError):
        return None
    return rows[:count], dict(zip(names, rows[count:], strict=True))


def _pattern(spec: pytree.TreeSpec | None, leaf: int, inputs: dict[int, int], constants: dict) -> _Row:
    """The pattern of an argument whose leaves begin with number ``leaf``."""
    if spec is None or spec.is_leaf():
        return ("input", inputs[leaf]) if leaf in inputs else ("constant", _constant(constants[leaf]))
    parts = []
    for child in children_of(spec):
        parts.append(_pattern(child, leaf, inputs, constants))
        leaf += child.num_leaves
    if spec.type is dict:
        return "dict", list(zip(spec.context, parts, strict=True))
    if spec.type not in _CONTAINERS:
        raise _Unknown
    return _CONTAINERS[spec.type], parts


def _constant(value: Any) -> Any:
    if not isinstance(value, CONSTANTS):
        raise _Unknown
    return value


def _results(entry: CompiledEntry) -> _Row:
    """The structure of a result; a function where only Python makes it."""
    result = entry.result
    try:
        leaves = [_leaf(kind, what) for kind, what in result.outputs]
        if result.record is not None:
            kind, names, keys = result.record
            return "record", (kind, names, list(zip(keys, leaves, strict=True)))
        return _structure(result.spec, iter(leaves))
    except _Unknown:
        return "function", result.build


def _leaf(kind: str, what: Any) -> _Row:
    if kind not in ("value", "input", "constant"):
        raise _Unknown
    return "output" if kind == "value" else kind, what


def _structure(spec: pytree.TreeSpec, leaves: Iterator[_Row]) -> _Row:
    if spec.is_leaf():
        return next(leaves)
    parts = [_structure(child, leaves) for child in children_of(spec)]
    if spec.type is dict:
        return "dict", list(zip(spec.context, parts, strict=True))
    if spec.type not in _CONTAINERS:
        raise _Unknown
    return _CONTAINERS[spec.type], parts
