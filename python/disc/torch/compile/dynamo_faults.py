"""Corrects what dynamo traces wrongly for every backend, while it traces for disc.

- Under a transform of ``torch.func`` dynamo replaces a custom ``autograd.Function`` by its
  ``forward``, so that the gradient is not that of its ``backward``. Here it is a graph break: the
  transform runs in PyTorch.
- ``round(n, -1)`` of a size is the size itself.

Both replace a method of torch for the process, since dynamo has no place for a backend to say so.
Invariant: traces for other backends run what was replaced, unchanged.
"""

from __future__ import annotations

import functools
import os
import threading

import torch
from torch._dynamo.exc import Unsupported
from torch._dynamo.symbolic_convert import InstructionTranslator
from torch._dynamo.variables.misc import AutogradFunctionVariable
from torch._guards import TracingContext

from ..overrides.arithmetic import rounded_size
from . import registry

_lock = threading.Lock()
_is_corrected = False


def correct() -> None:
    """Puts the corrections in place, once for the process."""
    global _is_corrected
    with _lock:
        if not _is_corrected:
            _is_corrected = True
            plain = AutogradFunctionVariable.call_apply
            AutogradFunctionVariable.call_apply = _broken_under_transforms(plain)
            torch.SymInt.__round__ = _rounded(torch.SymInt.__round__)


def for_disc(backend):
    """Marks a backend of dynamo's as one of disc. The owner of a method has ``note_break``."""
    backend.is_of_disc = True
    return backend


def _backend_of_disc():
    """The backend that dynamo traces for in this thread, if it is one of disc."""
    try:
        compiler = InstructionTranslator.current_tx().output.compiler_fn
    except AttributeError:
        # Dynamo traces nothing in this thread.
        return None
    compiler = getattr(compiler, "compiler_fn", compiler)
    return compiler if getattr(compiler, "is_of_disc", False) else None


def _broken_under_transforms(plain):
    @functools.wraps(plain)
    def call_apply(self, tx, args, kwargs):
        is_under_transform = torch._C._functorch.peek_interpreter_stack() is not None
        backend = _backend_of_disc() if is_under_transform else None
        if backend is not None:
            reason = (
                f"dynamo leaves out the backward of {self.fn_cls.__name__} under a transform of torch.func"
            )
            frame = TracingContext.extract_stack()[-1]
            source = f"{os.path.basename(frame.filename)}:{frame.lineno}"
            getattr(backend, "__self__", registry).note_break({"reason": reason, "source": source})
            raise Unsupported(reason)
        return plain(self, tx, args, kwargs)

    return call_apply


def _rounded(plain):
    @functools.wraps(plain)
    def rounded(self, ndigits=None):
        return rounded_size(self, ndigits) if _backend_of_disc() is not None else plain(self, ndigits)

    return rounded
