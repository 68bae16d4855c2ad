"""Clears caches of functions (``functools.lru_cache``) in which a trace left fake tensors,
and takes them out of dicts.

A function that is called first while its module is traced computes fake tensors and symbolic sizes;
its cache would hand them to the next trace, and to eager calls for ever.

Caches are found as globals and in classes of loaded modules, as attributes of the traced modules,
and in closures of their methods; those of torch and of Python are ignored.
Dicts are those of modules and classes whose code the traced module reaches.
Invariant: a cache or a dict that got no fake tensor keeps its entries.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import operator
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

from ...core.function_entries import entries
from ..overrides import reached
from ..overrides.memos import MAY_HOLD, cache_of

_LEFT_ALONE = frozenset(sys.stdlib_module_names) | {"torch", "numpy", "sympy", "mpmath", "disc"}
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_DICTS = (dict, collections.OrderedDict, collections.defaultdict)
#: Values of these kinds hold no result of a trace.
_OUTSIDE = (type, torch.Tensor, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
#: A cache that holds more objects than these is taken for one with fake tensors.
_MOST_OBJECTS = 100_000


class FunctionCaches:
    """The caches of functions that code of one module may fill."""

    def __init__(self, module: torch.nn.Module):
        self._module = module
        #: By identity, each cache and the entries that it had before the first trace; no cache
        #: whose entries cannot be told.
        self.before: dict[int, tuple[Any, list[tuple[Any, Any]]]] = {}
        #: Those that were cleared.
        self.cleared: list[Any] = []
        #: The dicts that got fake tensors, and were put back.
        self.filled: list[dict] = []
        #: The modules of Python that were looked at.
        self._loaded: dict[str, types.ModuleType] = {}
        self._found: list[Any] = []

    @contextlib.contextmanager
    def without_fakes(self):
        """Clears each cache that got fake tensors within."""
        before = {id(cache): cache.cache_info().misses for cache in self._caches()}
        self._note_entries()
        tables = [(table, table.copy()) for table in _tables(self._module)]
        try:
            yield
        finally:
            for table, held in tables:
                if _put_back(table, held):
                    self.filled.append(table)
            for cache in self._caches():
                if cache.cache_info().misses != before.get(id(cache), 0) and _holds_fakes(cache):
                    cache.cache_clear()
                    self.cleared.append(cache)

    def _note_entries(self) -> None:
        if self.before:
            return
        for cache in self._found:
            if (held := entries(cache)) is not None:
                self.before[id(cache)] = cache, held

    def _caches(self) -> list[Any]:
        """Finds the caches; also those of modules of Python that were loaded since."""
        if len(self._loaded) == len(sys.modules):
            return self._found
        new = {name: loaded for name, loaded in sys.modules.items() if self._loaded.get(name) is not loaded}
        spaces = {id(vars(x)): vars(x) for name, x in new.items() if _is_looked_at(name, x)}
        found = [*self._found, *(_of_model(self._module, spaces) if not self._loaded else ())]
        found += _of_spaces(spaces)
        self._loaded = dict(sys.modules)
        self._found = list({id(cache): cache for cache in found}.values())
        return self._found


def _tables(module: torch.nn.Module) -> Iterator[dict]:
    """The dicts among the globals that a module reaches, and in classes beside them."""
    for space in reached.spaces(module):
        for value in list(space.values()):
            if type(value) in _DICTS:
                yield value
            elif issubclass(type(value), type) and value.__module__ == space.get("__name__"):
                yield from (held for held in list(vars(value).values()) if type(held) in _DICTS)


def _put_back(table: dict, held: dict) -> bool:
    """Takes fake tensors out of a dict; returns true if it got some."""
    if len(table) == len(held) and all(map(operator.is_, table.values(), held.values())):
        return False
    kept = {id(value) for value in held.values()}
    if any(_holds_fakes((key, value)) for key, value in table.items() if id(value) not in kept):
        table.clear()
        table.update(held)
        return True
    return False


def _is_looked_at(name: str, loaded: Any) -> bool:
    return isinstance(loaded, types.ModuleType) and name.partition(".")[0] not in _LEFT_ALONE


def _of_model(module: torch.nn.Module, spaces: dict[int, dict[str, Any]]) -> Iterator[Any]:
    """The caches of the parts of a model and of their classes; adds the globals of its methods."""
    for part in module.modules():
        yield from _among(vars(part))
    for kind in {kind: None for part in module.modules() for kind in type(part).__mro__}:
        if kind.__module__.partition(".")[0] in _LEFT_ALONE:
            continue
        yield from _among(vars(kind))
        for f in vars(kind).values():
            if type(f) is types.FunctionType:
                spaces[id(f.__globals__)] = f.__globals__
                yield from _enclosed(f)


def _of_spaces(spaces: dict[int, dict[str, Any]]) -> Iterator[Any]:
    for space in list(spaces.values()):
        yield from _among(space)
        for value in list(space.values()):
            # `isinstance` would ask a stand-in for its class.
            if issubclass(type(value), type) and value.__module__ == space.get("__name__"):
                yield from _among(vars(value))


def _among(space) -> Iterator[Any]:
    for value in list(space.values()):
        if type(value) in MAY_HOLD and (held := cache_of(value)) is not None:
            yield held


def _enclosed(f: types.FunctionType) -> Iterator[Any]:
    for cell in f.__closure__ or ():
        # A cell is empty until its variable is assigned.
        with contextlib.suppress(ValueError):
            if (held := cache_of(cell.cell_contents)) is not None:
                yield held


def _holds_fakes(cache: Any) -> bool:
    """Returns true if a fake tensor or a symbolic number is among arguments and results."""
    met: set[int] = set()
    left = gc.get_referents(cache)
    while left:
        x = left.pop()
        if isinstance(x, (torch._subclasses.FakeTensor, *_SYMBOLIC)):
            return True
        if id(x) in met or isinstance(x, _OUTSIDE):
            continue
        met.add(id(x))
        if len(met) > _MOST_OBJECTS:
            return True
        left += gc.get_referents(x)
    return False
