"""Finds the weights of a module, and keeps compiled code right when their memory moves:
it reads them in place.

``share_memory_`` (also by ``torch.multiprocessing``, which sends tensors that way) and ``resize_``
of a storage give the storage other memory and free what it had; no reference to a tensor prevents
that. So each compiled module is told before, and takes copies.

Not here: changes of values, which ``refresh`` reads; ``resize_`` of a tensor.
Invariant: torch's own functions run afterwards with the arguments that they were given.
"""

from __future__ import annotations

import functools
import weakref

import torch

from ...core.errors import Error
from ...core.options import Options
from ..graph.weight_names import find

_MOVING = ("_share_fd_cpu_", "_share_filename_cpu_", "resize_")
_modules: weakref.WeakSet = weakref.WeakSet()


def watch(module) -> None:
    """``module.before_move(storage)`` is called before the memory of any storage moves,
    as long as ``module`` lives.
    """
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
        # That of a GPU counts as shared: only ``resize_`` moves it. Meta tensors have none.
        kind = self.device.type
        if kind == "cuda" or (kind == "cpu" and not self.is_shared()):
            for module in list(_modules):
                module.before_move(self)
        return moves(self, *args, **kwargs)

    return announce


#: Bytes of a stored weight, of four.
_STORED = {"exact": 4, "bf16": 2, "int8": 1, "int4": 0.5}


def prepared_bytes(module: torch.nn.Module, options: Options) -> int:
    """About how much memory prepared weights will take: those of matrices and kernels,
    not tables that are looked up.
    """
    tables = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    looked_up = {id(m.weight) for m in module.modules() if isinstance(m, tables)}
    found = {
        id(p): p.numel() * min(p.element_size(), _STORED[options.weights])
        for p in module.parameters()
        if not isinstance(p, torch.nn.parameter.UninitializedTensorMixin)
        and p.dim() > 1
        and id(p) not in looked_up
    }
    return int(sum(found.values()))


def find_weight(module: torch.nn.Module, name: str) -> torch.Tensor:
    if (found := find(module, name)) is None:
        raise Error(f"weight {name} is gone from the module", help="optimize the changed module")
    return found
