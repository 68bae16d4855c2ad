"""Weights whose memory is about to move: compiled code reads them where they lie.

``share_memory_`` (also by ``torch.multiprocessing``, which sends tensors that way) and ``resize_`` of a storage give the
storage other memory and free what it had; no reference to a tensor prevents that. So each compiled module is told before, and
takes copies.

Not here: changes of values, which ``refresh`` reads; ``resize_`` of a tensor.
Invariant: torch's own functions run afterwards with the arguments that they were given.
"""

from __future__ import annotations

import functools
import weakref

import torch

_MOVING = ("_share_fd_cpu_", "_share_filename_cpu_", "resize_")
_modules: weakref.WeakSet = weakref.WeakSet()


def watch(module) -> None:
    """``module.before_move(storage)`` is called before the memory of any storage moves, as long as ``module`` lives."""
    _intercept()
    _modules.add(module)


@functools.cache
def _intercept() -> None:
    for name in _MOVING:
        if (moves := getattr(torch.UntypedStorage, name, None)) is not None:
            setattr(torch.UntypedStorage, name, _announced(moves))


def _announced(moves):
    @functools.wraps(moves)
    def announce(self, *args, **kwargs):
        if self.device.type == "cpu" and not self.is_shared():
            for module in list(_modules):
                module.before_move(self)
        return moves(self, *args, **kwargs)

    return announce
