"""``torch.cond`` and ``while_loop``: branches and loops of the compiler.

Their graphs become regions, which see the values around them. What a region binds (sizes from data,
numbers out of tensors) is known only within it; results have sizes that are known before it.
"""

from __future__ import annotations

import torch

from ...lowering.emitter import MISSING, Number
from ..symbolic.expressions import SYMBOLIC
from .promotion import name_of


def _cond(walk, node):
    """Computes the side that the condition chooses."""
    condition, *sides, given = node.args
    given = [walk.given(value) for value in given]
    condition, b = walk.resolve(condition), walk.emitter
    if isinstance(condition, bool):
        return walk.run_inner(sides[0 if condition else 1], given)
    wanted = [_type(b, val) for val in node.meta["val"]]

    def results(side):
        def emit():
            with b.region():
                return _typed(b, walk.run_inner(side, given), wanted)

        return emit

    condition = b.full(False, [], "i1") if condition is MISSING else b.reshape(b.lift(condition, "i1"), [])
    return _outside(walk, node, b.branch(condition, [results(side) for side in sides]))


def _while_loop(walk, node):
    """Computes the body as long as the condition holds; what is carried keeps its shapes."""
    more, step, carried, given = node.args
    given = [walk.given(value) for value in given]
    carried, b = [walk.given(value) for value in carried], walk.emitter
    wanted = [_type(b, val) for val in node.meta["val"]]

    def results(graph_of, types_):
        holders = [n for n in walk.values[graph_of].graph.nodes if n.op == "placeholder"]

        def emit(*values):
            with b.region():
                seen = [_seen(b, n.meta["val"], x) for n, x in zip(holders, values, strict=False)]
                found = walk.run_inner(graph_of, [*seen, *given])
                return _typed(b, found if isinstance(found, (list, tuple)) else [found], types_)

        return emit

    starts = _typed(b, carried, wanted)
    return _outside(walk, node, b.repeat(starts, results(more, [([], "i1")]), results(step, wanted)))


def _type(b, val) -> tuple[list, str]:
    if isinstance(val, torch.Tensor):
        return b.shape_of(val), name_of(val.dtype)
    kinds = {"i1": (bool, torch.SymBool), "f64": (float, torch.SymFloat)}
    return [], next((dtype for dtype, kind in kinds.items() if isinstance(val, kind)), "i64")


def _typed(b, found, wanted) -> list:
    """Values of these types; anything of that type for what is not supported,
    so that the walk goes on.
    """
    return [
        b.full(0, shape, dtype) if x is MISSING else b.expand(b.lift(x, dtype), shape)
        for x, (shape, dtype) in zip(found, wanted, strict=True)
    ]


def _seen(b, val, x):
    """A value that torch knows as ``val``: a number of Python where that is no tensor."""
    if isinstance(val, torch.Tensor):
        return x
    if isinstance(val, SYMBOLIC):
        b.expressions.numbers[val.node.expr] = x
    return Number(x)


def _outside(walk, node, found) -> list:
    return [_seen(walk.emitter, val, x) for val, x in zip(node.meta["val"], found, strict=True)]


#: By the name of torch's operator: takes the walk and the node.
FLOWS = {"cond": _cond, "while_loop": _while_loop}
