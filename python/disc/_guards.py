"""What capture learned about sizes: the conditions of torch's shape environment as facts of disc.

Conditions come from two places. One that torch's own code asked for (broadcasting, reshape, layout) is a need of the op, or a
choice between two equal ways of computing it. One that Python code of the model asked for chose a branch of the model.

- An equality, a divisibility or a bound is kept: it is checked at each call.
- A condition that only keeps sizes 0 and 1 away (``s > 1``, ``Ne(s, 1)``) is dropped when torch asked for it, and listed in
  ``branches`` when the model did: the caller proves that the branch makes no difference, or keeps it as a bound.
- A comparison of two sizes by order or by "not equal" that torch asked for is a choice of layout, and is dropped, as
  is ``e > 1``; what ``torch._check`` asked for is a need of the op, and kept.
"""

from __future__ import annotations

import itertools
import linecache
import os
import re
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import sympy
import torch
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter
from torch.utils._sympy import functions as tsf

TORCH = os.path.dirname(torch.__file__) + os.sep
#: Our own tracer stands between the model and torch.
DISC = os.path.dirname(__file__) + os.sep
#: Python code inside torch that branches like a model does.
_MODEL_LIKE = (os.path.join(TORCH, "nn") + os.sep,)
#: So much of a line of the model is quoted.
_QUOTED = 80


#: A file and a line.
Place = tuple[str, int]


@dataclass
class Conditions:
    """``facts`` are relations over symbols; ``branches`` are conditions of the model that exclude 0 or 1 only."""

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
        for expr in conjuncts(_resolved(guard.expr, shape_env.replacements)):
            if (isinstance(expr, sympy.Ne) and _resamples_all(asks)) or _is_dropped(asks):
                continue
            known = len(out.facts)
            _sort(expr, filename, line, out)
            if not _asked_by_torch(filename):
                out.by_model.update(out.facts[known:])
            for fact in out.facts[known:] if asks is not None else ():
                out.places.setdefault(fact, asks)
    facts = [(f, _settled(out.simplify(f))) for f in out.facts]
    out.facts = []
    for before, fact in facts:
        if fact not in (sympy.true, True):
            out.state(fact, out.places.get(before))
            if before in out.by_model:
                out.by_model.add(fact)
    return out


def _resamples_all(place: Place | None) -> bool:
    """Whether a line leaves out what changes nothing: vision models of transformers keep embeddings of positions for images of
    the size that they were made for, and resample them to that very size else. Others may mean something else by such a line."""
    if place is None or "transformers" not in Path(place[0]).parts:
        return False
    return "num_patches == num_positions and height == width" in linecache.getline(*place)


def _is_dropped(place: Place | None) -> bool:
    """Whether what a line asks for is never used while a model is traced: transformers cuts a mask to see what it may leave out,
    and leaves out nothing then."""
    if place is None or os.path.basename(place[0]) != "masking_utils.py":
        return False
    asked, after = (
        "if padding_mask is not None and padding_mask.shape[-1] > kv_length:",
        "padding_mask = padding_mask[:, mask_indices]",
    )
    return asked in linecache.getline(*place) and after in linecache.getline(place[0], place[1] + 2)


def _model_place(sloc) -> Place | None:
    """The line of the model that led to a condition, as the quick tracer notes it."""
    frames = (getattr(sloc, "maybe_user_loc", None), getattr(sloc, "framework_loc", None))
    for frame in frames:
        if isinstance(frame, traceback.FrameSummary) and not frame.filename.startswith((TORCH, DISC)):
            return frame.filename, frame.lineno or 0
    return None


def written(place: Place) -> str:
    """A line of the model for a message: ``model.py:12: `if x.shape[0] == 1:` ``."""
    filename, line = place
    code = linecache.getline(filename, line).strip()
    code = code if len(code) <= _QUOTED else f"{code[:_QUOTED]}..."
    return f"{os.path.basename(filename)}:{line}" + (f": `{code}`" if code else "")


def _resolved(expr, replacements: dict):
    """Symbols that were proved equal to others are gone from the graph; they go from the facts too."""
    for _ in range(len(replacements) + 1):
        after = expr.xreplace(replacements)
        if after == expr:
            break
        expr = after
    return expr


def conjuncts(expr):
    return expr.args if isinstance(expr, sympy.And) else (expr,)


def _asked_by_torch(filename: str) -> bool:
    return filename.startswith((TORCH, DISC)) and not filename.startswith(_MODEL_LIKE)


def _sort(expr, filename: str, line: int, out: Conditions) -> None:
    if expr in (sympy.true, True):
        return
    if (bound := _min_bound(expr)) is not None:
        out.facts.append(bound[0])
        out.substitutions[bound[1]] = bound[2]
        return
    by_torch = _asked_by_torch(filename)
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
    if by_torch and (isinstance(expr, sympy.Ne) or _keeps_small_away(expr)):
        return
    if by_torch and _is_order(expr) and len(expr.free_symbols) > 1:
        return
    out.facts.append(expr)


def _is_need(filename: str, line: int) -> bool:
    """Whether a line of torch checks what an op needs, rather than choosing a layout."""
    return "torch._check" in linecache.getline(filename, line)


def _keeps_small_away(expr) -> bool:
    """``e > 1`` of the size ``e`` of some value: with one element along an axis, its stride does not matter."""
    if not _is_order(expr):
        return False
    low, high, strict = (
        (expr.rhs, expr.lhs, isinstance(expr, sympy.Gt))
        if isinstance(expr, (sympy.Gt, sympy.Ge))
        else (expr.lhs, expr.rhs, isinstance(expr, sympy.Lt))
    )
    return bool(high.free_symbols) and low == (1 if strict else 2)


def _min_bound(expr):
    """``Eq(s, Min(c, s))`` as ``(s <= c, Min(c, s), s)``."""
    if not isinstance(expr, sympy.Eq):
        return None
    for a, b in ((expr.lhs, expr.rhs), (expr.rhs, expr.lhs)):
        if isinstance(b, (sympy.Min, tsf.Min)) and a in b.args and len(b.args) == 2:
            other = next(x for x in b.args if x != a)
            return sympy.Le(a, other), b, a
        if isinstance(b, (sympy.Max, tsf.Max)) and a in b.args and len(b.args) == 2:
            other = next(x for x in b.args if x != a)
            return sympy.Ge(a, other), b, a
    return None


def _settled(expr):
    """Drops what holds for every size: dims are at least 0."""
    if isinstance(expr, sympy.Ge) and expr.rhs == 0 and expr.lhs.is_nonnegative:
        return sympy.true
    return expr


def _is_order(expr) -> bool:
    return isinstance(expr, (sympy.Gt, sympy.Ge, sympy.Lt, sympy.Le))


def excludes_only_small(expr) -> bool:
    """The condition holds for all sizes of at least 2 and fails for some size 0 or 1; as far as samples tell."""
    if expr.has(sympy.Mod, tsf.Mod, tsf.PythonMod):
        return False  # remainders come back at ever larger sizes: no sample tells
    symbols = sorted(expr.free_symbols, key=str)
    if isinstance(expr, sympy.Ne):
        small = expr.rhs if expr.rhs.is_number else expr.lhs
        if small not in (0, 1) or not symbols:
            return False
    elif not _is_order(expr) or len(symbols) != 1:
        return False
    # Several symbols take all sizes: different ones in both orders, and equal ones.
    turns = [_SAMPLES[n:] + _SAMPLES[:n] for n in range(len(_SAMPLES))]
    turns += [turn[::-1] for turn in turns] + [(size,) for size in _SAMPLES]
    return all(_holds(expr, zip(symbols, itertools.cycle(turn), strict=False)) for turn in turns)


#: Even and odd sizes, multiples of small numbers and primes.
_SAMPLES = (2, 3, 4, 5, 7, 12, 64, 1 << 20)


def _holds(expr, sizes) -> bool:
    return at(expr, {symbol: sympy.Integer(size) for symbol, size in sizes}) == sympy.true


def at(fact, sizes: dict):
    """``fact`` with sizes put in. One that divides by a size of 0 does not hold."""
    try:
        return fact.xreplace(sizes)
    except ZeroDivisionError:
        return sympy.false


class _Infix(StrPrinter):
    """Relations and remainders as Python writes them."""

    def parenthesize(self, item, level, strict=False):
        # A quotient brings its own.
        return (
            self._print(item) if isinstance(item, tsf.FloorDiv) else super().parenthesize(item, level, strict)
        )

    def _print_Relational(self, expr):
        return f"{self._print(expr.lhs)} {expr.rel_op} {self._print(expr.rhs)}"

    def _print_Or(self, expr):
        return " or ".join(sorted(map(self._print, expr.args)))

    def _print_And(self, expr):
        parts = (f"({self._print(x)})" if isinstance(x, sympy.Or) else self._print(x) for x in expr.args)
        return " and ".join(sorted(parts))

    def _print_Mod(self, expr):
        low = PRECEDENCE["Mul"]
        value = self.parenthesize(expr.args[0], low, strict=True)
        by = self.parenthesize(expr.args[1], low)
        return f"{value} % {by}"

    _print_PythonMod = _print_Mod

    def _print_FloatTrueDiv(self, e):
        by = self.parenthesize(e.args[1], PRECEDENCE["Mul"], strict=False)
        return f"({self._print(e.args[0])})/{by}"

    _print_IntTrueDiv = _print_FloatTrueDiv

    def _print_ToFloat(self, e):
        return self._print(e.args[0])


def spelled(fact) -> str:
    """A fact as a user would write it: ``s0 % 2 != 0``."""
    return _Infix().doprint(fact)


def is_harmless(place: Place | None, causal_free: bool) -> bool:
    """Branches of well-known libraries whose two sides compute the same at length 0 and 1, or one of which is an error.

    transformers asks ``q_length > 1`` only to switch causal masking off for one query: nothing changes where no attention is
    causal. Its ``q_length == 1 and not is_torchdynamo_compiling()`` is never taken while a model is traced.
    """
    source = linecache.getline(*place) if place is not None else ""
    if re.search(r"if size_prods == 1:", source) and place[0].startswith(_MODEL_LIKE):
        return True
    if re.search(r"q_length == 1 and not is_torchdynamo_compiling\(\)", source):
        return True
    return causal_free and re.search(r"is_causal = (query\.shape\[2\]|q_length) > 1 and ", source) is not None
