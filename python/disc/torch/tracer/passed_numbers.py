"""Records the numbers that calls pass in tensors: the floats of ``.item()``.

Ops hold a number by its symbol, so the node that makes it has no users.
"""

from __future__ import annotations

import torch

from ..symbolic.expressions import symbols_of


class PassedNumbers:
    """The numbers of one trace, and the nodes that make them."""

    def __init__(self, graph: torch.fx.Graph):
        self._graph = graph
        self._nodes: list[torch.fx.Node] = []
        #: By the node of the tensor.
        self.values: dict[torch.fx.Node, torch.SymFloat] = {}

    def add(self, holder: torch.fx.Node, value: torch.SymFloat) -> None:
        """Notes that a call passes a number in the tensor ``holder``."""
        node = self._graph.call_function(torch.ops.aten.item.default, (holder,))
        node.meta["val"] = self.values[holder] = value
        self._nodes.append(node)

    def used_by(self, results) -> set[torch.fx.Node]:
        """The nodes whose number some op, or one of the results, has."""
        if not self._nodes:
            return set()
        used: set = set()
        for node in self._graph.nodes:
            if node not in self._nodes:
                used |= symbols_of(node.args) | symbols_of(node.kwargs) | symbols_of(node.meta.get("val"))
        for result in results:
            used |= symbols_of(result)
        return {node for node in self._nodes if node.meta["val"].node.expr.free_symbols & used}
