"""Writes in place: a graph with ``add_`` and views is read as if every value were new.

Each tensor belongs to a *root* (the tensor that owns the memory) through a chain of views. A write
to a view becomes a new value of its root, made by scattering back through the chain; a view that is
read after such a write is made again.

Graphs without writes cost nothing here. What inputs, parameters and buffers hold in the end is
stored into them (``stored``); a write to another tensor from outside is an error.
"""

from __future__ import annotations

from typing import Any

import torch

from ...core.errors import Error
from ..graph.in_place import functional_name, is_view_in_place, shares_memory, written_arguments
from ..graph.origin import source_line
from . import data_movement, indexing
from .normalization import WRITERS

aten = torch.ops.aten


class Aliases:
    def __init__(self, walk, table: dict):
        self.walk = walk
        self.table = table
        self.active = False
        self.parent: dict[torch.fx.Node, torch.fx.Node] = {}
        self.version: dict[torch.fx.Node, int] = {}
        self.made_at: dict[torch.fx.Node, int] = {}
        #: The inputs, parameters and buffers that were written to, in the order of the first write.
        self.stored: dict[torch.fx.Node, None] = {}
        #: Those of them that were written through an op that copies a strided tensor.
        self.dense: set[torch.fx.Node] = set()

    def enter(self, graph) -> None:
        self.active = self.active or any(written_arguments(n) for n in graph.nodes if n.op == "call_function")

    def entry(self, name: str, node) -> tuple[Any, list[torch.fx.Node]]:
        """The table's entry for a node, and the nodes that it writes to.

        The entry of an op in ``WRITERS`` returns its result and the list of what it writes; that of
        another op that writes returns what it writes to the one node, which is its result.
        """
        self._note_view(node)
        written = written_arguments(node)
        if not written:
            return self.table.get(_entry_name(node, name)), []
        if name in WRITERS:
            return WRITERS[name], written
        if len(written) > 1:
            return None, []
        return self.table.get(name, self.table.get(functional_name(name))), written

    def read(self, node):
        """The value of a node now."""
        values = self.walk.values
        if not self.active or node not in self.parent or self.made_at.get(node) == self._version(node):
            return values[node]
        values[node] = self._again(node)
        self.made_at[node] = self._version(node)
        return values[node]

    def write(self, node, targets, result):
        """The targets get what the op writes; the value is its result."""
        if str(node.target) in WRITERS:
            result, values = result
            for target, value in zip(targets, values, strict=True):
                self._write(node, target, value)
            return result
        (target,) = targets
        result = self._write(node, target, result)
        self.parent[node] = target
        self.made_at[node] = self._version(node)
        return result

    def _write(self, node, target, value):
        old = self.walk.read(target)
        value = self.walk.emitter.convert(value, old.dtype)
        value = self.walk.emitter.expand(value, old.shape)
        self._store(target, value, node)
        return value

    def origin(self, node) -> tuple[torch.fx.Node, bool]:
        """The node that owns the memory of a node; true if both are one tensor in eager mode."""
        is_same = True
        while (above := self.parent.get(node)) is not None:
            is_same &= bool(written_arguments(node)) or node.op == "placeholder"
            node = above
        return node, is_same

    def _store(self, target, value, writer) -> None:
        above = self.parent.get(target)
        if above is None:
            self._note_outside(target, writer)
            self.version[target] = self.version.get(target, 0) + 1
        else:
            self._store(above, self._written_through(target, above, value), writer)
            self.made_at[target] = self._version(target)
        self.walk.values[target] = value

    def _version(self, node) -> int:
        while node in self.parent:
            node = self.parent[node]
        return self.version.get(node, 0)

    def _note_view(self, node) -> None:
        if not self.active or not node.args or not isinstance(node.args[0], torch.fx.Node):
            return
        if not written_arguments(node) and shares_memory(node.args[0], node):
            self.parent[node] = node.args[0]
            self.made_at[node] = self._version(node)

    def _again(self, node):
        """A view of a value that has changed since."""
        above = self.parent[node]
        if written_arguments(node):
            return self.read(above)
        walk, name = self.walk, str(node.target)
        return walk.apply(
            node,
            name,
            self.table[_entry_name(node, name)],
            walk.resolve(node.args),
            walk.resolve(node.kwargs),
        )

    def _written_through(self, node, above, value):
        """The value of ``above`` after its view ``node`` became ``value``."""
        b, walk = self.walk.emitter, self.walk
        whole = walk.read(above)
        target = node.target
        args = walk.resolve(node.args)
        # Of an input, only the part is written.
        in_place = self.origin(above)[0] in self.walk.writable
        if target in _MAY_COPY:
            self.dense.add(self.origin(above)[0])
        if written_arguments(node) or target in _IDENTITIES:
            return b.convert(value, whole.dtype)
        if target is aten.select.int:
            return indexing.select_scatter(b, whole, value, args[1], args[2], in_place=in_place)
        if target is aten.slice.Tensor:
            return indexing.slice_scatter(b, whole, value, *args[1:], in_place=in_place)
        if target in _TRANSPOSES:
            return data_movement.transpose(b, value, *(args[1:] or (0, 1))) if len(whole.shape) > 1 else value
        if target is aten.permute.default:
            order = [d % len(whole.shape) for d in args[1]]
            return b.transpose(value, [order.index(i) for i in range(len(order))])
        if target is aten.diagonal.default:
            return data_movement.diagonal_scatter(b, whole, value, *args[1:], **walk.resolve(node.kwargs))
        if target in _RESHAPES:
            return b.reshape(value, whole.shape)
        raise b.unsupported(
            f"writing in place through {target} is not supported", help="write to the tensor itself"
        )

    def _note_outside(self, node, writer) -> None:
        """Notes a write to an input, a parameter or a buffer; another one outside is refused."""
        within = node in self.walk.given_within
        if node.op != "placeholder" or not (within or node in self.walk.captured.graph.nodes):
            return
        if not within and node in self.walk.writable:
            self.stored.setdefault(node)
            return
        what = (
            "a tensor from outside of a branch, a loop or another region" if within else "a constant tensor"
        )
        if name := self.walk.weight_names.get(node):
            what = f"the parameter or buffer {name}"
        where = f" ({source})" if (source := source_line(writer)) else ""
        raise Error(
            f"the model changes {what} in place{where}, which is not supported yet",
            code="E0405",
            help="clone it before writing, or register it as a buffer",
        )


_IDENTITIES = {
    aten.detach.default,
    aten.alias.default,
    aten.contiguous.default,
    aten.to.dtype,
    aten.lift_fresh.default,
    aten.expand.default,
    aten.requires_grad_.default,
}
#: Views of a contiguous tensor, and maybe copies of another one.
_MAY_COPY = {
    aten.contiguous.default,
    aten.reshape.default,
    aten.flatten.using_ints,
}
_TRANSPOSES = {aten.transpose.int, aten.t.default, aten.transpose_.default, aten.t_.default}
_RESHAPES = {
    aten.view.default,
    aten.reshape.default,
    aten.flatten.using_ints,
    aten.unsqueeze.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.unflatten.int,
    aten.view_as.default,
    aten.unsqueeze_.default,
    aten.squeeze_.default,
    aten.squeeze_.dim,
    aten.squeeze_.dims,
}


def _entry_name(node, name: str) -> str:
    """The name under which the table has a node that writes nothing:
    a view in place is the view.
    """
    return functional_name(name) if is_view_in_place(node) else name
