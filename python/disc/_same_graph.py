"""Whether a graph captured at concrete sizes is the symbolic graph with these sizes put in.

Shape arithmetic may differ (a concrete graph has none), and so may ops that change nothing at these sizes (an expand to the
same sizes, a slice of everything); every other op and every argument must agree.
"""

from __future__ import annotations

import sympy
import torch

aten = torch.ops.aten
_SCALARS = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)
_IDENTITY_WHEN_SHAPE_KEEPS = {
    aten.slice.Tensor,
    aten.expand.default,
    aten.view.default,
    aten.reshape.default,
    aten.contiguous.default,
    aten.alias.default,
}


class _Match:
    def __init__(self, values: dict):
        self.values = {s: sympy.Integer(v) for s, v in values.items()}
        self.pairs: dict[torch.fx.Node, torch.fx.Node] = {}
        self.same_as: dict[torch.fx.Node, torch.fx.Node] = {}

    def ops(self, graph) -> list[torch.fx.Node]:
        kept = []
        for n in graph.nodes:
            if isinstance(n.meta.get("val"), _SCALARS) or (
                n.op == "call_function" and "assert" in str(n.target)
            ):
                continue
            if n.target in _IDENTITY_WHEN_SHAPE_KEEPS and self.shape(n) == self.shape(n.args[0]):
                self.same_as[n] = self.root(n.args[0])
            else:
                kept.append(n)
        return kept

    def root(self, node):
        return self.same_as.get(node, node)

    def shape(self, node) -> tuple:
        return tuple(self.number(size) for size in node.meta["val"].shape)

    def number(self, x):
        val = x.meta.get("val") if isinstance(x, torch.fx.Node) else x
        if isinstance(val, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            expr = val.node.expr.xreplace(self.values)
            return float(expr) if isinstance(expr, sympy.Basic) and expr.is_number else expr
        return float(val) if isinstance(val, (int, float)) and not isinstance(val, bool) else val

    def equal(self, x, y) -> bool:
        if isinstance(x, torch.fx.Node) and self.root(x) in self.pairs:
            return isinstance(y, torch.fx.Node) and self.pairs[self.root(x)] is self.root(y)
        if isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
            return len(x) == len(y) and all(self.equal(p, q) for p, q in zip(x, y, strict=True))
        if isinstance(x, dict) and isinstance(y, dict):
            return x.keys() == y.keys() and all(self.equal(x[k], y[k]) for k in x)
        return self.number(x) == self.number(y)


def same_graph(symbolic: torch.fx.Graph, concrete: torch.fx.Graph, values: dict) -> bool:
    """``values`` binds every symbol of ``symbolic`` to the size it has in ``concrete``."""
    match = _Match(values)
    a, b = match.ops(symbolic), match.ops(concrete)
    if len(a) != len(b):
        return False
    for x, y in zip(a, b, strict=True):
        if x.op != y.op or (x.op in ("call_function", "get_attr") and x.target != y.target):
            return False
        if not match.equal(x.args, y.args) or not match.equal(_keywords(x, y), _keywords(y, y)):
            return False
        match.pairs[x] = y
    return True


def _keywords(node, concrete) -> dict:
    """One query and one key: a causal mask hides nothing, so ``is_causal`` does not matter."""
    if node.target is aten.scaled_dot_product_attention.default:
        query, key = (concrete.args[i].meta["val"].shape[-2] for i in (0, 1))
        if query == key and query <= 1:
            return {k: v for k, v in node.kwargs.items() if k != "is_causal"}
    return node.kwargs
