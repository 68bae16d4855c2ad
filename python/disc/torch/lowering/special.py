"""Lowers the Hurwitz zeta function, and the derivatives of digamma."""

from __future__ import annotations

import math

#: From here down the compiled sum has too many terms.
_DEEP = -1024


def zeta(b, s, q):
    """The sum of (q + k) ** -s over k >= 0."""
    s, q = b.together(*b.promote(s, q, floating=True))
    near, rest = _near(b, s, q)
    found = b.add(b.map("zeta", s, near), rest)
    # torch computes a sum of nothing as a difference of infinities, unless it diverges.
    one, zero = b.lift(1.0, s.dtype), b.lift(0.0, s.dtype)
    is_steep = _is_infinite(b, s)
    of_far = b.map("and", _is_infinite(b, q), b.compare("NE", s, one))
    of_steep = b.map("and", is_steep, b.compare("GT", q, one))
    found = b.select(b.map("or", of_far, of_steep), b.lift(math.nan, s.dtype), found)
    return b.select(b.map("and", is_steep, b.compare("LT", q, zero)), b.lift(math.inf, s.dtype), found)


def polygamma(b, n, x):
    """The derivative of order ``n`` of digamma: (-1) ** (n + 1) * n! * zeta(n + 1, x)."""
    if n < 0:
        raise b.unsupported("polygamma takes orders from 0 on")
    (x,) = b.promote(x, floating=True)
    if n == 0:
        return b.op("digamma", x)
    near, rest = _near(b, b.full(n + 1, x.shape, x.dtype), x)
    order = b.full(n, x.shape, x.dtype)
    factor = math.factorial(n) if n < 170 else math.inf
    found = b.add(b.map("polygamma", order, near), b.mul(rest, float(factor if n % 2 else -factor)))
    # torch reflects the first one at infinity, and has no sum there of the others.
    is_odd = b.compare("EQ", x, b.lift(-math.inf if n == 1 else math.inf, x.dtype))
    return b.select(is_odd, b.lift(math.nan, x.dtype), found)


def _is_infinite(b, q):
    return b.compare("EQ", q, b.lift(math.inf, q.dtype))


def _near(b, s, q):
    """An offset that is not deep, and what is to be added to its sum: f - 1 with q = f - N and
    0 <= f < 1, and the terms of j from 2 to N, which are (f - j) ** -s = (-1) ** s * (j - f) ** -s.
    """
    begin = b.op("floor", q)
    is_deep = b.map("and", b.compare("LT", q, b.lift(_DEEP, q.dtype)), b.compare("NE", begin, q))
    fraction = b.sub(q, begin)
    # A deep pole is one at -1, too.
    is_pole = b.map("and", b.compare("LT", q, b.lift(_DEEP, q.dtype)), b.compare("EQ", begin, q))
    near = b.select(is_deep, b.sub(fraction, 1.0), b.select(is_pole, b.lift(-1.0, q.dtype), q))
    two = b.lift(2.0, q.dtype)
    first = b.select(is_deep, b.sub(two, fraction), two)
    last = b.select(is_deep, b.sub(b.lift(1.0, q.dtype), q), two)
    terms = b.sub(b.map("zeta", s, first), b.map("zeta", s, last))
    half = b.mul(s, 0.5)
    is_even = b.compare("EQ", b.op("floor", half), half)
    terms = b.select(is_even, terms, b.neg(terms))
    # The first sum says all of other exponents.
    is_sum = b.map("and", is_deep, b.compare("GT", s, b.lift(1.0, s.dtype)))
    return near, b.select(is_sum, terms, b.lift(0.0, q.dtype))


TABLE = {
    "aten.special_zeta.default": zeta,
    "aten.special_zeta.other_scalar": zeta,
    "aten.special_zeta.self_scalar": zeta,
    "aten.polygamma.default": polygamma,
    "aten.special_polygamma.default": polygamma,
    # The order comes second in place.
    "aten.polygamma_.default": lambda b, x, n: polygamma(b, n, x),
}
