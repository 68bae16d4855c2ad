"""Compiles further programs for calls that break a fact of the first one.

PyTorch runs the first call that breaks a fact; the second one has a variant captured in the
background, with its sizes, while PyTorch serves it. A form has at most ``MOST`` of them. A dim that
two programs have fixed (by a loop of Python) is fixed by the next one too, most likely: a variant
is for one size then, and the calls of each size are counted apart.

Invariant: a variant is never run to see if it serves a call, since calls may change state.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import torch
from torch.utils import _pytree as pytree

from ...core.errors import DimError
from ..devices import autocast_state
from .entry import GraphEntry, Refused
from .forms import Form
from .open_numbers import with_open

if TYPE_CHECKING:
    from .dispatcher import Dispatcher

MOST = 4
_HITS = 2


class Variants:
    """Counts the facts that calls of one module break, and compiles one variant at a time."""

    def __init__(self):
        self._hits: dict[tuple, int] = {}
        self._thread: threading.Thread | None = None

    def offer(self, dispatcher: Dispatcher, form: Form, error: DimError, args: tuple, kwargs: dict) -> None:
        """Notes a call that was refused, and starts a compilation if it is worth one."""
        key = (id(form), error.fact, *(error.dims or ()), _lone_size(form, error))
        self._hits[key] = hits = self._hits.get(key, 0) + 1
        is_busy = self._thread is not None and self._thread.is_alive()
        if hits < _HITS or form.is_closed or len(form.entries) > MOST or is_busy:
            return
        self._hits[key] = 0
        given = with_open(dispatcher, form.numbers, args, kwargs)
        copies = pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(), given)
        work = (dispatcher, form, error, *copies)
        self._thread = threading.Thread(target=_compile, args=work, name="disc-variant")
        self._thread.start()

    def wait(self) -> None:
        """Waits for a compilation that runs."""
        if self._thread is not None:
            self._thread.join()


def _lone_size(form: Form, error: DimError) -> int | None:
    """The refused size of a dim that more than one program has fixed; None for other refusals."""
    if error.size is None:
        return None
    (place,) = error.dims or ("",)
    held = [entry.call.signature for entry in form.entries if isinstance(entry, GraphEntry)]
    return error.size if sum(signature.is_fixed(place) for signature in held) > 1 else None


def _compile(dispatcher: Dispatcher, form: Form, error: DimError, args: tuple, kwargs: dict) -> None:
    try:
        # Autocast is a state of the thread.
        before = dispatcher.versions()
        with autocast_state.restored(form.autocast):
            found = _serving(dispatcher, form, error, args, kwargs)
        if not form.watch.holds():
            # It may be a program of what the module was changed to meanwhile.
            return
    except Exception as failed:
        logging.getLogger("disc.compile").info(
            "a variant of %s was not compiled: %s", dispatcher.name, failed
        )
        found = None
    if found is None:
        form.is_closed = True
    elif dispatcher.training is form.training:
        dispatcher.watch_weights(found, before)
        form.entries.append(found)
        form.pass_questions()
        logging.getLogger("disc.compile").info("%s has one more variant: %s", dispatcher.name, error)


def _serving(dispatcher, form: Form, error: DimError, args: tuple, kwargs: dict) -> GraphEntry | None:
    """A new entry that serves the call; None if there is none."""
    for dims in (None, _fixed(form, error, args, kwargs)):
        entry = dispatcher.build(args, kwargs, dims, is_behind=True)
        if not isinstance(entry, GraphEntry):
            return None
        try:
            entry.explain(entry.tensors(args, kwargs))
        except Refused:
            continue
        return entry
    return None


def _fixed(form: Form, error: DimError, args: tuple, kwargs: dict) -> dict[int, dict[int, int]]:
    """``dims`` that fix the sizes that the broken fact is about."""
    first = form.entries[0]
    assert isinstance(first, GraphEntry), "an entry with facts has a graph"
    names, rows = first.call.signature.names, first.call.signature.dims
    asked = set(error.dims or ())
    dims: dict[int, dict[int, int]] = {}
    for i, t in enumerate(first.call.leaves(args, kwargs)):
        for axis, dim in enumerate(rows[i]):
            if dim in asked or f"axis {axis} of {names[i]}" in asked:
                dims.setdefault(i, {})[axis] = t.size(axis)
    # Open numbers are no tensors for those who say something of sizes.
    is_open = [place in first.call.arguments.numbers for place in first.call.arguments.tensors]
    kept = [i for i, it_is in enumerate(is_open) if not it_is]
    return {number: dims[i] for number, i in enumerate(kept) if i in dims}
