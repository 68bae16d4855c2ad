"""Fits of log_pair.rs: 2 atanh(s) = 2s + (2/3) s^3 + s^5 R(s^2)."""

import lattice
import mpmath as mp
import remez

top = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.0001")
series = lambda z: (
    mp.nsum(lambda k: 2 * z**k / (2 * k + 5), [0, mp.inf])
    if z < mp.mpf("1e-3")
    else (2 * mp.atanh(mp.sqrt(z)) - 2 * mp.sqrt(z) - 2 * mp.sqrt(z) ** 3 / 3) / mp.sqrt(z) ** 5
)
for name, n, fmt in (("TAIL_32", 4, "f32"), ("TAIL_64", 8, "f64")):
    coefs, error = lattice.fit(series, range(n), 0, top, fmt, degree=40)
    # Relative to the whole the error counts s^4 / 5 of that.
    remez.rust(name, coefs, error * top**2 / 5, fmt, 0, top)
