"""Fits of e^r = 1 + r + r^2 P(r), weighed for e^r - 1 (exp.rs)."""

import mpmath as mp
from remez import fit, rust

L = mp.log(2) / 2 * mp.mpf("1.0001")
for name, n, fmt in (("EXPM1_32", 6, "f32"), ("EXPM1_64", 11, "f64")):
    f = lambda x: mp.mpf(1) / 2 if x == 0 else (mp.expm1(x) - x) / x**2
    w = lambda x: abs(x**2 / mp.expm1(x)) if x else mp.mpf(10) ** -40
    rust(name, *fit(f, range(n), -L, L, fmt, w=w)[:2], fmt, -L, L)
