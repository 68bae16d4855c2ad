"""Compiles forms of call on a thread of their own while PyTorch serves calls:
``Options(background=True)``.

A form that is asked for is compiled once, one after the other. What the compilation raises is the
reason for which PyTorch goes on.

Not here: variants of forms (``variants``), which are compiled so in any case.
Invariants:

- calls wait for nothing;
- a program is installed only if the module is as it was when its capture began.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

import torch
from torch.utils import _pytree as pytree

from ...core.errors import Error
from ..devices import autocast_state
from ..tracer import deadline
from .entry import EagerEntry
from .forms import Form, Original
from .stored_names import stores_attributes

if TYPE_CHECKING:
    from .dispatcher import Dispatcher

_LOG = logging.getLogger("disc.compile")
#: So many compilations in a row of a module that was changed meanwhile are thrown away.
_MOST_TRIES = 3
#: The reason of calls that PyTorch serves.
COMPILING = "this form of call is being compiled"


class Meanwhile(EagerEntry):
    """PyTorch, for one call of a form that is compiled from the end of the call on."""

    def __init__(self, original: Original, behind: Behind):
        super().__init__(original, Error(COMPILING))
        self._behind = behind

    def run(self, args: tuple, kwargs: dict):
        try:
            return super().run(args, kwargs)
        finally:
            self._behind.start()


class Changed(Exception):
    """The module was changed while a form was compiled."""


class Behind:
    """The forms of one module that are asked for, and the thread that compiles them."""

    def __init__(self, dispatcher: Dispatcher):
        self._dispatcher = dispatcher
        #: False after a fork in the middle of a compilation, which may have left locks of the
        #: interpreter's imports taken: PyTorch serves the child's calls.
        self._compiles = True
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._condition = threading.Condition()
        #: The key of a form -> a call of it; the first one is being compiled.
        self._asked: dict[tuple, tuple[tuple, dict]] = {}
        self._tries: dict[tuple, int] = {}
        self._thread: threading.Thread | None = None

    def may_compile(self, key: tuple) -> bool:
        """Returns true for a form that is compiled while calls go on. One that is called with
        another default device is not, nor is a module whose calls assign attributes: those of
        other threads would find what a trace assigns.
        """
        if key[2] is not None or self._tries.get(key, 0) >= _MOST_TRIES:
            return False
        return not stores_attributes(self._dispatcher.original())

    def ask(self, key: tuple, args: tuple, kwargs: dict) -> None:
        """Has the form of a call compiled, unless it was asked for."""
        self._look_for_fork()
        if not self._compiles:
            return
        with self._condition:
            if key in self._asked:
                return
            copies = pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(), (args, kwargs))
            self._asked[key] = copies

    def start(self) -> None:
        """Compiles what was asked for, from here on."""
        with self._condition:
            if self._asked and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(target=self._run, name="disc-compile")
                self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until all is compiled that was asked for; returns false after ``timeout``
        seconds.
        """
        self._look_for_fork()
        self.start()
        end = None if timeout is None else time.monotonic() + timeout
        with self._condition:
            while self._asked:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._condition.wait(left)
        return True

    def _look_for_fork(self) -> None:
        """Begins anew in a child process, which has no threads."""
        if self._process != os.getpid():
            self._compiles = not self._asked
            self._begin()

    def _run(self) -> None:
        _load()
        with deadline.giving_way():
            while True:
                with self._condition:
                    # A process that ends waits for one compilation at the most.
                    if not self._asked or not threading.main_thread().is_alive():
                        self._asked.clear()
                        self._thread = None
                        self._condition.notify_all()
                        return
                    key, (args, kwargs) = next(iter(self._asked.items()))
                self._compile(key, args, kwargs)
                with self._condition:
                    del self._asked[key]
                    self._condition.notify_all()

    def _compile(self, key: tuple, args: tuple, kwargs: dict) -> None:
        dispatcher = self._dispatcher
        try:
            with autocast_state.restored(key[1]):
                dispatcher.compile_behind(key, args, kwargs)
        except Changed:
            self._tries[key] = self._tries.get(key, 0) + 1
        except Exception as error:
            cause = (
                error if isinstance(error, Error) else Error(f"{type(error).__name__}: {error}", code="E0404")
            )
            _LOG.info("%s is not compiled: %s", dispatcher.name, cause)
            dispatcher.forms.held.append(
                Form(key, dispatcher.watch(), [EagerEntry(dispatcher.original, cause)])
            )


def _load() -> None:
    """Imports what a compilation needs. The interpreter is given away at functions that run, once
    a millisecond: imports have no other place for it.
    """
    if sys.getprofile() is not None:
        return
    given = time.perf_counter()

    def give_way(frame, event, value) -> None:
        nonlocal given
        if time.perf_counter() - given > 1e-3:
            time.sleep(0)
            given = time.perf_counter()

    # The function is only that of this thread.
    sys.setprofile(give_way)
    try:
        from ..capture import capture  # noqa: F401
        from ..lowering import graph, table  # noqa: F401
        from ..tracer import tracer  # noqa: F401
    finally:
        sys.setprofile(None)
