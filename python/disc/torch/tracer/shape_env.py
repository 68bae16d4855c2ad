"""Extends torch's shape environment for the tracer,
without the parts that import all of torch's compiler.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback

import sympy
import torch
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, SLoc

from ..compat import NamedSource
from ..overrides.registry import Override, overridden, register
from ..symbolic.expressions import axis_symbol
from ..symbolic.open_conditions import is_open
from ..symbolic.source_lines import DISC, TORCH
from .light_modes import without_dynamo

#: The file that calls the model.
_ENTRY = os.path.join(DISC, "torch", "capture", "entry.py")
#: Frames of the shape environment itself: a condition belongs to whoever called it.
_MACHINERY = {__file__, os.path.join(DISC, "torch", "overrides", "contiguity.py")} | frozenset(
    os.path.join(TORCH, *path.split("/"))
    for path in (
        "__init__.py",
        "_compile.py",
        "_dynamo/eval_frame.py",
        "_logging/_internal.py",
        "_logging/structured.py",
        "_subclasses/fake_tensor.py",
        "_subclasses/meta_utils.py",
        "fx/experimental/recording.py",
        "fx/experimental/sym_node.py",
        "fx/experimental/symbolic_shapes.py",
    )
)


class Env(ShapeEnv):
    """A shape environment that notes who asked for a condition without importing all
    of torch's compiler.
    """

    def __init__(self, ones: frozenset = frozenset(), **settings):
        _init(self, **settings)
        self.ones = ones
        self.axis_symbols: dict[sympy.Symbol, sympy.Symbol] = {}

    def _get_stack_summary(self, is_debug: bool = False, framework_loc=None):
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename in _MACHINERY:
            frame = frame.f_back
        return SLoc(_summary(frame), _model_frame(frame)), ""

    #: The condition that was asked for last, if it does not hold.
    refused: sympy.Basic | None = None
    #: The op that asks for conditions.
    asked_in: object = None
    _asks_whether_one = False

    def _log_guard(self, *args, **kwargs) -> None:
        # torch writes a structured trace, for which it reads the stack.
        pass

    def evaluate_expr(self, orig_expr, *args, **kwargs):
        answer = super().evaluate_expr(orig_expr, *args, **kwargs)
        self.refused = _refused(orig_expr, answer)
        return answer

    def _maybe_evaluate_static(self, expr, *args, **kwargs):
        # Of symbols that others took the place of, and of remainders, more is known than ranges.
        is_plain = (
            not args and not any(kwargs.values()) and self.replacements.keys().isdisjoint(expr.free_symbols)
        )
        if is_plain and is_open(expr, self.var_to_range, self.axioms.items()):
            answer = None
        else:
            answer = super()._maybe_evaluate_static(expr, *args, **kwargs)
        if answer is not None or not self.ones or self._asks_whether_one or not isinstance(expr, sympy.Eq):
            return answer
        one = expr.lhs if expr.rhs == 1 else expr.rhs if expr.lhs == 1 else None
        if one is None or one.xreplace(self.axis_symbols) not in self.ones:
            return answer
        self._asks_whether_one = True
        try:
            return self.evaluate_expr(expr)
        finally:
            self._asks_whether_one = False

    def _maybe_guard_rel(self, expr: sympy.Basic) -> None:
        """Cancels what two sizes have in common:
        ``a + n == b + n`` makes ``a`` and ``b`` one size, as ``a == b`` does.
        """
        if isinstance(expr, sympy.Eq):
            difference = expr.lhs - expr.rhs
            symbols = sorted(difference.free_symbols, key=str)
            if len(symbols) == 2 and difference in (symbols[0] - symbols[1], symbols[1] - symbols[0]):
                expr = sympy.Eq(*symbols)
        super()._maybe_guard_rel(expr)

    def new_size(self, size: int, tensor: int, axis: int, oblivious: bool) -> torch.SymInt:
        """The size of an axis of an input, which may be any; ``oblivious``: 0 and 1 included."""
        source = NamedSource(f"{tensor}_{axis}")
        with sizes_from_0() if oblivious else contextlib.nullcontext():
            symbol = self.create_symbol(
                size, source, DimDynamic.DYNAMIC, do_not_specialize_zero_one=oblivious
            )
        if oblivious:
            self.size_like.add(symbol)
        self.axis_symbols[symbol] = axis_symbol(tensor, axis)
        return self.create_symintnode(symbol, hint=size, source=source)


Env._init = without_dynamo(ShapeEnv._init)
Env.create_symbol = without_dynamo(ShapeEnv.create_symbol)
Env._set_replacement = without_dynamo(ShapeEnv._set_replacement)
_init = without_dynamo(ShapeEnv.__init__)
# torch clears this cache by its function.
Env._maybe_evaluate_static.cache_clear = ShapeEnv._maybe_evaluate_static.cache_clear


def _refused(expr: sympy.Basic, answer) -> sympy.Basic | None:
    if answer == sympy.false:
        return expr
    return sympy.Eq(*expr.args) if isinstance(expr, sympy.Ne) and answer == sympy.true else None


_make_symbol = symbolic_shapes.make_symbol


def _at_least_0(prefix, number: int, **assumptions) -> sympy.Symbol:
    name = _make_symbol(prefix, number).name
    if assumptions.pop("positive", None):
        assumptions["nonnegative"] = True
    return sympy.Symbol(name, **assumptions)


def sizes_from_0():
    """Within it torch does not take a size for positive: ``max(size, 1)`` is a size of its own,
    ``size == 0`` a question.
    """
    return overridden("sizes_from_0")


register(
    [
        Override(
            symbolic_shapes,
            "make_symbol",
            _at_least_0,
            "torch takes a size for positive",
            scope="sizes_from_0",
        )
    ]
)


def _summary(frame) -> traceback.FrameSummary:
    code = frame.f_code
    return traceback.FrameSummary(code.co_filename, frame.f_lineno, code.co_name, lookup_line=False)


def _model_frame(frame) -> traceback.FrameSummary | None:
    """The innermost line of the model; nothing where torch runs below our own entry,
    as in a module of torch.
    """
    while frame is not None and (inside := frame.f_code.co_filename.startswith((TORCH, DISC))):
        if frame.f_code.co_filename == _ENTRY:
            return None
        frame = frame.f_back
    return None if frame is None or inside else _summary(frame)
