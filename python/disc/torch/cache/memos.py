"""Compares what caches of functions hold (``functools.lru_cache``) with what they held
when a capture was made.

The key of a capture covers the code of such a function, not its results: these came from a file
that is another one by now, or from random numbers. A stored capture may be used if every entry that
was there before it was made is there with the same value, and no entry that it made has another
value here: what it computed itself was watched (``cache.capture_cache``).
"""

from __future__ import annotations

from typing import Any

import torch

from ...core.function_entries import entries
from ..graph import weight_names
from .doubts import Unsure
from .fingerprint import Read, digest

#: For each cache: digests of values by digests of arguments. None is a value that cannot be told
#: from others, and for a cache as a whole that it was cleared.
Held = list[dict[bytes, bytes | None] | None]


def held_by(
    read: Read, module: torch.nn.Module, before: list[list[tuple[Any, Any]]] | None = None
) -> tuple[Held, list[torch.Tensor]]:
    """The contents of the caches now, or the entries that each had before; and the tensors among
    them.
    """
    tensors: list[torch.Tensor] = []
    found: Held = []
    # One list of them: a module has more caches with more entries than there is time for walks of
    # it.
    weights = weight_names.identities(module)
    for number, memo in enumerate(read.findings.memos):
        row: dict[bytes, bytes | None] = {}
        for key, value in _entries(memo) if before is None else before[number]:
            arguments = digest(key, weights=weights, notes=read.notes)
            if arguments is None:
                raise Unsure(f"arguments that {_name(memo)} was called with")
            result = digest(value, weights=weights, notes=read.notes)
            row[arguments[0]] = None if result is None else result[0]
            tensors += [] if result is None else result[1]
        found.append(row)
    return found, tensors


def unknown(read: Read, held: Held) -> str | None:
    """The name of a cache with a value that cannot be told from others; None if there is none."""
    pairs = zip(read.findings.memos, held, strict=True)
    return next((_name(memo) for memo, row in pairs if None in row.values()), None)


def both(before: Held, after: Held) -> Held:
    """The contents before a capture or after it."""
    for then, now in zip(before, after, strict=True):
        if any(key in now and now[key] != value for key, value in then.items()):
            raise Unsure("a cache of a function that changed")
    return [then | now for then, now in zip(before, after, strict=True)]


def without(held: Held, read: Read, cleared: list[Any]) -> Held:
    """The contents after a capture that cleared some of the caches."""
    gone = {id(memo) for memo in cleared}
    return [None if id(memo) in gone else row for memo, row in zip(read.findings.memos, held, strict=True)]


def allow(now: Held, before: Held, after: Held) -> bool:
    """Returns true if a capture that was made between ``before`` and ``after`` is right
    with what is held now.
    """
    if not len(now) == len(before) == len(after):
        return False
    return all(_allows(*rows) for rows in zip(now, before, after, strict=True))


def _allows(now: dict, before: dict, after: dict | None) -> bool:
    if after is None:
        # The results that the capture computed are not known: there must be none here.
        return now == before and None not in now.values()
    if not before.keys() <= now.keys():
        return False
    return all(now[key] is not None and now[key] == after[key] for key in now.keys() & after.keys())


def _entries(memo: Any) -> list[tuple[Any, Any]]:
    if (found := entries(memo)) is None:
        raise Unsure(f"what {_name(memo)} holds")
    return found


def _name(memo: Any) -> str:
    return f"{getattr(memo, '__module__', None)}.{getattr(memo, '__qualname__', memo)}"
