"""Turns the conditions of torch's shape environment into facts about sizes.

Conditions come from two places. One that torch's own code asked for (broadcasting, reshape, layout)
is a need of the op, or a choice between two equal ways of computing it. One that Python code of the
model asked for chose a branch of the model.

- An equality, a divisibility or a bound is kept: it is checked at each call.
- A condition that only keeps sizes 0 and 1 away (``s > 1``, ``Ne(s, 1)``) is dropped when torch
  asked for it, and listed in ``branches`` when the model did: the caller proves that the branch
  makes no difference, or keeps it as a bound.
- A comparison of two sizes by order or by "not equal" that torch asked for is a choice of layout,
  and is dropped, as is ``e > 1``; what ``torch._check`` asked for is a need of the op, and kept.
"""

from __future__ import annotations

import linecache
import traceback
from dataclasses import dataclass, field

import sympy

from ..symbolic.conditions import (
    conjuncts,
    excludes_only_small,
    is_order,
    keeps_small_away,
    min_bound,
    resolved,
    settled,
)
from ..symbolic.source_lines import DISC, TORCH, Place
from . import known_libraries


@dataclass
class Conditions:
    """``facts`` are relations over symbols;
    ``branches`` are conditions of the model that exclude 0 or 1 only.
    """

    facts: list[sympy.Basic] = field(default_factory=list)
    branches: list[tuple[sympy.Basic, Place]] = field(default_factory=list)
    substitutions: dict[sympy.Basic, sympy.Basic] = field(default_factory=dict)
    #: The line of the model that led to a fact, or that gave a symbol a value; not known of all.
    places: dict[sympy.Basic, Place] = field(default_factory=dict)
    #: The facts that code of the model asked for, not that of torch.
    by_model: set[sympy.Basic] = field(default_factory=set)

    def state(self, fact: sympy.Basic, place: Place | None) -> None:
        if fact not in self.facts:
            self.facts.append(fact)
        if place is not None:
            self.places.setdefault(fact, place)

    def simplify(self, expr):
        """``expr`` with what the facts say about minima and maxima."""
        return expr.xreplace(self.substitutions) if self.substitutions else expr


def read_conditions(shape_env) -> Conditions:
    out = Conditions()
    for guard in shape_env.guards:
        frame = getattr(guard.sloc, "framework_loc", None)
        filename, line = getattr(frame, "filename", ""), getattr(frame, "lineno", 0) or 0
        asks = _model_place(guard.sloc)
        if asks is not None:
            for symbol in guard.expr.free_symbols if isinstance(guard.expr, sympy.Eq) else ():
                if shape_env.replacements.get(symbol, symbol).is_number:
                    out.places.setdefault(symbol, asks)
        for expr in conjuncts(resolved(guard.expr, shape_env.replacements)):
            if (
                isinstance(expr, sympy.Ne) and known_libraries.resamples_all(asks)
            ) or known_libraries.is_dropped(asks):
                continue
            known = len(out.facts)
            _sort(expr, filename, line, out)
            if not asked_by_torch(filename):
                out.by_model.update(out.facts[known:])
            for fact in out.facts[known:] if asks is not None else ():
                out.places.setdefault(fact, asks)
    facts = [(f, settled(out.simplify(f))) for f in out.facts]
    out.facts = []
    for before, fact in facts:
        if fact not in (sympy.true, True):
            out.state(fact, out.places.get(before))
            if before in out.by_model:
                out.by_model.add(fact)
    return out


def _model_place(sloc) -> Place | None:
    """The line of the model that led to a condition, as the quick tracer notes it."""
    frames = (getattr(sloc, "maybe_user_loc", None), getattr(sloc, "framework_loc", None))
    for frame in frames:
        if isinstance(frame, traceback.FrameSummary) and not frame.filename.startswith((TORCH, DISC)):
            return frame.filename, frame.lineno or 0
    return None


def asked_by_torch(filename: str) -> bool:
    return filename.startswith((TORCH, DISC)) and not filename.startswith(known_libraries.MODEL_LIKE)


def _sort(expr, filename: str, line: int, out: Conditions) -> None:
    if expr in (sympy.true, True):
        return
    if (bound := min_bound(expr)) is not None:
        out.facts.append(bound[0])
        out.substitutions[bound[1]] = bound[2]
        return
    by_torch = asked_by_torch(filename)
    if isinstance(expr, sympy.Or) and by_torch:
        return  # one of two ways to compute the same; the way taken leaves its own equality
    if by_torch and _is_need(filename, line):
        if not isinstance(expr, sympy.Ne):
            out.facts.append(expr)
        return
    if excludes_only_small(expr):
        if not by_torch:
            out.branches.append((expr, (filename, line)))
        return
    if by_torch and (isinstance(expr, sympy.Ne) or keeps_small_away(expr)):
        return
    if by_torch and is_order(expr) and len(expr.free_symbols) > 1:
        return
    out.facts.append(expr)


def _is_need(filename: str, line: int) -> bool:
    """Returns true if a line of torch checks what an op needs, rather than choosing a layout."""
    return "torch._check" in linecache.getline(filename, line)
