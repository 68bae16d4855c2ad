"""Functions of the normal distribution: its inverse by the quotients of Cephes, exp(x^2) erfc(x) by
a Chebyshev series, and the logarithm of the distribution.

Invariant: computed in double precision.
"""

from __future__ import annotations

import math

import torch

from .series import chebyshev, horner, in_double

aten = torch.ops.aten

# Quotients in the square of y - 1/2 (P0, Q0), and in 1 / sqrt(-2 log y), below 8 (P1, Q1) and
# beyond it (P2, Q2).

_P0 = (
    -59.96335010141079,
    98.00107541859997,
    -56.67628574690703,
    13.931260938727968,
    -1.2391658386738125,
)
_Q0 = (
    1.0,
    1.9544885833814176,
    4.676279128988815,
    86.36024213908905,
    -225.46268785411937,
    200.26021238006066,
    -82.03722561683334,
    15.90562251262117,
    -1.1833162112133,
)
_P1 = (
    4.0554489230596245,
    31.525109459989388,
    57.16281922464213,
    44.08050738932008,
    14.684956192885803,
    2.1866330685079025,
    -0.1402560791713545,
    -0.03504246268278482,
    -0.0008574567851546854,
)
_Q1 = (
    1.0,
    15.779988325646675,
    45.39076351288792,
    41.3172038254672,
    15.04253856929075,
    2.504649462083094,
    -0.14218292285478779,
    -0.03808064076915783,
    -0.0009332594808954574,
)
_P2 = (
    3.2377489177694603,
    6.915228890689842,
    3.9388102529247444,
    1.3330346081580755,
    0.20148538954917908,
    0.012371663481782003,
    0.00030158155350823543,
    2.6580697468673755e-06,
    6.239745391849833e-09,
)
_Q2 = (
    1.0,
    6.02427039364742,
    3.6798356385616087,
    1.3770209948908132,
    0.21623699359449663,
    0.013420400608854318,
    0.00032801446468212774,
    2.8924786474538068e-06,
    6.790194080099813e-09,
)

#: Of (1 + 2x) exp(x^2) erfc(x), in 2 (x - 3) / (x + 3), for x of at least 0.
_ERFCX = (
    1.0005102297674806e-16,
    2.351346907197402e-16,
    -1.5169903219446796e-15,
    -7.287942087354502e-15,
    1.973426142421724e-14,
    1.8134502946906392e-13,
    -2.0792248011642e-13,
    -4.277340048960514e-12,
    1.4757159940088035e-12,
    1.0361607447819004e-10,
    -1.4600791180679637e-11,
    -2.699519049780341e-09,
    1.885668523855065e-09,
    7.549828343826504e-08,
    -1.8075227904147265e-07,
    -2.007228565905984e-06,
    1.2841532864056675e-05,
    1.766171952317159e-05,
    -0.0006335531710553147,
    0.004453426061462712,
    -0.018976596707845208,
    0.05436652555744322,
    -0.09377550342284209,
    0.005353904539615676,
    2.35512514839312,
)
#: exp(-2): nearer to 1/2 than this is the middle.
_TAIL = 0.13533528323661269189


def _ndtri(y):
    upper = y > 1.0 - _TAIL
    low = torch.where(upper, 1.0 - y, y)
    centre = low - 0.5
    square = centre * centre
    middle = centre + centre * (square * horner(square, _P0) / horner(square, _Q0))
    x = (-2.0 * low.log()).sqrt()
    z = 1.0 / x
    near = horner(z, _P1) / horner(z, _Q1)
    tail = x - x.log() / x - z * torch.where(x < 8.0, near, horner(z, _P2) / horner(z, _Q2))
    found = torch.where(low > _TAIL, middle * math.sqrt(2 * math.pi), torch.where(upper, tail, -tail))
    found = torch.where(y == 0, -torch.inf, torch.where(y == 1, torch.inf, found))
    return torch.where((y < 0) | (y > 1), torch.nan, found)


def _erfcx(x):
    size = x.abs()
    # Beyond, the argument of the series is 2 up to rounding, and infinity over infinity at the end.
    near = size.clamp(max=1e18)
    value = chebyshev(2.0 * (near - 3.0) / (near + 3.0), _ERFCX) / (1.0 + 2.0 * size)
    return torch.where(x < 0, 2.0 * (x * x).exp() - value, value)


def _log_ndtr(x):
    t = x * math.sqrt(0.5)
    below = (_erfcx(-t) / 2.0).log() - t * t
    return torch.where(x < -1.0, below, (-aten.erfc.default(t) / 2.0).log1p())


OWN = {
    aten.special_erfcx.default: in_double(_erfcx),
    aten.special_log_ndtr.default: in_double(_log_ndtr),
    aten.special_ndtri.default: in_double(_ndtri),
}
