"""Fits of erf.rs."""

import lattice
import mpmath as mp
import remez

# erf(x) = -expm1(-x P(x)): the weight turns an error of P into a relative error of erf.
p = lambda x: 2 / mp.sqrt(mp.pi) if x == 0 else -mp.log(mp.erfc(x)) / x
w = lambda x: mp.erfc(x) * x / mp.erf(x) if x else mp.sqrt(mp.pi) / 2
remez.rust("ERF_32", *remez.fit(p, range(9), 0, 3.95, "f32", w=w)[:2], "f32", 0, 3.95)

# erf(x) = x + x P(x^2).
small = lambda z: 2 / mp.sqrt(mp.pi) - 1 if z == 0 else mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1
for name, n, top, fmt in (("ERF_SMALL_32", 5, 0.25, "f32"), ("ERF_64", 13, 1.0, "f64")):
    remez.rust(
        name, *remez.fit(small, range(n), 0, top, fmt, w=lambda z: 1 / (1 + small(z)))[:2], fmt, 0, top
    )

# GELU: 2^Q(a) = Phi(-a), weighed for max(x, 0) - |x| Phi(-|x|) at x > 0.
phi = lambda a: mp.erfc(a / mp.sqrt(2)) / 2
remez.rust(
    "GELU_32",
    *remez.fit(
        lambda a: mp.log(phi(a), 2), range(9), 0, 13.5, "f32", w=lambda a: mp.log(2) * phi(a) / (1 - phi(a))
    )[:2],
    "f32",
    0,
    13.5,
)

# erfc(x) = exp(-x^2) P(t) / (1 + 2x), t = (x - K) / (x + K).
for name, k, top, n, fmt in (("ERFC_32", 2, "10.1", 10, "f32"), ("ERFC_64", 4, "27.3", 22, "f64")):

    def scaled(t):
        x = k * (1 + t) / (1 - t)
        return mp.erfc(x) * mp.exp(x * x) * (1 + 2 * x)

    hi = (mp.mpf(top) - k) / (mp.mpf(top) + k)
    remez.rust(name, *lattice.fit(scaled, range(n), -1, hi, fmt, degree=70), fmt, -1, hi)
