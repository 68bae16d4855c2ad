"""Finds the values of a module that its user keeps changing (a scale, a temperature, a mask), and
compiles one form that reads them in each call.

Two values of a number or a tensor are constants of two programs. The third one makes the value an
input, unless the model needs it while it is captured (a branch, a loop of Python).

Not here: weights that keep changing (``Dispatcher``).
Invariants:

- a value that calls read is a constant nowhere in the program;
- only one thread calls the module: while a program is captured, other threads would find stand-ins
  of a trace in the places of the values.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from ...core.errors import Error
from ..pytree.held_values import Held, HeldValues
from .entry import GraphEntry, Refused
from .forms import Form

if TYPE_CHECKING:
    from .dispatcher import Dispatcher

_LOG = logging.getLogger("disc.compile")
#: The most programs that have a value of a place as a constant.
_CONSTANTS = 2


class ChangingValues:
    """The values of one module that calls read, as far as there are such."""

    def __init__(self):
        #: The places whose values the model needs while it is captured.
        self._needed: set[tuple[int, str]] = set()
        self._threads: set[int] = set()

    def note_thread(self) -> None:
        """Notes that the current thread calls the module."""
        self._threads.add(threading.get_ident())

    def form(
        self, dispatcher: Dispatcher, key: tuple, others: list[Form], args: tuple, kwargs: dict
    ) -> Form | None:
        """Compiles a form that reads the values in which the module differs from what it was for
        ``others``; None if it differs in more, or the model needs the values.
        """
        held = self._held(others)
        if held is None or len(self._threads) > 1:
            return None
        try:
            watch = dispatcher.watch(held=held)
            entry = dispatcher.build(args, kwargs, dispatcher.dims, held=held)
            if not watch.holds() or getattr(entry, "notes", ()):
                watch = dispatcher.watch(entry, held)
            if _reads_all(entry) and any(type(entry) is type(other.entries[0]) for other in others):
                entry.explain(entry.tensors(args, kwargs))
                _LOG.info("%s reads %s in each call", dispatcher.name, held)
                return Form(key, watch, [entry], is_closed=True, held=held)
        except (Error, Refused) as error:
            _LOG.info("%s has constants for %s: %s", dispatcher.name, held, error)
        tried = {place.identity for place in held.places}
        read = {place.identity for form in others if form.held for place in form.held.places}
        self._needed |= tried - read or tried
        return None

    def _held(self, others: list[Form]) -> HeldValues | None:
        """The values that are read by calls already, or of which as many were constants as may be;
        None if there are none.
        """
        places: dict[tuple[int, str], Held] = {}
        then: dict[tuple[int, str], set] = {}
        read: set[tuple[int, str]] = set()
        for form in others:
            changed = form.watch.changed_values()
            for place, value in changed:
                places[place.identity] = place
                then.setdefault(place.identity, set()).add(value)
            if changed and form.held is not None:
                read |= {place.identity for place in form.held.places}
                places |= {place.identity: place for place in form.held.places}
        often = {found for found, values in then.items() if len(values) >= _CONSTANTS}
        wanted = (often | read) - self._needed
        # A form that reads what is read already is compiled for other constants, as any is.
        return HeldValues([places[found] for found in places if found in wanted]) if wanted else None


def _reads_all(entry) -> bool:
    """Returns true for a program of one graph in which no integer is a constant."""
    if not isinstance(entry, GraphEntry) or entry.captured_by != "disc":
        return False
    return not any(dim.isdigit() for dim in entry.call.integers().values())
