"""Minimax polynomial fits with coefficients rounded to f32 or f64 (Remez exchange in mpmath).

Coefficients are rounded from the lowest power upwards; after each rounding the remaining ones are
fitted again, so that the later coefficients absorb the rounding of the earlier ones. Needs `mpmath`
(and `gmpy2` for speed).
"""

import struct

import mpmath as mp

mp.mp.prec = 200


def round_to(x, fmt):
    """Round-to-nearest-even of an mpf to f32 or f64, as an mpf."""
    if fmt is None:
        return mp.mpf(x)
    with mp.workprec(24 if fmt == "f32" else 53):
        return +mp.mpf(x)


def _solve(f, w, powers, points, fixed):
    n = len(powers)
    a, b = mp.matrix(n + 1, n + 1), mp.matrix(n + 1, 1)
    for i, x in enumerate(points):
        for j, p in enumerate(powers):
            a[i, j] = x**p * w(x)
        a[i, n] = (-1) ** i
        b[i] = (f(x) - sum(c * x**p for p, c in fixed.items())) * w(x)
    s = mp.lu_solve(a, b)
    return [s[i] for i in range(n)]


def _extrema(err, grid):
    """Alternating extrema of err on the grid: one point of largest |err| per sign run."""
    best, sign = [], 0
    for x in grid:
        e = err(x)
        s = 1 if e > 0 else -1
        if s != sign:
            best.append((x, e))
            sign = s
        elif abs(e) > abs(best[-1][1]):
            best[-1] = (x, e)
    return best


def remez(f, powers, lo, hi, w, fixed, iterations=30, grid_size=None):
    """Minimax fit of f by sum c_p x^p plus the fixed part, weighted by w. Returns (coefficients,
    max weighted error).
    """
    n = len(powers)
    lo, hi = mp.mpf(lo), mp.mpf(hi)
    cheb = lambda k, m: (lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * k / m)
    m = grid_size or 24 * (n + 1)
    grid = [cheb(k, m) for k in range(m + 1)]
    part = lambda x: sum(c * x**p for p, c in fixed.items())
    if n == 0:
        return [], max(abs((f(x) - part(x)) * w(x)) for x in grid)
    points = [cheb(k, n) for k in range(n + 1)]
    points = [
        x + (hi - lo) / 64 if w(x) < w(x + (hi - lo) / 64) / 1000 else x for x in points
    ]  # off a zero of the weight
    coefs, worst = None, mp.inf
    for _ in range(iterations):
        c = _solve(f, w, powers, points, fixed)
        err = lambda x: (f(x) - part(x) - sum(ck * x**p for ck, p in zip(c, powers))) * w(x)
        ext = _extrema(err, grid)
        m_err = max(abs(e) for _, e in ext)
        if m_err < worst:
            worst, coefs = m_err, c
        while len(ext) > n + 1:
            if len(ext) == n + 2 or abs(ext[0][1]) < abs(ext[-1][1]):
                ext.pop(0 if abs(ext[0][1]) < abs(ext[-1][1]) else -1)
            else:
                k = min(range(len(ext)), key=lambda i: abs(ext[i][1]))
                if 0 < k < len(ext) - 1:
                    nb = k + 1 if abs(ext[k + 1][1]) < abs(ext[k - 1][1]) else k - 1
                    for i in sorted((k, nb), reverse=True):
                        ext.pop(i)
                else:
                    ext.pop(k)
        if len(ext) < n + 1:
            break
        points = [x for x, _ in ext[: n + 1]]
        if min(abs(e) for _, e in ext) > m_err * mp.mpf("0.999"):
            break
    return coefs, worst


def fit(f, powers, lo, hi, fmt, w=None, fixed=None, exact=()):
    """Rounded minimax fit. `exact`: how many of the leading powers keep unrounded (None) format.

    Returns ({power: mpf}, error, ideal error).
    """
    cache = {}

    def g(x):
        if x not in cache:
            cache[x] = f(x)
        return cache[x]

    weight = w or (lambda x: 1 / abs(g(x)))
    known, todo = dict(fixed or {}), list(powers)
    ideal = None
    while todo:
        c, e = remez(g, todo, lo, hi, weight, known)
        ideal = ideal if ideal is not None else e
        known[todo[0]] = round_to(c[0], fmt)
        todo.pop(0)
    _, e = remez(g, [], lo, hi, weight, known, grid_size=4000)
    return known, e, ideal


def literal(c, fmt):
    if fmt == "f32":
        v = struct.unpack("f", struct.pack("f", float(c)))[0]
        for d in range(6, 18):
            s = f"{v:.{d}g}"
            if struct.unpack("f", struct.pack("f", float(s)))[0] == v:
                break
    else:
        s = repr(float(c))
    return s if any(ch in s for ch in ".e") else s + ".0"


def rust(name, coefs, err, fmt, lo, hi):
    powers = sorted(coefs)
    body = ", ".join(literal(coefs[p], fmt) for p in powers)
    interval = f"[{mp.nstr(mp.mpf(lo), 6)}, {mp.nstr(mp.mpf(hi), 6)}]"
    print(f"/// {interval}, powers {powers[0]}..{powers[-1]}, error 2^{mp.nstr(mp.log(err, 2), 4)}.")
    print(f"const {name}: [f64; {len(powers)}] = [{body}];", flush=True)
