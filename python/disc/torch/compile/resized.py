"""Gives the results of a graph memory that can be resized, where the op of PyTorch that follows the
graph resizes a tensor: memory of compiled code cannot grow.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import torch

#: Dynamo's reasons to end a graph before such an op.
_RESIZES = re.compile(r"\bout=|\bout variants|\bresize_")


def with_resizable_results(call: Callable, gm: torch.fx.GraphModule) -> Callable:
    """``call``, the function of ``gm``, whose results can be resized if dynamo ended ``gm`` at an
    op that does so.
    """
    broken = getattr(gm, "compile_subgraph_reason", None)
    if broken is None or not broken.graph_break or not _RESIZES.search(broken.reason):
        return call
    return lambda *args: _resizable(call(*args), args)


def _resizable(results, args: tuple):
    """The results with copies of the memory that cannot be resized; those that share memory do so
    afterwards.
    """
    given = {arg.untyped_storage()._cdata for arg in args if _is_plain(arg)}
    storages: dict[int, torch.UntypedStorage] = {}
    tensors: dict[int, torch.Tensor] = {}
    for result in results:
        # PyTorch resizes no tensor that requires a gradient.
        if not _is_plain(result) or result.requires_grad:
            continue
        storage = result.untyped_storage()
        if storage._cdata in given or storage.resizable():
            continue
        copied = storages.setdefault(storage._cdata, storage.clone())
        made = torch.empty(0, dtype=result.dtype, device=result.device)
        layout = result.storage_offset(), result.size(), result.stride()
        tensors[id(result)] = made.set_(copied, *layout)
    return type(results)(tensors.get(id(result), result) for result in results)


def _is_plain(value) -> bool:
    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout == torch.strided
