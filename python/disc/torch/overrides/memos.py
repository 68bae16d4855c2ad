"""Caches of functions (``functools.lru_cache``) that are asked for an open size, and dicts and sets
with sizes as keys.

torch gives a size no hash. A cached function computes anew for an open size while a module is
traced, as it would for one that it has not met. A dict or a set may hold anything under a number:
a size that is looked up there is fixed, as one whose text is read (``overrides.texts``).
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

from ..symbolic.expressions import has_symbol
from . import reached
from .registry import Override, is_active, register
from .texts import FRAMEWORK, read

_CACHE = functools._lru_cache_wrapper
#: The attribute in which a function that stands for a cache holds it.
_HELD = "_disc_cache"
#: The kinds of what is a cache, or stands for one.
MAY_HOLD = frozenset((_CACHE, staticmethod, classmethod, types.FunctionType))


def cache_of(value: Any) -> Any:
    """The cache that a value is, that it stands for, or that it is as a method; None else."""
    held = value.__func__ if type(value) in (staticmethod, classmethod) else value
    if type(held) is _CACHE:
        return held
    # A function has no dict until somebody asks for it.
    return getattr(held, _HELD, None) if type(held) is types.FunctionType else None


@contextlib.contextmanager
def open_caches(module: torch.nn.Module) -> Iterator[None]:
    """Within it cached functions that a module reaches take open sizes."""
    replaced = []
    try:
        for owner, name, value in _places(module):
            standing = _standing(cache_of(value))
            if isinstance(owner, dict):
                owner[name] = standing
            elif isinstance(owner, types.CellType):
                owner.cell_contents = standing
            else:
                kind = type(value)
                setattr(owner, name, kind(standing) if kind in (staticmethod, classmethod) else standing)
            replaced.append((owner, name, value))
        yield
    finally:
        for owner, name, value in reversed(replaced):
            if isinstance(owner, dict):
                owner[name] = value
            elif isinstance(owner, types.CellType):
                owner.cell_contents = value
            else:
                setattr(owner, name, value)


def _places(module: torch.nn.Module) -> list[tuple[Any, str, Any]]:
    """Finds the caches: globals, classes and enclosed variables, with their names there."""
    spaces, cells = reached.spaces_and_cells(module)
    classes = {kind: None for m in module.modules() for kind in type(m).__mro__}
    for space in spaces:
        classes |= {
            value: None
            for value in list(space.values())
            if issubclass(type(value), type) and value.__module__ == space.get("__name__")
        }
    found = [(space, name, value) for space in spaces for name, value in list(space.items())]
    for kind in classes:
        if not reached.is_left(kind.__module__):
            found += [(kind, name, value) for name, value in list(vars(kind).items())]
    found += [(cell, "cell_contents", reached.inside(cell)) for cell in cells]
    return [
        place
        for place in found
        if type(place[2]) in MAY_HOLD
        and (cache := cache_of(place[2])) is not None
        and not reached.is_left(cache.__module__)
    ]


def _standing(cache: Any) -> Any:
    def call(*args, **kwargs):
        if (is_active("trace") or is_active("export")) and has_symbol((*args, *kwargs.values())):
            return cache.__wrapped__(*args, **kwargs)
        return cache(*args, **kwargs)

    functools.update_wrapper(call, cache)
    call.cache_info, call.cache_clear = cache.cache_info, cache.cache_clear
    setattr(call, _HELD, cache)
    return call


_plain_hash = torch.SymInt.__hash__


def _hash(self) -> int:
    asking = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]
    if not is_active() or asking in FRAMEWORK:
        return _plain_hash(self)
    return hash(read(self))


register([Override(torch.SymInt, "__hash__", _hash, "torch gives a size no hash", is_direct=True)])
