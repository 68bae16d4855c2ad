"""Passes the tensors that a graph of dynamo's holds as attributes as arguments: a parameter that an
optimizer writes is no constant.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass
class _Argument:
    """An argument as dynamo describes its own."""

    example: torch.Tensor
    source: None = None
    pass_arg_as_tensor: bool = False


def lifted(gm: torch.fx.GraphModule) -> tuple[torch.fx.GraphModule, list[torch.Tensor]]:
    """The graph with a placeholder behind its own for each tensor that it holds; these tensors."""
    held = [node for node in gm.graph.nodes if node.op == "get_attr" and _is_tensor(gm, node)]
    if not held:
        return gm, []
    graph = copy.deepcopy(gm.graph)
    held = [node for node in graph.nodes if node.op == "get_attr" and _is_tensor(gm, node)]
    first = next(node for node in graph.nodes if node.op != "placeholder")
    tensors = {node.target: _attribute(gm, node.target) for node in held}
    placeholders = {}
    for node in held:
        if node.target not in placeholders:
            with graph.inserting_before(first):
                placeholders[node.target] = graph.placeholder(node.name)
            argument = _Argument(tensors[node.target])
            placeholders[node.target].meta = {**node.meta, "grapharg": argument}
    for node in held:
        node.replace_all_uses_with(placeholders[node.target])
        graph.erase_node(node)
    return torch.fx.GraphModule(gm, graph), list(tensors.values())


def with_attributes(call: Callable, tensors: list[torch.Tensor]) -> Callable:
    """``call`` with ``tensors`` behind its arguments."""
    if not tensors:
        return call
    return lambda *args: call(*args, *tensors)


def _attribute(gm: torch.fx.GraphModule, path: str):
    found = gm
    for name in path.split("."):
        found = getattr(found, name)
    return found


def _is_tensor(gm: torch.fx.GraphModule, node: torch.fx.Node) -> bool:
    return isinstance(_attribute(gm, node.target), torch.Tensor)
