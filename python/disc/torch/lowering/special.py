"""Lowers the Hurwitz zeta function, and the derivatives of digamma."""

from __future__ import annotations


def zeta(b, s, q):
    return b.compose("zeta", *b.promote(s, q, floating=True))


def polygamma(b, n, x):
    if n < 0:
        raise b.unsupported("polygamma takes orders from 0 on")
    return b.compose("polygamma", *b.promote(x, floating=True), n=n)


TABLE = {
    "aten.special_zeta.default": zeta,
    "aten.special_zeta.other_scalar": zeta,
    "aten.special_zeta.self_scalar": zeta,
    "aten.polygamma.default": polygamma,
    "aten.special_polygamma.default": polygamma,
    # The order comes second in place.
    "aten.polygamma_.default": lambda b, x, n: polygamma(b, n, x),
}
