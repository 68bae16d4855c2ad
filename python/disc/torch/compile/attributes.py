"""Passes the tensors that a graph of dynamo's holds as attributes as arguments: a parameter that an
optimizer writes is no constant.

Invariant: nothing here holds such a tensor after the compilation. Dynamo takes the states of an
optimizer out of its graph when the optimizer is gone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass
class _Argument:
    """An argument as dynamo describes its own."""

    path: str
    example: torch.Tensor | None
    source: None = None
    pass_arg_as_tensor: bool = False


def lifted(gm: torch.fx.GraphModule) -> tuple[torch.fx.GraphModule, list[torch.Tensor]]:
    """The graph with a placeholder, after its own, for each tensor that it holds; these tensors."""
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
            argument = _Argument(node.target, tensors[node.target])
            placeholders[node.target].meta = {**node.meta, "grapharg": argument}
    for node in held:
        node.replace_all_uses_with(placeholders[node.target])
        graph.erase_node(node)
    return torch.fx.GraphModule(gm, graph), list(tensors.values())


def with_attributes(call: Callable, gm: torch.fx.GraphModule, lifting: torch.fx.GraphModule) -> Callable:
    """``call``, which is that of ``lifting``, with the tensors that ``gm`` holds after its
    arguments.
    """
    if lifting is gm:
        return call
    paths = []
    for node in lifting.graph.nodes:
        argument = node.meta.get("grapharg")
        if isinstance(argument, _Argument):
            paths.append(argument.path)
            argument.example = None
    places = [_place(gm, path) for path in paths]
    return lambda *args: call(*args, *[held[name] for held, name in places])


def _place(gm: torch.fx.GraphModule, path: str) -> tuple[dict, str]:
    """The dictionary of a module that holds a tensor, and its name there."""
    *owners, name = path.split(".")
    owner = _attribute(gm, ".".join(owners)) if owners else gm
    held = (owner._parameters, owner._buffers, vars(owner))
    return next(d for d in held if name in d), name


def _attribute(gm: torch.fx.GraphModule, path: str):
    found = gm
    for name in path.split("."):
        found = getattr(found, name)
    return found


def _is_tensor(gm: torch.fx.GraphModule, node: torch.fx.Node) -> bool:
    return isinstance(_attribute(gm, node.target), torch.Tensor)
