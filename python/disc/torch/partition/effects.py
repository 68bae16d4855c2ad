"""Finds what orders the nodes of a graph besides the values that they pass:
writes in place, random numbers, and checks that may raise.

A *family* is the nodes that share the memory of one tensor: its maker and the views of it.

Invariants:

- random numbers are drawn in program order, so that a seed gives what eager mode gives;
- a read comes before the writes that follow it in the program, and after those before it.
"""

from __future__ import annotations

from collections import defaultdict

import torch

from ..graph.in_place import written_arguments
from ..graph.randomness import draws

_SHARES = "it shares memory with a tensor that is written in place"


def raises(node: torch.fx.Node) -> bool:
    """Returns true if a node is there for the error that it may raise."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and not schema.returns


def family_of(node: torch.fx.Node):
    """Identifies the memory of a node's result; None if it is no tensor."""
    if (root := node.meta.get("root")) is not None:
        return root
    val = node.meta.get("val")
    return val.untyped_storage()._cdata if isinstance(val, torch.Tensor) else None


def is_view_of_argument(node: torch.fx.Node) -> bool:
    """Returns true if the result of a node shares memory with one of its arguments."""
    family = family_of(node)
    return (
        family is not None
        and family is not node
        and any(family_of(n) == family for n in node.all_input_nodes)
    )


class Families:
    """The families of a graph that are written to."""

    def __init__(self, graph: torch.fx.Graph):
        self._calls = [node for node in graph.nodes if node.op == "call_function"]
        self.written: set = set()
        self.members: dict = defaultdict(list)
        for node in self._calls:
            self.written |= {family_of(target) for target in written_arguments(node)}
        for node in graph.nodes:
            if (family := family_of(node)) in self.written:
                self.members[family].append(node)

    def outside(self) -> dict[torch.fx.Node, str]:
        """Nodes that torch has to run, since they write to inputs and weights,
        or are views of what is written.
        """
        held = {family for family, members in self.members.items() if members[0].op == "placeholder"}
        left = {}
        for node in self._calls:
            if any(family_of(target) in held for target in written_arguments(node)):
                left[node] = "it writes to a tensor in place"
            elif family_of(node) in held:
                left[node] = _SHARES
        return left

    def divided(self, part_of) -> dict[torch.fx.Node, str]:
        """The views and writers of families of which not all nodes are in one part."""
        left = {}
        for members in self.members.values():
            parts = {part_of(node) for node in members}
            if len(parts) > 1:
                left |= dict.fromkeys(members[1:], _SHARES)
        return left


def followed(nodes: list[torch.fx.Node], families: Families) -> dict[torch.fx.Node, set[torch.fx.Node]]:
    """The nodes that each node has to follow, besides those that it reads."""
    found: dict[torch.fx.Node, set[torch.fx.Node]] = defaultdict(set)
    last_draw = last_check = None
    writer: dict = {}
    touched: dict = defaultdict(set)
    for node in nodes:
        if draws(node):
            if last_draw is not None:
                found[node].add(last_draw)
            last_draw = node
        if raises(node):
            if last_check is not None:
                found[node].add(last_check)
            last_check = node
        written = {family_of(target) for target in written_arguments(node)}
        read = {family_of(source) for source in node.all_input_nodes} | {family_of(node)}
        for family in (read | written) & families.written:
            if family in writer:
                found[node].add(writer[family])
            if family in written:
                found[node] |= touched.pop(family, set())
                writer[family] = node
            else:
                touched[family].add(node)
        found[node].discard(node)
    return found
