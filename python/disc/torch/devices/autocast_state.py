"""Reads ``torch.autocast``, switches it off, and brings it back: each type of device has its own.

Not here: what autocast does to an op (``tracer.autocast``).
"""

from __future__ import annotations

import contextlib
from typing import TypeAlias

import torch

from .device import TYPES

#: The types of devices for which autocast is on, and the types that it converts to.
State: TypeAlias = tuple[tuple[str, torch.dtype], ...]


def current() -> State:
    """The state of this thread; empty if autocast is off."""
    if not torch._C._is_any_autocast_enabled():
        return ()
    return tuple((kind, torch.get_autocast_dtype(kind)) for kind in TYPES if torch.is_autocast_enabled(kind))


@contextlib.contextmanager
def restored(state: State):
    """Within it autocast is as ``state`` says.

    ``torch.autocast`` would ask for the device, and empty the cache of converted weights.
    """
    before, held = current(), [(kind, torch.get_autocast_dtype(kind)) for kind, _ in state]
    try:
        _set(state)
        yield
    finally:
        for kind, dtype in held:
            torch.set_autocast_dtype(kind, dtype)
        _set(before)


def _set(state: State) -> None:
    on = dict(state)
    for kind in TYPES:
        torch.set_autocast_enabled(kind, kind in on)
    for kind, dtype in state:
        torch.set_autocast_dtype(kind, dtype)


def off():
    """Within it autocast is off."""
    return restored(())
