"""Reads what a cache of a function (``functools.lru_cache``) holds."""

from __future__ import annotations

import gc
from typing import Any


def entries(cache: Any) -> list[tuple[Any, Any]] | None:
    """The arguments and results that a cache holds; None if they cannot be told. Only the garbage
    collector is told of them.
    """
    info = cache.cache_info()
    if not info.currsize:
        return []
    met = gc.get_referents(cache)
    tables = [x for x in met if type(x) is dict and x is not cache.__dict__ and len(x) == info.currsize]
    if info.maxsize is None and len(tables) == 1:
        return list(tables[0].items())
    # A bounded cache tells of the key and the result of each entry in turn, and of the table by
    # these keys.
    for table in tables:
        keys, found, at = {id(key) for key in table}, [], 0
        while at + 1 < len(met):
            if id(met[at]) in keys:
                found.append((met[at], met[at + 1]))
                at += 1
            at += 1
        if len(found) == info.currsize and {id(key) for key, _ in found} == keys:
            return found
    return None
