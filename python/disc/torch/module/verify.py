"""Compares the first calls of a compiled module with eager calls: ``Options(verify=N)``.

The eager call comes first, on copies of the inputs; what it changed (buffers, the state of random
numbers) is put back before the compiled call.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from ..checks.apart import run_apart
from ..checks.compare import compare
from ..checks.quantised_eager import quantised
from ..pytree import kv_caches
from .entry import GraphEntry

if TYPE_CHECKING:
    from .dispatcher import Dispatcher


class Verification:
    """The calls that are still to be compared, and what came of those before."""

    def __init__(self, calls: int):
        self.left = calls
        self.compared = 0
        #: The first call that differed: its number and the difference.
        self.first: dict[str, Any] | None = None
        self._lock = threading.RLock()

    def is_open(self) -> bool:
        return self.left > 0

    def run(self, dispatcher: Dispatcher, args: tuple, kwargs: dict):
        """A compiled call, compared with an eager one."""
        with self._lock:
            self.left -= 1
            self.compared += 1
            with as_compiled(dispatcher, args, kwargs):
                expected = run_apart(dispatcher.original(), dispatcher.original(), args, kwargs, [])
            result = dispatcher.run_form(args, kwargs)
            leaves, _ = kv_caches.flatten((args, kwargs))
            inputs = [x for x in leaves if isinstance(x, torch.Tensor)]
            buffers = [t for _, t in dispatcher.original().named_buffers()]
            difference = compare(
                [*pytree.tree_leaves(result), *inputs, *buffers], expected, dispatcher.options
            )
            if difference.first_difference is not None and self.first is None:
                first = difference.first_difference
                self.first = {"call": self.compared, "output": first.output, "reason": first.reason}
            return result

    def to_dict(self) -> dict[str, Any]:
        return {"compared": self.compared, "first_difference": self.first}


def as_compiled(dispatcher: Dispatcher, args: tuple, kwargs: dict) -> AbstractContextManager:
    """Within it the original has its weights in the form that the code of a call has them in."""
    options = dispatcher.options
    if options.weights == "exact" or not dispatcher.is_compiled(args, kwargs):
        return nullcontext()
    original, changed = dispatcher.original(), dispatcher.changed()
    named = [*original.named_parameters(), *original.named_buffers()]
    entries = dispatcher.entries()
    if all(isinstance(entry, GraphEntry) for entry in entries):
        # What torch runs between compiled parts reads other weights, which are exact.
        named = [(name, t) for name, t in named if dispatcher.reads(t.untyped_storage().data_ptr())]
    return quantised(options, [t for name, t in named if name not in changed])
