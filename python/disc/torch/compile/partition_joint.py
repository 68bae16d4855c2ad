"""Divides a joint graph into its forward and its backward part."""

from __future__ import annotations

import torch
import torch._functorch.config as functorch
from functorch.compile import min_cut_rematerialization_partition
from torch.utils.checkpoint import CheckpointPolicy

from ..graph.randomness import draws

aten = torch.ops.aten
#: Their gradients go where an element equals the result: a value that another kernel computes
#: again may differ in its last bit, and would get none.
_COMPARED = frozenset((aten.amax.default, aten.amin.default, aten.max.default, aten.min.default))


def partition(joint: torch.fx.GraphModule, inputs, **kwargs) -> tuple:
    """The forward and the backward part, which save as few bytes as may be, and compute again what
    costs little; and why ``activation_memory_budget`` is not honoured, if it is not.
    """
    nodes = [node for node in joint.graph.nodes if node.op == "call_function"]
    for node in nodes:
        if node.target in _COMPARED:
            for held in (node, *node.all_input_nodes):
                if held.op == "call_function":
                    held.meta.setdefault("recompute", CheckpointPolicy.MUST_SAVE)
    if functorch.activation_memory_budget < 1 and any(map(draws, nodes)):
        # A number that is drawn again in the backward part is another one: a CPU's generator goes
        # on meanwhile.
        with functorch.patch(activation_memory_budget=1.0):
            parts = min_cut_rematerialization_partition(joint, inputs, **kwargs)
        return *parts, "activation_memory_budget is 1 in graphs that draw random numbers"
    return *min_cut_rematerialization_partition(joint, inputs, **kwargs), None
