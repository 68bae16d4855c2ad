"""Compiles further programs for calls that break a fact of the first one.

The first call that breaks a fact is torch's; the second one has a variant captured in the
background, with its sizes, while torch serves it. A form has at most ``MOST`` of them.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import torch
from torch.utils import _pytree as pytree

from ...core.errors import DimError, Error
from .entry import CompiledEntry, Refused
from .forms import Form

if TYPE_CHECKING:
    from .dispatcher import Dispatcher

MOST = 4
_HITS = 2


class Variants:
    """Counts the facts that calls of one module break, and compiles variants."""

    def __init__(self):
        self._hits: dict[tuple, int] = {}
        self._threads: list[threading.Thread] = []

    def offer(self, dispatcher: Dispatcher, form: Form, error: DimError, args: tuple, kwargs: dict) -> None:
        """Notes a call that was refused, and starts a compilation if it is worth one."""
        key = (id(form), error.fact, *(error.dims or ()))
        self._hits[key] = hits = self._hits.get(key, 0) + 1
        if (
            hits < _HITS
            or form.is_closed
            or len(form.entries) > MOST
            or any(t.is_alive() for t in self._threads)
        ):
            return
        self._hits[key] = 0
        copies = pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(), (args, kwargs))
        thread = threading.Thread(
            target=_compile, args=(dispatcher, form, error, *copies), name="disc-variant"
        )
        self._threads.append(thread)
        thread.start()

    def wait(self) -> None:
        """Waits for compilations that run."""
        while self._threads:
            self._threads.pop().join()


def _compile(dispatcher: Dispatcher, form: Form, error: DimError, args: tuple, kwargs: dict) -> None:
    log = logging.getLogger("disc")
    try:
        for dims in (None, _fixed(form, error, args, kwargs)):
            entry = dispatcher.build(args, kwargs, dims)
            if not isinstance(entry, CompiledEntry):
                break
            try:
                entry.run(args, kwargs)
            except Refused:
                continue
            form.entries.append(entry)
            return
        form.is_closed = True
    except Error as failed:
        log.info("a variant of %s could not be compiled: %s", dispatcher.name, failed)
        form.is_closed = True


def _fixed(form: Form, error: DimError, args: tuple, kwargs: dict):
    """``dims`` that fix the sizes that the broken fact is about."""
    first = form.entries[0]
    assert isinstance(first, CompiledEntry), "a form with facts was compiled"
    signature, tensors = first.call.signature, first.call.tensors(args, kwargs)
    asked = set(error.dims or ())
    dims: dict[int, dict[int, int]] = {}
    for i, (name, row) in enumerate(zip(signature.names, signature.dims, strict=True)):
        for axis, dim in enumerate(row):
            if dim in asked or f"axis {axis} of {name}" in asked:
                dims.setdefault(i, {})[axis] = tensors[i].size(axis)
    return dims
