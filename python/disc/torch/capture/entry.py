"""Calls a module with flat tensors, as tracers do, and records what one such call met.

Not here: tracers, and the choice of sizes (``capture``).
"""

from __future__ import annotations

import contextlib

import torch
from torch.utils import _pytree as pytree

from ..graph.changes import Change
from ..graph.moved_tensors import Layouts
from ..pytree import given_caches, kv_caches
from ..pytree.arguments import Arguments
from . import side_effects
from .argument_containers import ArgumentContainers
from .function_caches import FunctionCaches


class Seen:
    """Records what one trace met."""

    def __init__(self):
        self.shapes: list[tuple] = []
        self.changes: list[Change] = []
        #: The buffers that were assigned anew; their values are after the results.
        self.assigned: list[str] = []
        self.out_spec: pytree.TreeSpec | None = None
        self.returned_caches: tuple[int | None, ...] = ()
        #: The inputs that became other tensors in place.
        self.moved: list[int] = []


class Entry(torch.nn.Module):
    """The module with flat tensor arguments: other leaves of the call are constants."""

    def __init__(self, module: torch.nn.Module, arguments: Arguments, caches: FunctionCaches):
        super().__init__()
        self.module = module
        self.arguments = arguments
        self.caches = caches
        self.training = module.training
        self.seen = Seen()
        #: Makes what the module is called in.
        self.within = contextlib.nullcontext

    def __call__(self, *tensors):
        """``forward``: hooks of all modules are for those of the user."""
        return self.forward(*tensors)

    def forward(self, *tensors):
        self.seen.shapes = [tuple(t.shape) for t in tensors]
        layouts = Layouts(tensors)
        args, kwargs, values = self.arguments.rebuild_all(tensors)
        held = self.arguments.held
        replaced = held.replaced(values) if held is not None else contextlib.nullcontext()
        watched, given = given_caches.Watched((args, kwargs)), ArgumentContainers(args, kwargs)
        states = side_effects.as_it_was(self.module)
        with self.caches.without_fakes(), self.within(), replaced, states as self.seen.changes:
            result = self.module(*args, **kwargs)
        self.seen.moved = layouts.moved()
        given.refuse_changed(self.module)
        self.seen.returned_caches = watched.returned(result)
        leaves, self.seen.out_spec = kv_caches.flatten(result)
        assigned = [c for c in self.seen.changes if side_effects.is_assigned(c)]
        self.seen.assigned = [c.name for c in assigned]
        return (*leaves, *(c.now for c in assigned))
