"""Finds the tensors from outside of a module that it makes other tensors in place: of another
shape (``x.t_()``), of other memory (``x.data = y``), one that requires a gradient.

Programs store values into what they are given, and change nothing else of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...core.errors import Error
from .in_place import is_view_in_place
from .origin import source_line


class Layouts:
    """The shapes, strides and memory of tensors, as they were when this was made."""

    def __init__(self, tensors: Sequence[torch.Tensor]):
        self._tensors = tensors
        #: With the memory itself, whose address nobody else gets then.
        self._before = [_layout(t) for t in tensors]

    def moved(self) -> list[int]:
        """The positions of the tensors that are others now."""
        pairs = enumerate(zip(self._tensors, self._before, strict=True))
        return [i for i, (t, before) in pairs if _plain(_layout(t)) != _plain(before)]


def _layout(t: torch.Tensor) -> tuple:
    # Modes around a capture note who asks for memory, by which code reads values.
    with torch._C.DisableTorchFunction():
        memory = t.untyped_storage()
        return (t.dim(), *t.shape, *t.stride(), t.storage_offset(), t.requires_grad, memory)


def _plain(layout: tuple) -> list:
    """A layout as what is known of its sizes now: a comparison of sizes themselves would be a
    condition on them.
    """
    *numbers, memory = layout
    return [*(x.node.expr if isinstance(x, torch.SymInt) else x for x in numbers), memory._cdata]


def moved_in_place(graph: torch.fx.Graph) -> dict[torch.fx.Node, torch.fx.Node]:
    """The placeholders whose shape an op changes in place, and that op."""
    own: dict[torch.fx.Node, torch.fx.Node] = {}
    found: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in graph.nodes:
        if node.op == "placeholder":
            own[node] = node
        elif is_view_in_place(node) and node.args[0] in own:
            # Ops that follow take its result for the tensor.
            own[node] = own[node.args[0]]
            found.setdefault(own[node], node)
    return found


def refusal_of_moved(name: str, writer: torch.fx.Node | None = None) -> Error:
    """The error of a module that changes the tensor ``name``."""
    where = f" ({source})" if writer is not None and (source := source_line(writer)) else ""
    return Error(
        f"the model changes the shape, the memory or the need of a gradient of {name} in place{where}",
        code="E0405",
        help="make a tensor of its own: x.t() for x.t_(), x = y for x.data = y",
    )
