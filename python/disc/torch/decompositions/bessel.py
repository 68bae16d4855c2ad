"""Bessel functions of order 0 and 1, those of the second kind, modified ones and Airy's, by the
rational approximations and Chebyshev series of Cephes.

Invariant: all are computed in double precision, where differences of nearly equal terms keep
enough digits for a result in single precision.
"""

from __future__ import annotations

import math

import torch

from .series import chebyshev, horner, in_double

aten = torch.ops.aten

# Quotients for J and Y beyond 5 (PP to QQ) and below it (RP, RQ; YP, YQ), series for K below 2 and
# beyond it (KA, KB), each for the orders 0 and 1.

_PP0 = (
    0.0007969367292973471,
    0.08283523921074408,
    1.239533716464143,
    5.447250030587687,
    8.74716500199817,
    5.303240382353949,
    1.0,
)
_PQ0 = (
    0.0009244088105588637,
    0.08562884743544745,
    1.2535274390105895,
    5.470977403304171,
    8.761908832370695,
    5.306052882353947,
    1.0,
)
_QP0 = (
    -0.011366383889846916,
    -1.2825271867050931,
    -19.553954425773597,
    -93.20601521237683,
    -177.68116798048806,
    -147.07750515495118,
    -51.41053267665993,
    -6.050143506007285,
)
_QQ0 = (
    64.3178256118178,
    856.4300259769806,
    3882.4018360540163,
    7240.467741956525,
    5930.727011873169,
    2062.0933166032783,
    242.0057402402914,
)
_RP0 = (
    -4794432209.782018,
    1956174919465.5657,
    -249248344360967.72,
    9708622510473064.0,
)
_RQ0 = (
    499.563147152651,
    173785.4016763747,
    48440965.83399621,
    11185553704.535683,
    2112775201154.892,
    310518229857422.56,
    3.1812195594320496e16,
    1.7108629408104315e18,
)
_YP0 = (
    15592.436785523574,
    -14663929.59039716,
    5435264770.518765,
    -982136065717.9115,
    87590639439536.7,
    -3466283033847297.0,
    4.4273326857256984e16,
    -1.8495080043698668e16,
)
_YQ0 = (
    1041.2835366425984,
    626107.330137135,
    268919633.39381415,
    86400248710.3935,
    20297961275010.555,
    3171577528429750.5,
    2.5059625617265306e17,
)
_KA0 = (
    1.374465435613523e-16,
    4.25981614279661e-14,
    1.0349695257633842e-11,
    1.904516377220209e-09,
    2.5347910790261494e-07,
    2.286212103119452e-05,
    0.001264615411446926,
    0.0359799365153615,
    0.3442898999246285,
    -0.5353273932339028,
)
_KB0 = (
    5.300433772686263e-18,
    -1.6475804301524212e-17,
    5.2103915050390274e-17,
    -1.678231096805412e-16,
    5.512055978524319e-16,
    -1.848593377343779e-15,
    6.3400764774050706e-15,
    -2.2275133269916698e-14,
    8.032890775363575e-14,
    -2.9800969231727303e-13,
    1.140340588208475e-12,
    -4.514597883373944e-12,
    1.8559491149547177e-11,
    -7.957489244477107e-11,
    3.577397281400301e-10,
    -1.69753450938906e-09,
    8.574034017414225e-09,
    -4.660489897687948e-08,
    2.766813639445015e-07,
    -1.8317555227191195e-06,
    1.39498137188765e-05,
    -0.00012849549581627802,
    0.0015698838857300533,
    -0.0314481013119645,
    2.4403030820659555,
)
_PP1 = (
    0.0007621256162081731,
    0.07313970569409176,
    1.1271960812968493,
    5.112079511468076,
    8.424045901417724,
    5.214515986823615,
    1.0,
)
_PQ1 = (
    0.0005713231280725487,
    0.06884559087544954,
    1.105142326340617,
    5.073863861286015,
    8.399855543276042,
    5.209828486823619,
    1.0,
)
_QP1 = (
    0.05108625947501766,
    4.982138729512334,
    75.82382841325453,
    366.7796093601508,
    710.8563049989261,
    597.4896124006136,
    211.68875710057213,
    25.207020585802372,
)
_QQ1 = (
    74.23732770356752,
    1056.4488603826283,
    4986.410583376536,
    9562.318924047562,
    7997.041604473507,
    2826.1927851763908,
    336.0936078106983,
)
_RP1 = (
    -899971225.7055594,
    452228297998.19403,
    -72749424522181.83,
    3682957328638529.0,
)
_RQ1 = (
    620.8364781180543,
    256987.25675774884,
    83514679.14319493,
    22151159547.97925,
    4749141220799.914,
    784369607876235.9,
    8.952223361846274e16,
    5.322786203326801e18,
)
_YP1 = (
    1263204747.9017804,
    -647355876379.1603,
    114509511541823.73,
    -8127702555013251.0,
    2.024394757135949e17,
    -7.788771962659501e17,
)
_YQ1 = (
    594.3015923461282,
    235564.09294306856,
    73481194.44597217,
    18760131610.870617,
    3882312774962.3857,
    620557727146953.8,
    6.871410873553005e16,
    3.9727060811656064e18,
)
_KA1 = (
    -7.023863479386288e-18,
    -2.427449850519366e-15,
    -6.666901694199329e-13,
    -1.4114883926335278e-10,
    -2.213387630734726e-08,
    -2.4334061415659684e-06,
    -0.0001730288957513052,
    -0.006975723859639864,
    -0.12261118082265715,
    -0.3531559607765449,
    1.5253002273389478,
)
_KB1 = (
    -5.756744483665017e-18,
    1.7940508731475592e-17,
    -5.689462558442859e-17,
    1.838093544366639e-16,
    -6.057047248373319e-16,
    2.038703165624334e-15,
    -7.019837090418314e-15,
    2.4771544244813043e-14,
    -8.976705182324994e-14,
    3.3484196660784293e-13,
    -1.2891739609510289e-12,
    5.13963967348173e-12,
    -2.1299678384275683e-11,
    9.218315187605006e-11,
    -4.1903547593418965e-10,
    2.015049755197033e-09,
    -1.0345762465678097e-08,
    5.7410841254500495e-08,
    -3.5019606030878126e-07,
    2.406484947837217e-06,
    -1.936197974166083e-05,
    0.00019521551847135162,
    -0.002857816859622779,
    0.10392373657681724,
    2.7206261904844427,
)

# Quotients for Ai beyond 2.09 (AN, AD) and below -2.09 (the others).

_AN = (
    0.346538101525629,
    12.007595273964581,
    76.27960536152345,
    168.08922493463058,
    159.75639135016442,
    70.53609068404442,
    14.026469116338967,
    1.0,
)
_AD = (
    0.5675945326387702,
    14.75625625848472,
    84.51389701414746,
    177.31808814540045,
    164.2346928715297,
    71.47784008255756,
    14.095913560783403,
    1.0,
)
_AFN = (
    -0.1316963234183318,
    -0.6264565444319123,
    -0.6931580360369335,
    -0.2797799815451191,
    -0.04919001326095003,
    -0.004062659235948854,
    -0.0001592764962392621,
    -2.776491081552329e-06,
    -1.6778769848911465e-08,
)
_AFD = (
    13.356042070655324,
    32.682503279522464,
    26.736704094149957,
    9.187074029072596,
    1.4752914677166642,
    0.11568717379518804,
    0.004402916416152112,
    7.547203482874142e-05,
    4.5185009297058035e-07,
)
_AGN = (
    0.01973399320916857,
    0.39110302961568827,
    1.0657989759959559,
    0.9391692298166502,
    0.35146565610554764,
    0.06338889196289255,
    0.005858041130483885,
    0.000282851600836737,
    6.98793669997261e-06,
    8.117892395543892e-08,
    3.415517847659236e-10,
)
_AGD = (
    9.30892908077442,
    19.835292871831214,
    15.564662893286462,
    5.476860694229755,
    0.9542936116189619,
    0.08645808263523921,
    0.004126565238242226,
    0.00010125908511650914,
    1.1716673321441352e-06,
    4.9183457006293e-09,
)

#: Roots of J squared, two for each order.
_ROOTS = (
    (5.78318596294678452118e00, 3.04712623436620863991e01),
    (1.46819706421238932572e01, 4.92184563216946036703e01),
)
_BEYOND = ((_PP0, _PQ0, _QP0, _QQ0), (_PP1, _PQ1, _QP1, _QQ1))
_BELOW = ((_RP0, _RQ0), (_RP1, _RQ1))
_SECOND = ((_YP0, _YQ0), (_YP1, _YQ1))
_MODIFIED = ((_KA0, _KB0), (_KA1, _KB1))
#: Terms of the power series of Ai for numbers of at most 2.09.
_AIRY_TERMS = 16


def _waves(x, order: int):
    """The two waves that J and Y are made of beyond 5, their phase, and the factor of both."""
    pp, pq, qp, qq = _BEYOND[order]
    z = 25.0 / (x * x)
    first = horner(z, pp) / horner(z, pq)
    second = 5.0 / x * (horner(z, qp) / horner(z, qq))
    phase = x - math.pi * (0.25 + 0.5 * order)
    return first, second, phase, math.sqrt(2 / math.pi) / x.sqrt()


def _j_below(x, order: int):
    square, (p, q), (a, b) = x * x, _BELOW[order], _ROOTS[order]
    value = horner(square, p) / horner(square, q) * (square - a) * (square - b)
    return value * x if order else value


def _j(x, order: int):
    size = x.abs()
    first, second, phase, factor = _waves(size, order)
    beyond = (first * phase.cos() - second * phase.sin()) * factor
    beyond = torch.where(x < 0, -beyond, beyond) if order else beyond
    return torch.where(size <= 5.0, _j_below(x, order), beyond)


def _y(x, order: int):
    first, second, phase, factor = _waves(x, order)
    beyond = (first * phase.sin() + second * phase.cos()) * factor
    square, (p, q) = x * x, _SECOND[order]
    value = horner(square, p) / horner(square, q)
    if order:
        below = x * value + 2 / math.pi * (_j_below(x, 1) * x.log() - 1.0 / x)
    else:
        below = value + 2 / math.pi * x.log() * _j_below(x, 0)
    below = torch.where(x == 0, -torch.inf, below)
    return torch.where(x < 0, torch.nan, torch.where(x <= 5.0, below, beyond))


def _k(x, order: int, is_scaled: bool = False):
    """K(x); times exp(x) if it is scaled."""
    near, far = _MODIFIED[order]
    series = chebyshev(x * x - 2.0, near)
    if order:
        below = (0.5 * x).log() * aten.special_modified_bessel_i1.default(x) + series / x
    else:
        below = series - (0.5 * x).log() * aten.special_modified_bessel_i0.default(x)
    beyond = chebyshev(8.0 / x - 2.0, far) / x.sqrt()
    below, beyond = (below * x.exp(), beyond) if is_scaled else (below, beyond * (-x).exp())
    found = torch.where(x <= 2.0, below, beyond)
    return torch.where(x < 0, torch.nan, torch.where(x == 0, torch.inf, found))


def _spherical_j0(x):
    square = x * x
    terms = [1.0 / math.factorial(2 * i + 1) * (-1) ** i for i in range(7)]
    near = horner(square, terms[::-1])
    found = torch.where(x.abs() < 0.5, near, x.sin() / x)
    return torch.where(x.abs() == torch.inf, 0.0, found)


def _airy(x):
    found = torch.where(x >= 2.09, _airy_beyond(x), torch.where(x < -2.09, _airy_waves(x), _airy_near(x)))
    found = torch.where(x > 103.892, 0.0, found)
    return torch.where(x.abs() == torch.inf, torch.nan, found)


def _airy_beyond(x):
    power = 2.0 * x * x.sqrt() / 3.0
    value = horner(1.0 / power, _AN) / horner(1.0 / power, _AD)
    return value / math.sqrt(math.pi) / (2.0 * x.sqrt().sqrt() * power.exp())


def _airy_waves(x):
    power = -2.0 * x * (-x).sqrt() / 3.0
    z = 1.0 / power
    square, t = z * z, power + 0.25 * math.pi
    sine = 1.0 + square * horner(square, _AFN) / horner(square, _AFD)
    cosine = z * horner(square, _AGN) / horner(square, _AGD)
    return (t.sin() * sine - t.cos() * cosine) / math.sqrt(math.pi) / (-x).sqrt().sqrt()


def _airy_near(x):
    cube = x * x * x
    f, g = [1.0], [1.0]
    for i in range(_AIRY_TERMS):
        f.append(f[-1] / ((3 * i + 2) * (3 * i + 3)))
        g.append(g[-1] / ((3 * i + 3) * (3 * i + 4)))
    return 0.355028053887817239260 * horner(cube, f[::-1]) - 0.258819403792806798405 * x * horner(
        cube, g[::-1]
    )


OWN = {
    aten.special_airy_ai.default: in_double(_airy),
    aten.special_bessel_j0.default: in_double(lambda x: _j(x, 0)),
    aten.special_bessel_j1.default: in_double(lambda x: _j(x, 1)),
    aten.special_bessel_y0.default: in_double(lambda x: _y(x, 0)),
    aten.special_bessel_y1.default: in_double(lambda x: _y(x, 1)),
    aten.special_modified_bessel_i0.default: in_double(aten.i0.default),
    aten.special_modified_bessel_i1.default: in_double(aten.special_i1.default),
    aten.special_modified_bessel_k0.default: in_double(lambda x: _k(x, 0)),
    aten.special_modified_bessel_k1.default: in_double(lambda x: _k(x, 1)),
    aten.special_scaled_modified_bessel_k0.default: in_double(lambda x: _k(x, 0, is_scaled=True)),
    aten.special_scaled_modified_bessel_k1.default: in_double(lambda x: _k(x, 1, is_scaled=True)),
    aten.special_spherical_bessel_j0.default: in_double(_spherical_j0),
}
