"""Compares two graphs of one model with sizes put in:
one was captured with more symbols than the other.

Shape arithmetic may differ (a concrete size needs none), and so may ops that change nothing at
these sizes (an expand to the same sizes, a slice of everything); every other op and every argument
must agree.
"""

from __future__ import annotations

import sympy
import torch

from ..graph.exported import Traced
from ..symbolic.expressions import SYMBOLIC

aten = torch.ops.aten
_SCALARS = (int, float, bool, *SYMBOLIC)
_IDENTITY_WHEN_SHAPE_KEEPS = {
    aten.slice.Tensor,
    aten.expand.default,
    aten.view.default,
    aten.reshape.default,
    aten.contiguous.default,
    aten.alias.default,
}


class _Match:
    def __init__(self, first: torch.fx.Graph, values: dict, second: torch.fx.Graph, second_values: dict):
        self.first, self.second = first, second
        #: Of each graph: two symbols of one name need not be one size.
        self.values = {
            graph: {s: sympy.Integer(v) for s, v in sizes.items()}
            for graph, sizes in ((first, values), (second, second_values))
        }
        self.pairs: dict[torch.fx.Node, torch.fx.Node] = {}
        self.same_as: dict[torch.fx.Node, torch.fx.Node] = {}

    def ops(self, graph) -> list[torch.fx.Node]:
        kept = []
        for n in graph.nodes:
            if isinstance(n.meta.get("val"), _SCALARS) or (
                n.op == "call_function" and "assert" in str(n.target)
            ):
                continue
            if n.target in _IDENTITY_WHEN_SHAPE_KEEPS and self.shape(n, graph) == self.shape(
                n.args[0], graph
            ):
                self.same_as[n] = self.root(n.args[0])
            else:
                kept.append(n)
        return kept

    def root(self, node):
        return self.same_as.get(node, node)

    def shape(self, node, graph) -> tuple:
        return tuple(self.number(size, graph) for size in node.meta["val"].shape)

    def number(self, x, graph):
        val = x.meta.get("val") if isinstance(x, torch.fx.Node) else x
        if isinstance(val, SYMBOLIC):
            expr = val.node.expr.xreplace(self.values[graph])
            return float(expr) if isinstance(expr, sympy.Basic) and expr.is_number else expr
        return float(val) if isinstance(val, (int, float)) and not isinstance(val, bool) else val

    def equal(self, x, y) -> bool:
        if isinstance(x, torch.fx.Node) and self.root(x) in self.pairs:
            return isinstance(y, torch.fx.Node) and self.pairs[self.root(x)] is self.root(y)
        if isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
            return len(x) == len(y) and all(self.equal(p, q) for p, q in zip(x, y, strict=True))
        if isinstance(x, dict) and isinstance(y, dict):
            return x.keys() == y.keys() and all(self.equal(x[k], y[k]) for k in x)
        return self.number(x, self.first) == self.number(y, self.second)

    def keywords(self, node, second) -> dict:
        """One query and one key: a causal mask hides nothing, so ``is_causal`` does not matter."""
        if node.target is aten.scaled_dot_product_attention.default:
            shapes = (self.shape(second.args[i], self.second) for i in (0, 1))
            query, key = (shape[-2] for shape in shapes)
            if query == key and query <= 1:
                return {k: v for k, v in node.kwargs.items() if k != "is_causal"}
        return node.kwargs


def same_graph(first: Traced, second: Traced, values: dict, second_values: dict) -> bool:
    """``values`` binds every symbol of ``first`` to a size,
    ``second_values`` those of ``second``.
    """
    match = _Match(first.graph, values, second.graph, second_values)
    a, b = match.ops(first.graph), match.ops(second.graph)
    if len(a) != len(b):
        return False
    outside = [_outside(first), _outside(second)]
    for x, y in zip(a, b, strict=True):
        if x.op != y.op or (x.op in ("call_function", "get_attr") and x.target != y.target):
            return False
        if x.op == "placeholder" and not _one_outsider(outside[0].get(x), outside[1].get(y)):
            return False
        if not match.equal(x.args, y.args) or not match.equal(match.keywords(x, y), match.keywords(y, y)):
            return False
        match.pairs[x] = y
    return True


def _outside(traced: Traced) -> dict[torch.fx.Node, object]:
    """The meaning of each placeholder: the place of an input, the name of a weight, a constant."""
    found: dict[torch.fx.Node, object] = {node: i for i, node in enumerate(traced.inputs)}
    found |= {node: name for node, name, _ in traced.weights}
    return found | dict(traced.constants)


def _one_outsider(x, y) -> bool:
    if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
        return x.dtype == y.dtype and torch.equal(x, y)
    return type(x) is type(y) and x == y
