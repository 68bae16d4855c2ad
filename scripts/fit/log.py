"""Fits of log.rs."""

import mpmath as mp
from remez import fit, rust

WIDEN = mp.mpf("1.00001")
lo, hi = (mp.sqrt(mp.mpf(1) / 2) - 1) * WIDEN, (mp.sqrt(2) - 1) * WIDEN
tail = lambda x: mp.mpf(1) / 3 if x == 0 else (mp.log1p(x) - x + x * x / 2) / x**3
weight = lambda x: abs(x**3 / mp.log1p(x)) if x else mp.mpf(10) ** -40
rust("LOG_32", *fit(tail, range(8), lo, hi, "f32", w=weight)[:2], "f32", lo, hi)
# log((1 + s) / (1 - s)) = 2s + s^3 R(s^2)
top = (hi / (2 + hi)) ** 2 * mp.mpf("1.0001")
odd = lambda z: mp.mpf(2) / 3 if z == 0 else (2 * mp.atanh(mp.sqrt(z)) - 2 * mp.sqrt(z)) / mp.sqrt(z) ** 3
rust("LOG_64", *fit(odd, range(7), 0, top, "f64", w=lambda z: z / 2)[:2], "f64", 0, top)
