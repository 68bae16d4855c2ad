"""Compares f64 results with MPFR (or mpmath), or makes the table of the tests from them.

Input: lines `name operand.. result` of hexadecimal words, from
`cargo run --release -p disc-codegen --example ulp -- --dump all 20000`. Prints per function the
largest error in units in the last place. With `--table` it prints lines
`name operand.. exact-rounded residual` instead, the residual in units in the last place (exact
minus rounded). Needs gmpy2 and mpmath.
"""

import struct
import sys
from math import nextafter

import gmpy2
import mpmath
from gmpy2 import mpfr

CONTEXT = gmpy2.get_context()
CONTEXT.precision = 300
CONTEXT.emin, CONTEXT.emax = gmpy2.get_emin_min(), gmpy2.get_emax_max()
mpmath.mp.prec = 300
INF = mpfr("inf")


def word(h):
    return struct.unpack(">d", bytes.fromhex(h))[0]


def from_mp(f):
    def g(*args):
        if any(not gmpy2.is_finite(a) for a in args):
            return None
        v = f(*[mpmath.mpf(float(a)) for a in args])
        if isinstance(v, mpmath.mpc) or mpmath.isnan(v):
            return mpfr("nan")
        return mpfr(str(v)) if mpmath.isinf(v) else mpfr(mpmath.nstr(v, 90))

    return g


def normal_cdf_product(x):
    return x * gmpy2.erfc(-x / gmpy2.sqrt(mpfr(2))) / 2


def erf_inv(x):
    if abs(x) >= 1:
        return mpfr("nan") if abs(x) > 1 else x * INF
    y = mpmath.mpf(float(x))
    # A start from the tail, then Newton in high precision on erfc, which keeps the tail.
    t = abs(mpmath.mpf(x))
    if t == 0:
        return x
    w = mpmath.sqrt(-mpmath.log((1 - t) * (1 + t)))
    y = t * mpmath.sqrt(mpmath.pi) / 2 if t < 0.7 else w * mpmath.mpf("0.95")
    for _ in range(60):
        d = (
            (mpmath.erf(y) - t if t < 0.5 else (1 - t) - mpmath.erfc(y))
            * mpmath.sqrt(mpmath.pi)
            / 2
            * mpmath.exp(y * y)
        )
        step = d / (1 + y * d)
        y -= step
        if abs(step) < abs(y) * mpmath.mpf(2) ** -150:
            break
    return mpfr(mpmath.nstr(y, 90)) * (-1 if x < 0 else 1)


def softmax_exp(x):
    return gmpy2.exp(x) if -708 < x <= 0 else None


def exp_nonpositive(x):
    return gmpy2.exp(x) if x <= 0 else None


def logistic(x):
    return 1 / (1 + gmpy2.exp(-x))


def polygamma(n, x):
    if n != gmpy2.floor(n) or n < 0 or n > 60 or abs(x) > 1e15 or (x <= 0 and (x == gmpy2.floor(x) or n > 0)):
        return None
    return from_mp(lambda n, x: mpmath.polygamma(int(n), x))(n, x)


def hurwitz(s, q):
    if s <= 1 or q <= 0 or s > 200 or q > 1e12 or q < 1e-200 or s < 1.000001:
        return None
    return from_mp(lambda s, q: mpmath.zeta(s, q))(s, q)


def bessel_i1e(x):
    if abs(x) > 1e6:
        return None
    return from_mp(lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)))(x)


FUNCTIONS = {
    "exp": gmpy2.exp,
    "exp_nonpositive": exp_nonpositive,
    "exp2": gmpy2.exp2,
    "expm1": gmpy2.expm1,
    "softmax_exp": softmax_exp,
    "logistic": logistic,
    "log": gmpy2.log,
    "log2": gmpy2.log2,
    "log10": gmpy2.log10,
    "log1p": gmpy2.log1p,
    "tanh": gmpy2.tanh,
    "sinh": gmpy2.sinh,
    "cosh": gmpy2.cosh,
    "asinh": gmpy2.asinh,
    "acosh": gmpy2.acosh,
    "atanh": gmpy2.atanh,
    "sin": gmpy2.sin,
    "cos": gmpy2.cos,
    "tan": gmpy2.tan,
    "asin": gmpy2.asin,
    "acos": gmpy2.acos,
    "atan": gmpy2.atan,
    "atan2": gmpy2.atan2,
    "erf": gmpy2.erf,
    "erfc": gmpy2.erfc,
    "erf_inv": erf_inv,
    "gelu_erf": normal_cdf_product,
    "cbrt": gmpy2.cbrt,
    "rsqrt": gmpy2.rec_sqrt,
    "fmod": gmpy2.fmod,
    "next_after": lambda x, y: mpfr(nextafter(float(x), float(y))),
    "pow": lambda x, y: x**y,
    "lgamma": lambda x: gmpy2.lgamma(x)[0],
    "digamma": gmpy2.digamma,
    "bessel_i1e": bessel_i1e,
    "zeta": hurwitz,
    "polygamma": polygamma,
}


def magnitude(name, args, y):
    """The magnitude whose unit counts: for lgamma and digamma that of the terms that cancel (see
    reference.rs).
    """
    least = mpfr(0)
    if name == "polygamma" and args[0] == 0:
        return magnitude("digamma", args[1:], y)
    if name in ("lgamma", "digamma") and args[0] < 0:
        least = max(mpfr(1), abs(FUNCTIONS[name](mpfr(-args[0]))))
    elif name == "digamma":
        least = mpfr(1)
    return max(abs(y), least)


def ulp_exponent(y):
    """The exponent of the unit in the last place of f64 at y."""
    e = gmpy2.frexp(y)[0] - 53
    return min(max(e, -1074), 971)


def rounded(y):
    """(float, exact minus float in ulp)."""
    limit = mpfr(2) ** 1024 - mpfr(2) ** 970
    if gmpy2.is_infinite(y) or abs(y) >= limit:
        return (float("inf") if y > 0 else float("-inf")), 0.0
    if y == 0:
        return float(y), 0.0
    e = ulp_exponent(y)
    n = gmpy2.rint(y / mpfr(2) ** e)
    f = float(n * mpfr(2) ** e)
    return f, float(y / mpfr(2) ** e - n)


def main():
    table = "--table" in sys.argv
    worst = {}
    for line in sys.stdin:
        name, *words = line.split()
        args = [word(w) for w in words[:-1]]
        got = word(words[-1])
        f = FUNCTIONS.get(name)
        if f is None:
            continue
        y = f(*[mpfr(a) for a in args])
        if y is None:
            continue
        count, most, at = worst.get(name, (0, -1.0, None))
        if gmpy2.is_nan(y) or got != got:
            error = 0.0 if gmpy2.is_nan(y) and got != got else float("inf")
            text = "nan 0"
        else:
            exact, residual = rounded(y)
            text = struct.pack(">d", exact).hex() + f" {residual:+.3f}"
            if exact == got:
                error = abs(residual)
            elif abs(got) == float("inf") or abs(exact) == float("inf"):
                limit = mpfr(2) ** 1024
                clamp = lambda v: max(-limit, min(limit, mpfr(v)))
                error = float(abs(clamp(got) - clamp(y)) / mpfr(2) ** 971)
            else:
                scale = magnitude(name, args, y)
                error = float(abs(mpfr(got) - y) / mpfr(2) ** ulp_exponent(scale)) if y != 0 else float("inf")
        worst[name] = (count + 1, error, (args, got, y)) if error > most else (count + 1, most, at)
        if table:
            print(name, *words[:-1], text)
    if not table:
        for name, (count, error, at) in worst.items():
            shown = "" if at is None else f"at {at[0]} got {at[1]!r} exact {float(at[2])!r}"
            print(f"{name:12} {count:8} points {error:9.3f} ULP {shown}")


main()
