"""Minimax fits whose coefficients are f32 or f64 from the start: Sollya's `fpminimax`, for any
function that mpmath can evaluate.

The function goes to Sollya as its Chebyshev interpolant of high degree, which is exact to far below
the format's precision.
"""

import subprocess

import mpmath as mp


def interpolant(f, lo, hi, degree):
    """Coefficients (lowest power first) of the polynomial that interpolates f in Chebyshev nodes,
    as mpf.
    """
    with mp.workprec(600):
        lo, hi = mp.mpf(lo), mp.mpf(hi)
        n = degree + 1
        nodes = [mp.cos(mp.pi * (2 * k + 1) / (2 * n)) for k in range(n)]
        values = [f((lo + hi) / 2 + (hi - lo) / 2 * u) for u in nodes]
        cheb = [
            2 * sum(v * mp.cos(mp.pi * j * (2 * k + 1) / (2 * n)) for k, v in enumerate(values)) / n
            for j in range(n)
        ]
        cheb[0] /= 2
        # Chebyshev to monomials in u, then u = (2x - lo - hi) / (hi - lo).
        prev, cur, total = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)], [mp.mpf(0)] * n
        for j in range(n):
            t = prev if j == 0 else cur
            for i, c in enumerate(t):
                total[i] += cheb[j] * c
            if j > 0:
                nxt = [mp.mpf(0)] + [2 * c for c in cur]
                for i, c in enumerate(prev):
                    nxt[i] -= c
                prev, cur = cur, nxt
        a, b = 2 / (hi - lo), -(lo + hi) / (hi - lo)
        result = [mp.mpf(0)]
        for c in reversed(total):
            shifted = [mp.mpf(0)] * (len(result) + 1)
            for i, r in enumerate(result):
                shifted[i] += b * r
                shifted[i + 1] += a * r
            shifted[0] += c
            result = shifted
        return result[:n]


def fit(f, powers, lo, hi, fmt, degree=60, fixed=None, mode="relative"):
    """fpminimax of f. Returns ({power: float}, error)."""
    with mp.workprec(600):
        poly = interpolant(f, lo, hi, degree)
        text = "+".join(f"({mp.nstr(c, 120)})*x^{i}" for i, c in enumerate(poly))
        part = "+".join(f"({mp.nstr(c, 60)})*x^{i}" for i, c in (fixed or {}).items()) or "0"
        span = f"[{mp.nstr(mp.mpf(lo), 40)};{mp.nstr(mp.mpf(hi), 40)}]"
    kind = {"f32": "SG", "f64": "D"}[fmt]
    script = f"""prec = 500; display = decimal;
f = {text};
p = fpminimax(f, [|{",".join(map(str, powers))}|], [|{kind}...|], {span}, {part}, {mode});
for i from 0 to degree(p) do print("C", i, round(coeff(p, i), D, RN));
q = p - f; if ("{mode}" == "relative") then q = p / f - 1;
print("E", round(log2(dirtyinfnorm(q, {span})), 20, RN));
"""
    out = subprocess.run(["sollya", "--warnonstderr"], input=script, capture_output=True, text=True).stdout
    coefs, error = {}, None
    for line in out.splitlines():
        w = line.split()
        if w and w[0] == "C" and int(w[1]) in powers:
            coefs[int(w[1])] = mp.mpf(w[2])
        elif w and w[0] == "E":
            error = mp.mpf(2) ** mp.mpf(w[1])
    if not coefs:
        raise RuntimeError(out)
    return coefs, error
