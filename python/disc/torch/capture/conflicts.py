"""Reads from the conditions of a trace what the sizes of our choice have to satisfy.

Sizes of our choice stand for those of the example (``capture.example_sizes``). Where a condition
holds for ours and not for the example's, or the other way round, the trace went another way than
the example, or was refused.

- ``reconcile`` reads the condition that refused a trace,
- ``avoid`` those of a trace that the example breaks,
- ``leave`` those that hold because a size that is computed from others is 0 or 1 in the example.

Invariant: a condition on sizes is spelled in symbols of axes (``axis_symbol``), which mean the same
in every attempt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
import torch

from ..symbolic.conditions import REMAINDERS, conjuncts, resolved, value_at
from .example_sizes import Place, Sizes, axis_symbol
from .guards import asked_by_torch

if TYPE_CHECKING:
    from .captured_graph import CapturedGraph

#: Ops that repeat an axis of size 1, whatever else is computed from sizes.
_STRETCHES = frozenset((torch.ops.aten.expand.default, torch.ops.aten.broadcast_to.default))


class _Named:
    """The symbols of one trace, and the axes that they are the sizes of."""

    def __init__(self, env, shapes, sizes: Sizes):
        self.env, self.sizes = env, sizes
        #: The axis of each symbol, and all axes of those that are found to be equal.
        self.places: dict[sympy.Symbol, Place] = {}
        self.axes: dict[sympy.Symbol, list[Place]] = {}
        for t, shape in enumerate(shapes):
            for axis, size in enumerate(shape):
                if isinstance(size, torch.SymInt):
                    self.places.setdefault(size.node._expr, (t, axis))
                    self.axes.setdefault(self.resolved(size.node._expr), []).append((t, axis))
        self.own = {s: sympy.Integer(sizes.shapes[t][axis]) for s, (t, axis) in self.places.items()}

    def resolved(self, expr):
        return resolved(expr, self.env.replacements)

    def knows(self, expr) -> bool:
        return bool(expr.free_symbols) and expr.free_symbols <= self.places.keys()

    def named(self, expr):
        """``expr`` in symbols of axes."""
        return expr.xreplace({s: axis_symbol(*place) for s, place in self.places.items()})


def reconcile(shapes, sizes: Sizes) -> bool:
    """Chooses other sizes by the condition that refused a trace; False if it says nothing."""
    env = next((n.node.shape_env for shape in shapes for n in shape if isinstance(n, torch.SymInt)), None)
    refused = getattr(env, "refused", None)
    if refused is None:
        return False
    names = _Named(env, shapes, sizes)
    condition = _without_stretch(names.resolved(refused))
    if not names.knows(condition):
        return False
    holds = value_at(condition, names.own)
    if not isinstance(condition, sympy.Eq):
        return holds == sympy.true and sizes.require(names.named(condition))
    a, b = (value_at(side, names.own) for side in condition.args)
    if holds == sympy.true:
        return _agree(condition, int(a), names, op=env.asked_in)
    if holds != sympy.false or 1 not in (a, b):
        return False
    return _stretch(condition.lhs if a == 1 else condition.rhs, names)


def _without_stretch(condition):
    """``a == b`` of ``a == 1 or a == b``."""
    if not isinstance(condition, sympy.Or) or len(condition.args) != 2:
        return condition
    first, second = sorted(condition.args, key=lambda arg: isinstance(arg, sympy.Eq) and 1 in arg.args)
    return first if isinstance(second, sympy.Eq) and 1 in second.args else condition


def _agree(condition: sympy.Eq, size: int, names: _Named, op) -> bool:
    """Two sizes are equal in the example and have to be."""
    sizes = names.sizes
    symbols = [side for side in condition.args if isinstance(side, sympy.Symbol)]
    if len(symbols) == 2:
        return sizes.unite(*(names.axes[s] for s in symbols))
    (other,) = [side for side in condition.args if side not in symbols] if symbols else (None,)
    if symbols and other.is_number:
        return sizes.pin_all(names.axes[symbols[0]])
    if symbols and size == 1 and op in _STRETCHES and not other.has(symbols[0]):
        return sizes.pin_all(names.axes[symbols[0]])
    if sizes.require(names.named(condition)):
        return True
    # No other size is ``min(1, k)``: it is 1.
    ones = [names.named(side) for side in condition.args if side not in symbols] if size == 1 else []
    return any(value_at(one, sizes.chosen()) == 1 and sizes.take_for_one(one) for one in ones)


def _stretch(one, names: _Named) -> bool:
    """A size of 1 in the example meets another one: it stays 1."""
    sizes = names.sizes
    if isinstance(one, sympy.Symbol):
        return sizes.pin_all(names.axes[one])
    if value_at(names.named(one), sizes.chosen()) == 1:
        return sizes.take_for_one(names.named(one))
    return sizes.pin_all([place for s in one.free_symbols for place in names.axes[s]])


def avoid(captured: CapturedGraph, sizes: Sizes) -> bool:
    """A fact that the example breaks comes from a size of our choice: chooses another one."""
    names = _Named(captured.traced.shape_env, [node.meta["val"].shape for node in captured.inputs], sizes)
    broken = broken_facts(captured, sizes)
    known = [fact for fact in broken if names.knows(fact)]
    return sum(sizes.require(sympy.Not(names.named(fact))) for fact in known) > 0


def broken_facts(captured: CapturedGraph, sizes: Sizes) -> list[sympy.Basic]:
    """The facts of a trace that the example breaks, those about sizes of inputs among them."""
    own = {s: sympy.Integer(sizes.shapes[t][axis]) for s, (t, axis) in captured.symbols.items()}
    broken = [fact for fact in captured.facts if value_at(fact, own) == sympy.false]
    for t in range(len(captured.inputs)):
        for axis, expr in enumerate(captured.input_shape(t)):
            if isinstance(expr, int) or value_at(expr, own) == sizes.shapes[t][axis]:
                continue
            if not isinstance(expr, sympy.Symbol):
                broken.append(sympy.Eq(_of_axis(captured, t, axis), expr, evaluate=False))
    return broken


def _of_axis(captured: CapturedGraph, t: int, axis: int):
    """The symbol of an axis before it was found to be an expression of others."""
    return captured.inputs[t].meta["val"].shape[axis].node._expr


def leave(captured: CapturedGraph, sizes: Sizes) -> bool:
    """Torch found a size that is computed from others to be 0 or 1: chooses sizes for which it is
    neither, so that nothing is fixed by that.
    """
    env = captured.traced.shape_env
    if env is None:
        return False
    names = _Named(env, [node.meta["val"].shape for node in captured.inputs], sizes)
    found = []
    for guard in env.guards:
        frame = getattr(guard.sloc, "framework_loc", None)
        if asked_by_torch(getattr(frame, "filename", "")):
            found += [part for condition in conjuncts(guard.expr) if (part := _found_small(condition, names))]
    return sum(sizes.prefer(sympy.Ge(part, 2)) for part in dict.fromkeys(found)) > 0


def _found_small(condition, names: _Named):
    """The expression that a condition says to be 0 or 1; None where it is a size of an input."""
    if not isinstance(condition, sympy.Eq):
        return None
    part, small = condition.args if condition.rhs.is_number else condition.args[::-1]
    is_computed = names.knows(part) and not isinstance(part, sympy.Symbol)
    return names.named(part) if small in (0, 1) and is_computed and not part.has(*REMAINDERS) else None
