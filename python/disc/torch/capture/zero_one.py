"""Proves for which sizes of 0 and 1 the captured graph is the model's,
where the model branches on them.

A model is captured with sizes of at least 2 (``capture.example_sizes``). Where it asks ``size > 1``
or ``size != 0``, it is captured again with 0 or 1 there. If the graph is the same, the branch is no
fact. Sizes at which a trace that was compared already would have gone the same way are not captured
again: all that the model asked in it is answered alike.

Not here: other conditions on sizes, which are facts as they are (``capture.guards``).
Invariants:

- a size of 0 or 1 that the facts allow was tried, alone and beside those of other sizes that the
  model asks about, or all questions of a trace with that graph are answered at it as they were in
  the trace;
- what the example has is allowed, or ``settle`` names the symbols that have to stay as they are in
  the example.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from ..symbolic.conditions import value_at
from ..symbolic.expressions import expression
from ..symbolic.source_lines import Place
from .graph_equality import same_graph
from .guards import Conditions
from .known_libraries import is_harmless

#: Captures again with the sizes of the first dict, where the symbols of the set are fixed; None
#: where the model refuses them.
Retrace = Callable[[dict[sympy.Symbol, sympy.Integer], set[sympy.Symbol]], Any]

#: The most combinations of small sizes that are tried one by one.
_MOST_COMBINED = 8


def settle(captured, retrace: Retrace, chosen: dict, own: dict, asked_all: bool) -> dict[sympy.Symbol, Place]:
    """Turns ``captured.conditions.branches`` into facts.

    ``chosen`` are the sizes of the capture, ``own`` those of the example. ``asked_all``: each
    question about a size is among the conditions, also one about 0 and 1. The value says which
    symbols the facts would keep from the example's size, and which line asks for it: capture has to
    begin again with these sizes.
    """
    branches = captured.conditions.branches
    captured.conditions.branches = []
    causal_free = not any(_is_causal(n) for n in captured.graph.nodes)
    asked = _Asked(captured, retrace, chosen, causal_free, asked_all)
    asked.add(branches)
    asked.keep(captured, branches, {s: s for s in captured.symbols})
    lowest = asked.lowest()
    facts = {sympy.Ge(s, low, evaluate=False): asked.place([s]) for s, low in lowest.items() if low}
    facts |= asked.combined({s: low for s, low in lowest.items() if low < 2})
    facts |= asked.found
    refused: dict[sympy.Symbol, Place] = {}
    for fact, place in facts.items():
        if value_at(fact, own) == sympy.false:
            refused |= {s: place for s in fact.free_symbols if own[s] < 2}
        captured.conditions.state(fact, place)
    return refused


@dataclass
class _Way:
    """A trace whose graph is the captured one: which sizes it is for.

    All is said in symbols of the capture.
    """

    conditions: list[sympy.Basic]
    #: Sizes of inputs, in the trace and in the capture.
    sizes: list[tuple[Any, Any]]

    def leads_to(self, values: dict) -> bool:
        """Returns true if all that the model asked in the trace is answered alike at ``values``."""
        return all(value_at(c, values) == sympy.true for c in self.conditions) and all(
            _number(ours, values) == _number(theirs, values) for ours, theirs in self.sizes
        )


def _number(size, values: dict):
    return size.xreplace(values) if isinstance(size, sympy.Basic) else size


class _Asked:
    """Collects what the model asked about small sizes, and how its graphs compare."""

    def __init__(self, captured, retrace: Retrace, chosen: dict, causal_free: bool, asked_all: bool):
        self.captured = captured
        self.retrace = retrace
        self.chosen = {s: sympy.Integer(size) for s, size in chosen.items()}
        self.causal_free = causal_free
        self.asked_all = asked_all
        self.ways: list[_Way] = []
        self.branches: list[tuple[sympy.Basic, Place]] = []
        self._same: dict[frozenset, bool] = {}
        #: Facts that came up beside small sizes.
        self.found: dict[sympy.Basic, Place] = {}

    def add(self, branches) -> None:
        for branch in branches:
            if branch not in self.branches and not is_harmless(branch[1], self.causal_free):
                self.branches.append(branch)

    def keep(self, trace, branches, names: dict) -> None:
        """Notes a trace whose graph is the captured one;
        ``names`` are its symbols in the capture.
        """
        conditions = [
            expr for expr, place in branches if not is_harmless(place, self.causal_free)
        ] + trace.conditions.facts
        sizes = self._sizes(trace)
        met = [*conditions, *(theirs for theirs, _ in sizes if isinstance(theirs, sympy.Basic))]
        if self.asked_all and all(e.free_symbols <= names.keys() for e in met):
            renamed = [(_number(theirs, names), ours) for theirs, ours in sizes]
            self.ways.append(_Way([c.xreplace(names) for c in conditions], renamed))

    def _sizes(self, trace) -> list[tuple[Any, Any]]:
        """The sizes of inputs in a trace, in its symbols, and in the capture."""
        return [
            pair
            for i in range(len(trace.inputs))
            for pair in zip(trace.input_shape(i), self.captured.input_shape(i), strict=True)
        ]

    def symbols(self) -> list[sympy.Symbol]:
        return sorted({s for expr, _ in self.branches for s in expr.free_symbols}, key=str)

    def place(self, symbols) -> Place:
        """The line that asks about some of the symbols."""
        return next(place for expr, place in self.branches if expr.free_symbols & set(symbols))

    def lowest(self) -> dict[sympy.Symbol, int]:
        """The smallest size of each symbol from which on the graph is known to be
        the model's: 0, 1 or 2.
        """
        found: dict[sympy.Symbol, int] = {}
        # A second capture may ask about others: `if a == 1 and b == 1`.
        while left := [s for s in self.symbols() if s not in found]:
            found[left[0]] = self._lowest(left[0])
        return found

    def _lowest(self, symbol) -> int:
        if not self.same_at({symbol: 1}):
            return 2
        return (
            1 if self._answers(symbol, 0) != self._answers(symbol, 1) and not self.same_at({symbol: 0}) else 0
        )

    def _answers(self, symbol, size: int) -> tuple:
        """The answers of each condition to a size,
        beside the sizes of the capture and beside small ones.
        """
        small = {symbol: sympy.Integer(size)}
        ones = dict.fromkeys(self.chosen, sympy.Integer(1))
        return tuple(
            value_at(expr, {**others, **small}) == sympy.true
            for expr, _ in self.branches
            for others in (self.chosen, ones)
        )

    def combined(self, lowest: dict[sympy.Symbol, int]) -> dict[sympy.Basic, Place]:
        """Facts that keep away what each size alone may be, but several at once may not."""
        symbols = list(lowest)
        small = {
            s: [1, 0] if low == 0 and self._answers(s, 0) != self._answers(s, 1) else [1]
            for s, low in lowest.items()
        }
        several = [
            dict(zip(some, sizes, strict=True))
            for count in range(2, len(symbols) + 1)
            for some in itertools.combinations(symbols, count)
            for sizes in itertools.product(*(small[s] for s in some))
        ]
        if len(several) > _MOST_COMBINED:
            if self.same_at(dict.fromkeys(symbols, 1)):
                return {}
            return {sympy.Ge(s, 2, evaluate=False): self.place([s]) for s in symbols}
        facts = {}
        for sizes in several:
            fact = sympy.Or(*(sympy.Ne(s, size) for s, size in sizes.items()))
            implied = any(value_at(kept, sizes) == sympy.false for kept in facts)
            if not implied and not self.same_at(sizes):
                facts[fact] = self.place(sizes)
        return facts

    def same_at(self, sizes: dict[sympy.Symbol, int]) -> bool:
        """Returns true if the model captured with ``sizes`` is the captured graph
        with these sizes put in.
        """
        key = frozenset(sizes.items())
        if key not in self._same:
            self._same[key] = self._compare(sizes)
        return self._same[key]

    def _compare(self, sizes) -> bool:
        if not sizes.keys() <= self.captured.symbols.keys():
            return False
        values = self._completed({s: sympy.Integer(size) for s, size in sizes.items()})
        if values is None:
            return False
        if any(way.leads_to(values) for way in self.ways):
            return True
        small = {s: size for s, size in values.items() if size < 2}
        again = self.retrace(values, set(small))
        if again is None:
            return False
        places = {place: s for s, place in self.captured.symbols.items()}
        names = {s: places[place] for s, place in again.symbols.items() if place in places}
        theirs = {s: values[name] for s, name in names.items()}
        if not same_graph(self.captured.traced, again.traced, values, theirs):
            return False
        self.add([(expr.xreplace(names), place) for expr, place in again.conditions.branches])
        self.keep(again, again.conditions.branches, names)
        self._take_facts(again.conditions, names, small)
        self._take_sizes(again, names, small)
        return True

    def _completed(self, small: dict) -> dict | None:
        """The sizes of the capture with ``small`` among them,
        and others changed as the facts then want it.
        """
        values = self.chosen | small
        for _ in range(len(self.captured.facts) + 1):
            broken = [f for f in self.captured.facts if value_at(f, values) == sympy.false]
            if not broken:
                return values
            solved = next(filter(None, (_solved(f, values, small) for f in broken)), None)
            if solved is None:
                return None
            small = small | solved
            values = values | solved
        return None

    def _take_facts(self, conditions: Conditions, names: dict, small: dict) -> None:
        """Takes facts that the model asks about other sizes beside small ones:
        ``if a == 1 and b == 7``.
        """
        known = {sympy.true, *(value_at(fact, small) for fact in self.captured.facts)}
        for fact in conditions.facts:
            place = conditions.places.get(fact)
            named = fact.xreplace(names).xreplace(small)
            if fact not in conditions.by_model or named in known or is_harmless(place, True):
                continue
            self._find(named, small, place)

    def _take_sizes(self, trace, names: dict, small: dict) -> None:
        """Sizes that are fixed or equal beside small ones, and need not be so elsewhere."""
        axes = itertools.chain(*(node.meta["val"].shape for node in trace.inputs))
        for size, (theirs, ours) in zip(axes, self._sizes(trace), strict=True):
            if isinstance(theirs, sympy.Basic) and not theirs.free_symbols <= names.keys():
                continue
            equal = sympy.Eq(_number(ours, small), _number(theirs, names))
            if equal != sympy.true:
                symbol = size.node._expr if isinstance(size, torch.SymInt) else None
                self._find(equal, small, trace.conditions.places.get(symbol))

    def _find(self, fact: sympy.Basic, small: dict, place: Place | None) -> None:
        beside = sympy.Or(*(sympy.Ne(s, size) for s, size in small.items()), fact)
        self.found.setdefault(beside, place)


def _solved(fact, values: dict, small: dict) -> dict | None:
    """One more size that makes ``fact`` an equality."""
    if not fact.is_Relational:
        return None
    difference = value_at(fact.lhs - fact.rhs, small)
    for symbol in sorted(difference.free_symbols, key=str):
        rest = value_at(difference, {s: v for s, v in values.items() if s != symbol})
        if rest == sympy.false:
            continue
        factor, offset = rest.coeff(symbol, 1), rest.coeff(symbol, 0)
        if factor in (1, -1) and rest == factor * symbol + offset and (size := -offset * factor) >= 0:
            return {symbol: sympy.Integer(size)}
    return None


def _is_causal(node) -> bool:
    if node.target is not torch.ops.aten.scaled_dot_product_attention.default:
        return False
    causal = node.kwargs.get("is_causal", node.args[5] if len(node.args) > 5 else False)
    query, key = node.args[0].meta["val"], node.args[1].meta["val"]
    return bool(causal) and expression(query.shape[-2]) != expression(key.shape[-2])
