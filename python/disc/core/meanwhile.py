"""Runs something on a thread while its caller does something else: the compiler needs no
interpreter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def meanwhile(work: Callable[[], _T], other: Callable[[], None]) -> _T:
    """The result of ``work``, or what it raised, after ``other`` ran in this thread."""
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="disc-compile")
    try:
        thread.start()
    except RuntimeError:
        # The interpreter is shutting down, or there is no thread to be had.
        run()
        thread = None
    other()
    # An exception of a signal handler ends the wait, and the work goes on.
    if thread is not None:
        thread.join()
    if errors:
        raise errors[0]
    return results[0]
