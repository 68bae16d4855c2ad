"""Python's collector of cycles, held back while something runs that leaves no cycles.

A pass over all objects takes 0.2 s where torch is loaded, and comes after so many new ones: a few
ten thousand that are gone soon after call for it in vain.

Invariant: the collector is on at the end if it was on before; also in a child that another thread
forks in between.
"""

from __future__ import annotations

import contextlib
import gc
import os

#: One for each caller that switched it off, and will switch it on again.
_waiting: set[object] = set()


@contextlib.contextmanager
def waiting():
    """While this lasts, in all threads, cycles are collected only where somebody asks for it."""
    if not gc.isenabled():
        yield
        return
    me = object()
    _waiting.add(me)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        _waiting.discard(me)


def _go_on() -> None:
    """In a forked child: the callers that would have switched it on are not there."""
    if _waiting:
        _waiting.clear()
        gc.enable()


os.register_at_fork(after_in_child=_go_on)
