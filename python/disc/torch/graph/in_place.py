"""Tells which tensors a node writes to, and which nodes share memory."""

from __future__ import annotations

import torch

aten = torch.ops.aten


_NOT_WRITES = {aten.detach_.default, aten.requires_grad_.default}
#: The positions of the running statistics, which these write where the argument after them is true,
#: whatever their schema says.
_STATISTICS = {
    aten.batch_norm.default: (3, 4),
    aten.instance_norm.default: (3, 4),
    aten.native_batch_norm.default: (3, 4),
    aten._native_batch_norm_legit.default: (3, 4),
}
#: Frees or allocates the memory of its first argument: a write that its schema does not declare.
RESIZES_MEMORY = torch.ops.inductor.resize_storage_bytes_.default


def written_arguments(node) -> list[torch.fx.Node]:
    """The tensors that the op of a node writes to."""
    if node.target in _STATISTICS:
        mean, var = _STATISTICS[node.target]
        held = [node.args[i] for i in (mean, var) if isinstance(node.args[i], torch.fx.Node)]
        return held if node.args[var + 1] else []
    if node.target is RESIZES_MEMORY:
        return [node.args[0]]
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable or node.target in _NOT_WRITES or is_view_in_place(node):
        return []
    found = []
    for i, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
            # Ops of ``_foreach`` write to the tensors of a list.
            several = given if isinstance(given, (list, tuple)) else [given]
            found += [one for one in several if isinstance(one, torch.fx.Node)]
    return found


def is_view_in_place(node) -> bool:
    """``unsqueeze_`` and its kin write no element: what they return is a view,
    and nobody names their argument afterwards.
    """
    return torch.Tag.inplace_view in getattr(node.target, "tags", ())


def functional_name(name: str) -> str:
    """``aten.add_.Tensor`` writes what ``aten.add.Tensor`` computes."""
    space, op, overload = name.split(".")
    name = f"{space}.{op.removesuffix('_')}.{overload}"
    return "aten.transpose.int" if name == "aten.transpose.default" else name


def shares_memory(a: torch.fx.Node, b: torch.fx.Node) -> bool:
    if "root" in a.meta and "root" in b.meta:
        return a.meta["root"] is b.meta["root"]
    x, y = a.meta.get("val"), b.meta.get("val")
    if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
        return False
    return x.untyped_storage()._cdata == y.untyped_storage()._cdata
