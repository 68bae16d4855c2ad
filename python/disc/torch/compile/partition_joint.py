"""Divides a joint graph into its forward and its backward part."""

from __future__ import annotations

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch.utils.checkpoint import CheckpointPolicy

aten = torch.ops.aten
#: Their gradients go where an element equals the result: a value that another kernel computes
#: again may differ in its last bit, and would get none.
_COMPARED = frozenset(
    (
        aten.amax.default,
        aten.amin.default,
        aten.max.default,
        aten.min.default,
    )
)


def partition(joint: torch.fx.GraphModule, inputs, **kwargs):
    """Divides by the least memory that is saved, and what costs little is computed again."""
    for node in joint.graph.nodes:
        if node.target in _COMPARED:
            for held in (node, *node.all_input_nodes):
                if held.op == "call_function":
                    held.meta.setdefault("recompute", CheckpointPolicy.MUST_SAVE)
    return min_cut_rematerialization_partition(joint, inputs, **kwargs)
