"""Translates sizes as torch knows them (ints, SymInts, sympy) to sizes of the compiler."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import sympy
from torch.utils._sympy import functions as tsf

from ...core.errors import UnsupportedOp
from ...lowering.sizes import (
    chosen,
    fold,
    greatest,
    is_int,
    least,
    product,
    relation,
    rounded_to_even,
    rounded_to_zero,
    rounded_up,
)
from ..symbolic.conditions import spelled
from ..symbolic.expressions import expression
from ..symbolic.rounding import RoundsAlike


class Expressions:
    """Translates expressions of torch's shape environment to sizes of the compiler."""

    def __init__(self, simplify=lambda expr: expr):
        self.symbols: dict[sympy.Symbol, object] = {}
        #: Numbers out of tensors, as values; one becomes a dim where it is a size.
        self.numbers: dict[sympy.Symbol, object] = {}
        #: Notes a condition that each call has to satisfy.
        self.check = None
        #: Makes a dim of a number: (symbol, value) -> dim.
        self.bind_number = None
        #: Makes a dim of a root that is rounded to an integer.
        self.bind_root = None
        self._simplify = simplify
        self._known: dict[sympy.Basic, object] = {}

    @contextlib.contextmanager
    def region(self):
        """Sizes and numbers that are bound within are not known after it."""
        before = dict(self.symbols), dict(self.numbers), dict(self._known)
        try:
            yield
        finally:
            self.symbols, self.numbers, self._known = before

    def bind(self, symbol: sympy.Symbol, dim) -> None:
        self.symbols[symbol] = dim

    def equate(self, value, dim) -> None:
        """``value`` is computed as ``dim`` from here on;
        they may differ only at sizes that torch does not think of.
        """
        expr = expression(value)
        if not is_int(expr) and not isinstance(expr, sympy.Symbol):
            self._known[expr] = dim

    def size(self, value):
        """``value`` is an int, a SymInt or a sympy expression."""
        value = expression(value)
        if isinstance(value, int):
            return value
        if value.is_Integer:
            return int(value)
        if value not in self._known:
            self._known[value] = self._translate(self._simplify(value))
        return self._known[value]

    def shape(self, sizes) -> list:
        return [self.size(size) for size in sizes]

    def _translate(self, e):
        if e in self._known:
            return self._known[e]
        if e.is_Integer:
            return int(e)
        if isinstance(e, sympy.Symbol):
            if e not in self.symbols and e in self.numbers:
                return self.bind_number(e, self.numbers[e])
            if e not in self.symbols:
                raise UnsupportedOp(
                    f"the size {e} depends on data", help="sizes that depend on data are not compiled yet"
                )
            return self.symbols[e]
        if self.bind_root is not None and is_rounded_root(e):
            return self.bind_root(e)
        if isinstance(e, tsf.TruncToInt):
            return rounded_to_zero(*self._ratio(e.args[0]))
        if isinstance(e, tsf.FloorToInt):
            above, below = self._ratio(e.args[0])
            return above // below
        if isinstance(e, tsf.CeilToInt):
            return rounded_up(*self._ratio(e.args[0]))
        if isinstance(e, tsf.RoundToInt):
            return rounded_to_even(*self._ratio(e.args[0]))
        if isinstance(e, tsf.FloorDiv) and (exact := _exact_quotient(*e.args)) is not None:
            return self._translate(exact)
        if isinstance(e, sympy.Piecewise):
            return self._chosen(e.args)
        for kind, build in _FORMS:
            if isinstance(e, kind):
                return build([self._translate(arg) for arg in e.args])
        raise UnsupportedOp(f"the size expression {spelled(e)} is not supported")

    def _chosen(self, cases):
        """The first case whose condition holds."""
        (value, condition), *rest = cases
        value = self._translate(value)
        if condition == sympy.true:
            return value
        other = self._chosen(rest)
        return chosen(self._truth(condition), value, other)

    def _truth(self, condition):
        """1 where a condition on sizes holds, else 0."""
        if condition in (sympy.true, sympy.false):
            return int(bool(condition))
        if isinstance(condition, (sympy.And, sympy.Or)):
            parts = [self._truth(arg) for arg in condition.args]
            return product(parts) if isinstance(condition, sympy.And) else fold(greatest)(parts)
        if isinstance(condition, sympy.Not):
            return 1 - self._truth(condition.args[0])
        if not condition.is_Relational:
            raise UnsupportedOp(f"the condition {spelled(condition)} on sizes is not supported")
        right = self._translate(condition.rhs)
        left = self._translate(condition.lhs)
        return relation(_SIGNS[condition.func], left, right)

    def _ratio(self, e):
        """A number that is computed from sizes,
        as a size over a size that is not negative, if it is a number.
        """
        if (scaled := _scaled(e)) is not None:
            return self._near(*scaled)
        if isinstance(e, tsf.RoundDecimal) and e.args[1].is_Integer and e.args[1] > 0:
            return self._decimal(e.args[0], 10 ** int(e.args[1]))
        above, below = self._quotient(e)
        return (0 - above, -below) if is_int(below) and below < 0 else (above, below)

    def _decimal(self, e, unit: int):
        """A number that is rounded to a multiple of ``1 / unit``. In the middle of two it is exact
        as a float where its denominator has no factor 5.
        """
        above, below = self._ratio(e)
        if not is_int(below) or below % 5 == 0:
            raise UnsupportedOp(f"the size expression {spelled(e)}, rounded to digits, is not supported")
        return rounded_to_even(above * unit, below), unit

    def _near(self, factor: float, near: Fraction, size):
        """A size by a factor that is a fraction but for its last place."""
        # Next to an integer, the product of floats rounds to it wherever it is within a half of the
        # last place.
        if abs(Fraction(factor) - near) * 2**54 >= abs(near):
            if self.check is None or not size.free_symbols <= set(self.symbols):
                raise UnsupportedOp(f"a size that is computed by the factor {factor} is not supported")
            exact = (sympy.Rational(*x.as_integer_ratio()) for x in (factor, near))
            text = f"{factor} * {size} to be {near} of it, as floats are rounded"
            self.check(RoundsAlike(size, *exact), text)
        return near.numerator * self._translate(size), near.denominator

    def _quotient(self, e):
        """A number that is computed from sizes, as a size over a size."""
        if e.is_number:
            exact = _exact(e)
            return exact.numerator, exact.denominator
        if isinstance(e, (tsf.ToFloat, tsf.Identity)):
            return self._quotient(e.args[0])
        if isinstance(e, tsf.RoundDecimal) and e.args[1].is_Integer and e.args[1] <= 0:
            unit = 10 ** -int(e.args[1])
            above, below = self._ratio(e.args[0])
            return rounded_to_even(above, below * unit) * unit, 1
        if isinstance(e, (tsf.IntTrueDiv, tsf.FloatTrueDiv)):
            if (exact := _exact_quotient(*e.args)) is not None:
                return self._quotient(exact)
            (a, b), (c, d) = map(self._quotient, e.args)
            return a * d, b * c
        if isinstance(e, (sympy.Add, sympy.Mul)) and not e.is_integer:
            a, b = self._quotient(e.args[0])
            for c, d in map(self._quotient, e.args[1:]):
                (a, b) = (a * d + c * b, b * d) if isinstance(e, sympy.Add) else (a * c, b * d)
            return a, b
        return self._translate(e), 1


def is_rounded_root(e) -> bool:
    """Returns true for a number out of roots of sizes that is rounded to an integer."""
    is_rounded = isinstance(e, (tsf.TruncToInt, tsf.FloorToInt, tsf.CeilToInt, tsf.RoundToInt))
    return is_rounded and has_root(e)


def has_root(e) -> bool:
    """Returns true for an expression with a square root of sizes in it."""
    return any(
        type(part).__name__ == "OpaqueUnaryFn_sqrt"
        or (isinstance(part, (sympy.Pow, tsf.FloatPow)) and part.args[1] == 0.5)
        for part in sympy.preorder_traversal(e)
    )


def _exact_quotient(a, b):
    """``a / b``, if it is a polynomial of sizes whatever they are:
    dividing by 0 is an error where the model runs.

    >>> s = sympy.Symbol("s", integer=True)
    >>> _exact_quotient(3 * s * s, s)
    3*s
    >>> _exact_quotient(4 * s * s, s * tsf.FloorDiv(s * s, s))
    4
    """
    a, b = (e.replace(tsf.FloorDiv, _divided) if e.has(tsf.FloorDiv) else e for e in (a, b))
    if not b.free_symbols or b.has(sympy.Float) or a.has(sympy.Float):
        return None
    quotient, divisor = sympy.fraction(sympy.cancel(a / b))
    return quotient if divisor == 1 and all(c.is_integer for c in sympy.Add.make_args(quotient)) else None


def _divided(a, b):
    exact = _exact_quotient(a, b)
    return tsf.FloorDiv(a, b) if exact is None else exact


def _scaled(e) -> tuple[float, Fraction, sympy.Basic] | None:
    """A size by a number that is no short fraction in binary, and is near one in decimal,
    as 0.3: both, and the size.
    """
    number, size = e.as_coeff_Mul()
    if not isinstance(number, sympy.Float):
        return None
    size = size.args[0] if isinstance(size, tsf.ToFloat) else size
    factor = float(number)
    near = Fraction(factor).limit_denominator(_LONGEST)
    is_near = abs(Fraction(factor) - near) * 2**52 <= abs(near)
    return (factor, near, size) if size.is_integer and is_near and near != factor else None


#: Denominators of factors.
_LONGEST = 4096


def _exact(number) -> Fraction:
    value = Fraction(float(number))
    if value.denominator > _LONGEST:
        raise UnsupportedOp(f"a size that is computed by the factor {number} is not supported")
    return value


def _power(args):
    base, exponent = args
    if not is_int(exponent) or exponent < 0:
        raise UnsupportedOp(f"the size expression {base}**{exponent} is not supported")
    return product([base] * exponent)


_FORMS = (
    (sympy.Add, fold(lambda a, b: a + b)),
    (sympy.Mul, fold(lambda a, b: a * b)),
    ((sympy.Pow, tsf.PowByNatural), _power),
    (tsf.FloorDiv, lambda a: a[0] // a[1]),
    ((tsf.Mod, tsf.PythonMod, sympy.Mod), lambda a: a[0] % a[1]),
    (tsf.CeilDiv, lambda a: (a[0] + a[1] - 1) // a[1]),
    (tsf.ModularIndexing, lambda a: (a[0] // a[1]) % a[2]),
    ((tsf.Min, sympy.Min), fold(least)),
    ((tsf.Max, sympy.Max), fold(greatest)),
    ((tsf.Identity, tsf.ToFloat), lambda a: a[0]),
)
_SIGNS = {sympy.Eq: "==", sympy.Ne: "!=", sympy.Lt: "<", sympy.Le: "<=", sympy.Gt: ">", sympy.Ge: ">="}
