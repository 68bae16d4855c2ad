"""Writes in place: a graph with ``add_`` and views is read as if every value were new.

Each tensor belongs to a *root* (the tensor that owns the memory) through a chain of views. A write
to a view becomes a new value of its root, made by scattering back through the chain; a view that is
read after such a write is made again.

Graphs without writes cost nothing here. Writes to inputs, parameters and buffers are an error: they
would be seen outside.
"""

from __future__ import annotations

from typing import Any

import torch

from ...core.errors import Error
from ..graph.in_place import functional_name, is_view_in_place, shares_memory, written_arguments
from ..graph.origin import source_line
from . import data_movement, indexing

aten = torch.ops.aten


class Aliases:
    def __init__(self, walk, table: dict):
        self.walk = walk
        self.table = table
        self.active = False
        self.parent: dict[torch.fx.Node, torch.fx.Node] = {}
        self.version: dict[torch.fx.Node, int] = {}
        self.made_at: dict[torch.fx.Node, int] = {}

    def enter(self, graph) -> None:
        self.active = self.active or any(written_arguments(n) for n in graph.nodes if n.op == "call_function")

    def entry(self, name: str, node) -> tuple[Any, torch.fx.Node | None]:
        """The table's entry for a node and, for an op that writes, the node that it writes to."""
        self._note_view(node)
        written = written_arguments(node)
        if not written:
            return self.table.get(_entry_name(node, name)), None
        if len(written) > 1:
            return None, None
        return self.table.get(functional_name(name), self.table.get(name)), written[0]

    def read(self, node):
        """The value of a node now."""
        values = self.walk.values
        if not self.active or node not in self.parent or self.made_at.get(node) == self._version(node):
            return values[node]
        values[node] = self._again(node)
        self.made_at[node] = self._version(node)
        return values[node]

    def write(self, node, target, result):
        """``target`` gets the value ``result``, which the op also returns."""
        b, walk = self.walk.emitter, self.walk
        old = walk.read(target)
        result = b.expand(b.convert(result, old.dtype), old.shape)
        self._store(target, result, node)
        self.parent[node] = target
        self.made_at[node] = self._version(node)
        return result

    def _store(self, target, value, writer) -> None:
        above = self.parent.get(target)
        if above is None:
            self._refuse_outside(target, writer)
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
        if written_arguments(node) or target in _IDENTITIES:
            return b.convert(value, whole.dtype)
        if target is aten.select.int:
            return indexing.select_scatter(b, whole, value, args[1], args[2])
        if target is aten.slice.Tensor:
            return indexing.slice_scatter(b, whole, value, *args[1:])
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

    def _refuse_outside(self, node, writer) -> None:
        within = node in self.walk.given_within
        if node.op != "placeholder" or not (within or node in self.walk.captured.graph.nodes):
            return
        what, cure = f"the tensor {node.name}", "clone it before writing"
        if within:
            what = "a tensor from outside of a branch, a loop or another region"
        if name := self.walk.weight_names.get(node):
            what, cure = f"the parameter or buffer {name}", f"{cure}, or call module.eval() if it is training"
        elif node in (inputs := self.walk.captured.inputs):
            what = f"the input {self.walk.captured.arguments.tensor_names[inputs.index(node)]}"
        where = f" ({source})" if (source := source_line(writer)) else ""
        raise Error(
            f"the model changes {what} in place{where}, which is not supported yet", code="E0405", help=cure
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
