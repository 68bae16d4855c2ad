"""Bounds the processor time of a capture, and lets other threads run meanwhile.

A loop of Python over a size is unrolled into the graph, and conditions on long products of sizes
are slow to settle. Where torch may run what is not compiled, a first call does not wait for them.
"""

from __future__ import annotations

import contextlib
import threading
import time

from torch.overrides import TorchFunctionMode

from ...core.errors import Error

#: Seconds of the processor for a capture.
MOST_SECONDS = 60.0
_HELD = threading.local()


class TooLong(Error):
    """A capture took longer than it may."""

    default_code = "E0404"


@contextlib.contextmanager
def bounded(seconds: float | None):
    """Captures of this thread end in ``TooLong`` after some seconds; None: they take their time."""
    outer, _HELD.end = getattr(_HELD, "end", None), None
    if seconds is not None:
        _HELD.end = time.thread_time() + seconds
    try:
        yield
    finally:
        _HELD.end = outer


def is_over() -> bool:
    """Returns true after the end of the time."""
    end = getattr(_HELD, "end", None)
    return end is not None and time.thread_time() > end


@contextlib.contextmanager
def giving_way():
    """Captures of this thread let other threads have the interpreter often: a thread that waits for
    it would get it every 5 milliseconds.
    """
    _HELD.gives_way = True
    try:
        yield
    finally:
        _HELD.gives_way = False


def give_way() -> None:
    """Lets another thread have the interpreter, if this one is to give way."""
    if getattr(_HELD, "gives_way", False):
        time.sleep(0)


def check() -> None:
    """Raises ``TooLong`` after the end of the time."""
    give_way()
    if is_over():
        raise TooLong(
            "the capture takes too long",
            help='Options(fallback="error") waits for it; a loop of Python over a size is unrolled',
        )


class Watched(TorchFunctionMode):
    """Checks the time at each function of torch: for traces of torch itself."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        check()
        return func(*args, **(kwargs or {}))
