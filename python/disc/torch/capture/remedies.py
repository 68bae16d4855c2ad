"""Changes the sizes of a trace after an attempt that did not do: ``OF_FAILURES`` and ``OF_GRAPHS``
are the remedies, in the order in which they are tried.

A remedy returns true if it changed sizes, so that another attempt may do better. The first one that
does ends the attempt: later ones would read a graph of sizes that are no longer chosen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import sympy
import torch

from ..overrides import texts
from ..overrides.squeeze import SQUEEZES
from ..symbolic.expressions import expression
from . import conflicts
from .captured_graph import CapturedGraph
from .example_sizes import Sizes
from .failures import symbol_places

#: After so many attempts a fact that the example breaks stays: a graph for other sizes is better
#: than none.
_MOST_CHOICES = 16


@dataclass(frozen=True)
class Failure:
    """A trace that raised, with the shapes of its inputs."""

    error: Exception
    shapes: list


def pin_written(failure: Failure, sizes: Sizes) -> bool:
    """The model read the text of a size of our choice, and failed:
    what it looks up by the text is there for the user's.
    """
    again = False
    for t, shape in enumerate(failure.shapes):
        for axis, size in enumerate(shape):
            if isinstance(size, torch.SymInt) and size.node._expr in texts.written(size.node.shape_env):
                c = sizes.class_of(t, axis)
                again |= c is not None and c.changed and sizes.pin(t, axis)
    return again


def _reconcile(failure: Failure, sizes: Sizes) -> bool:
    return conflicts.reconcile(failure.shapes, sizes)


def _drop_preferences(failure: Failure, sizes: Sizes) -> bool:
    return sizes.drop_preferences()


def _relax(failure: Failure, sizes: Sizes) -> bool:
    return sizes.relax(str(failure.error), symbol_places(failure.shapes))


#: Remedies of a trace that failed for its sizes.
OF_FAILURES: tuple[Callable[[Failure, Sizes], bool], ...] = (
    # The condition that refused the trace says more than the message of an error.
    _reconcile,
    # Preferred conditions may be what failed; sizes that the message names are kept if they are.
    _drop_preferences,
    _relax,
)


def _repin(captured: CapturedGraph, sizes: Sizes) -> bool:
    """The model fixed a dimension at a size that is not the user's:
    keep the user's there and capture again.
    """
    again = False
    for c in list(sizes.classes):
        for t, axis in list(c.members):
            if c.changed and not c.fixed and isinstance(captured.input_shape(t)[axis], int):
                again |= sizes.pin(t, axis)
    return again


def _avoid(captured: CapturedGraph, sizes: Sizes) -> bool:
    """A fact that the example itself breaks comes from a size of our choice:
    capture again with another one.
    """
    own = {s: sympy.Integer(sizes.shapes[t][axis]) for s, (t, axis) in captured.symbols.items()}
    broken = conflicts.broken_facts(captured, sizes)
    if broken and conflicts.avoid(captured, sizes):
        return True
    symbols = [fact.free_symbols & captured.symbols.keys() for fact in broken]
    for several in symbols:
        if len(several) > 2 and sizes.add_up({captured.symbols[s] for s in several}):
            return True
    for fact in broken:
        if (found := _solved_for_largest(fact, captured, own)) is not None and sizes.relate(*found):
            return True
    places = sorted({captured.symbols[s] for some in symbols for s in some})
    if sum(sizes.choose_again(t, axis) for t, axis in places) > 0:
        return True
    # No choice takes the example's way beside a size of 0 or 1 of the example: that one stays.
    small = [(t, axis) for t, axis in places if sizes.shapes[t][axis] < 2]
    return sum(sizes.pin(t, axis) for t, axis in small if captured.plan.axes[t][axis] is None) > 0


def _solved_for_largest(fact, captured: CapturedGraph, own: dict):
    """The axis of the largest size among several that are added up,
    and how it comes of the others in the example.
    """
    symbols = fact.free_symbols & captured.symbols.keys()
    if not fact.is_Relational or len(symbols) < 3:
        return None
    difference = sympy.expand(fact.lhs - fact.rhs)
    if any(difference.coeff(s, 1) not in (1, -1) for s in symbols) or not difference.is_polynomial(*symbols):
        return None
    if sympy.Poly(difference, *symbols).total_degree() > 1:
        return None
    largest = max(symbols, key=lambda s: (own[s], str(s)))
    value = difference.xreplace(own)
    others = {captured.symbols[s]: int(difference.coeff(s, 1)) for s in symbols - {largest}}
    offset = value - difference.coeff(largest, 0).xreplace(dict.fromkeys(symbols, sympy.Integer(0)))
    return captured.symbols[largest], others, int(difference.coeff(largest, 1)), int(offset)


def _pin_squeezed(captured: CapturedGraph, sizes: Sizes) -> bool:
    """``squeeze`` drops an axis of size 1 and keeps others: the rank follows the example,
    and its axis stays 1, or not 1.
    """
    again = False
    hints = {s: sizes.shapes[t][axis] for s, (t, axis) in captured.symbols.items()}
    for node in captured.graph.nodes:
        if node.target not in SQUEEZES:
            continue
        shape = [expression(size) for size in node.args[0].meta["val"].shape]
        axes = node.args[1] if len(node.args) > 1 else range(len(shape))
        for axis in [axes] if isinstance(axes, int) else axes:
            size = shape[axis]
            if isinstance(size, int):
                continue
            if size.xreplace({s: sympy.Integer(v) for s, v in hints.items()}) == 1:
                for symbol in size.free_symbols & set(captured.symbols):
                    again |= sizes.pin(*captured.symbols[symbol])
            else:
                captured.conditions.facts.append(sympy.Ne(size, 1))
    return again


def _pin_stretched(captured: CapturedGraph, sizes: Sizes) -> bool:
    """A size of 1 of the example that meets a size from data is stretched to it,
    where ours would have to be equal to it.
    """
    env = captured.traced.shape_env
    again = False
    for check in itertools.chain(*env.deferred_runtime_asserts.values()) if env is not None else ():
        sides = set(check.expr.args) if isinstance(check.expr, sympy.Eq) else set()
        for symbol in sides & set(captured.symbols):
            c = sizes.class_of(*captured.symbols[symbol])
            if c is not None and c.user == 1 and c.changed and not c.declared:
                again |= sizes.pin(*captured.symbols[symbol])
    return again


@dataclass(frozen=True)
class Remedy:
    """One remedy of a graph that does not take the way of the example."""

    cure: Callable[[CapturedGraph, Sizes], bool]
    #: The attempts after which it is not tried any more.
    attempts: float = math.inf


OF_GRAPHS: tuple[Remedy, ...] = (
    # From here on, axes that the model fixed have the example's size.
    Remedy(_repin),
    # From here on, the graph has the ranks of the example.
    Remedy(_pin_squeezed),
    Remedy(_pin_stretched),
    # From here on, the example satisfies all facts, but for those that no choice of sizes cures.
    Remedy(_avoid, _MOST_CHOICES),
    Remedy(conflicts.leave, _MOST_CHOICES),
)
