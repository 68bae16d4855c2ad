"""Compiles conditions on sizes to Python functions of ints, for checks at each call:
sympy takes far longer to put sizes in.

Invariant: a function says of any sizes what sympy says of the condition with them put in, without
floating numbers (but for ``RoundsAlike``). A condition that has others, or is made of what is not
known here, is left to sympy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from fractions import Fraction

import sympy
from torch.utils._sympy import functions as tsf

from .rounding import RoundsAlike


def function_of(condition: sympy.Basic, symbols: Sequence[sympy.Symbol]) -> Callable[..., bool]:
    """``condition`` as a function of the sizes that stand for ``symbols``;
    where it divides by 0, it does not hold.
    """
    names = {symbol: f"s{i}" for i, symbol in enumerate(symbols)}
    try:
        text = _written(condition, names)
    except NotImplementedError:
        return functools.partial(_put_in, condition, tuple(symbols))
    holds = eval(f"lambda {', '.join(names.values())}: {text}", dict(_NAMES))
    return _guarded(holds) if _divides(condition) else holds


def _guarded(holds: Callable[..., bool]) -> Callable[..., bool]:
    def guarded(*sizes: int) -> bool:
        try:
            return holds(*sizes)
        except ZeroDivisionError:
            return False

    return guarded


def _put_in(condition: sympy.Basic, symbols: tuple, *sizes: int) -> bool:
    try:
        values = dict(zip(symbols, map(sympy.Integer, sizes), strict=True))
        return bool(condition.xreplace(values) == sympy.true)
    except ZeroDivisionError:
        return False


def _written(e: sympy.Basic, names: dict[sympy.Symbol, str]) -> str:
    if e in (sympy.true, sympy.false):
        return str(bool(e))
    if isinstance(e, sympy.Symbol) and e in names:
        return names[e]
    if isinstance(e, sympy.Rational):
        return f"({e})" if e.is_Integer else f"Fraction({e.p}, {e.q})"
    if isinstance(e, sympy.Pow) and not (e.exp.is_Integer and e.exp >= 0):
        raise NotImplementedError(e)
    for kind, form in _FORMS:
        if isinstance(e, kind):
            # Divisions come last: `a == 0 or b % a == 0`.
            args = sorted(e.args, key=_divides) if isinstance(e, (sympy.And, sympy.Or)) else e.args
            return form([_written(arg, names) for arg in args])
    raise NotImplementedError(e)


def _divides(e: sympy.Basic) -> bool:
    """Returns true if something is divided by what may be 0."""
    return any(not by.is_number for division in e.atoms(*_DIVISIONS) for by in division.args[1:])


def _between(sign: str) -> Callable[[list[str]], str]:
    return lambda args: f"({f' {sign} '.join(args)})"


def _call(name: str) -> Callable[[list[str]], str]:
    return lambda args: f"{name}({', '.join(args)})"


_NAMES = {
    "__builtins__": {},
    "min": min,
    "max": max,
    "Fraction": Fraction,
    "rounds_alike": RoundsAlike.holds,
}
_DIVISIONS = (tsf.FloorDiv, tsf.Mod, tsf.PythonMod, tsf.ModularIndexing, sympy.Mod)
_FORMS = (
    (sympy.And, _between("and")),
    (sympy.Or, _between("or")),
    (sympy.Not, lambda args: f"(not {args[0]})"),
    (sympy.Eq, _between("==")),
    (sympy.Ne, _between("!=")),
    (sympy.Le, _between("<=")),
    (sympy.Ge, _between(">=")),
    (sympy.Lt, _between("<")),
    (sympy.Gt, _between(">")),
    (sympy.Add, _between("+")),
    (sympy.Mul, _between("*")),
    (sympy.Pow, _between("**")),
    (tsf.FloorDiv, _between("//")),
    ((tsf.Mod, tsf.PythonMod, sympy.Mod), _between("%")),
    (tsf.ModularIndexing, lambda args: f"({args[0]} // {args[1]} % {args[2]})"),
    ((tsf.Min, sympy.Min), _call("min")),
    ((tsf.Max, sympy.Max), _call("max")),
    (RoundsAlike, _call("rounds_alike")),
)
