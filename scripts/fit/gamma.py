"""Fits of gamma.rs, bessel.rs and erf_inv.rs."""

import sys

import lattice
import mpmath as mp
from remez import rust

which = sys.argv[1:]


def show(name, f, n, lo, hi, fmt, degree=60, mode="relative"):
    if not which or any(name.startswith(w) for w in which):
        rust(name, *lattice.fit(f, range(n), lo, hi, fmt, degree=degree, mode=mode), fmt, lo, hi)


# lgamma(1 + u) = u (u - 1) P(u), on [0, 1].
def lgamma_part(u):
    if u == 0 or u == 1:
        u += mp.mpf(10) ** -60
    return mp.loggamma(1 + u) / (u * (u - 1))


show("LGAMMA_32", lgamma_part, 11, 0, 1, "f32", 90)
show("LGAMMA_64", lgamma_part, 23, 0, 1, "f64", 100)


# Stirling: lgamma(x) = (x - 1/2)(log x - 1) + (log 2 pi - 1) / 2 + P(1/x^2) / x, x >= 8.
def stirling(z):
    if z == 0:
        return mp.mpf(1) / 12
    x = 1 / mp.sqrt(z)
    with mp.workprec(900):
        return (mp.loggamma(x) - (x - mp.mpf(1) / 2) * (mp.log(x) - 1) - (mp.log(2 * mp.pi) - 1) / 2) * x


show("STIRLING_32", stirling, 2, 0, 1 / mp.mpf(64), "f32", 20)
show("STIRLING_64", stirling, 7, 0, 1 / mp.mpf(64), "f64", 24)


# digamma(x) = log x - 1 / (2x) - P(1/x^2) / x^2, x >= 3 or 7.
def digamma_tail(z):
    if z == 0:
        return mp.mpf(1) / 12
    x = 1 / mp.sqrt(z)
    with mp.workprec(900):
        return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) * x * x


show("DIGAMMA_32", digamma_tail, 4, 0, 1 / mp.mpf(9), "f32", 60)
show("DIGAMMA_64", digamma_tail, 9, 0, 1 / mp.mpf(49), "f64", 40)

# I1(x) = x P(x^2) up to 8 (f32) or 16 (f64); above, i1e(x) = P(c / x - 1) / sqrt(x), c = 16 or 32.
near = lambda z: mp.mpf(1) / 2 if z == 0 else mp.besseli(1, mp.sqrt(z)) / mp.sqrt(z)


def far(c):
    def f(t):
        if t == -1:
            return 1 / mp.sqrt(2 * mp.pi)
        x = c / (t + 1)
        return mp.besseli(1, x) * mp.exp(-x) * mp.sqrt(x)

    return f


show("NEAR_32", near, 11, 0, 64, "f32", 50)
show("FAR_32", far(16), 6, -1, 1, "f32", 40)
show("NEAR_64", near, 24, 0, 256, "f64", 70)
show("FAR_64", far(32), 18, -1, 1, "f64", 60)


# erf_inv(x) = x P(w - 2.5) with w = -log(1 - x^2) up to 5, x P(sqrt(w) - 3 or - 4) above.
def erf_inv_ratio(w):
    if w == 0:
        return mp.sqrt(mp.pi) / 2
    q = mp.exp(-w)  # (1 - x)(1 + x)
    x = mp.sqrt(1 - q)
    c = q / (1 + x)  # 1 - x, without cancellation
    y = mp.erfinv(x) if w < 20 else mp.sqrt(w) * mp.mpf("0.95")
    for _ in range(40):
        d = (mp.erfc(y) - c) * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
        y += d
        if abs(d) < mp.mpf(10) ** -80:
            break
    return y / x


show("CENTER", lambda v: erf_inv_ratio(v + mp.mpf(5) / 2), 10, -2.5, 2.5, "f32", 50)
show("TAIL_32", lambda v: erf_inv_ratio((v + 3) ** 2), 10, mp.sqrt(5) - 3, 1.1, "f32", 40)
show("TAIL_64", lambda v: erf_inv_ratio((v + 4) ** 2), 9, mp.sqrt(5) - 4, 2.15, "f64", 50)
