"""Modified Bessel functions, by the Chebyshev series of Cephes for exp(-x) I0(x),
the most frequent value of a row, isin, bits of floats.
"""

from __future__ import annotations

import torch

from .series import chebyshev

aten = torch.ops.aten
#: Of exp(-x) I0(x) for x of 0 to 8, in x / 2 - 2.
_NEAR = (
    -4.4153416464793395e-18,
    3.3307945188222384e-17,
    -2.431279846547955e-16,
    1.715391285555133e-15,
    -1.1685332877993451e-14,
    7.676185498604936e-14,
    -4.856446783111929e-13,
    2.95505266312964e-12,
    -1.726826291441556e-11,
    9.675809035373237e-11,
    -5.189795601635263e-10,
    2.6598237246823866e-09,
    -1.300025009986248e-08,
    6.046995022541919e-08,
    -2.670793853940612e-07,
    1.1173875391201037e-06,
    -4.4167383584587505e-06,
    1.6448448070728896e-05,
    -5.754195010082104e-05,
    0.00018850288509584165,
    -0.0005763755745385824,
    0.0016394756169413357,
    -0.004324309995050576,
    0.010546460394594998,
    -0.02373741480589947,
    0.04930528423967071,
    -0.09490109704804764,
    0.17162090152220877,
    -0.3046826723431984,
    0.6767952744094761,
)
#: Of exp(-x) sqrt(x) I0(x) beyond, in 32 / x - 2.
_FAR = (
    -7.233180487874754e-18,
    -4.830504485944182e-18,
    4.46562142029676e-17,
    3.461222867697461e-17,
    -2.8276239805165836e-16,
    -3.425485619677219e-16,
    1.7725601330565263e-15,
    3.8116806693526224e-15,
    -9.554846698828307e-15,
    -4.150569347287222e-14,
    1.54008621752141e-14,
    3.8527783827421426e-13,
    7.180124451383666e-13,
    -1.7941785315068062e-12,
    -1.3215811840447713e-11,
    -3.1499165279632416e-11,
    1.1889147107846439e-11,
    4.94060238822497e-10,
    3.3962320257083865e-09,
    2.266668990498178e-08,
    2.0489185894690638e-07,
    2.8913705208347567e-06,
    6.889758346916825e-05,
    0.0033691164782556943,
    0.8044904110141088,
)


def _floating(x):
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


def _wide(x):
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _scaled(x):
    """exp(-x) I0(x) for x of at least 0."""
    near = chebyshev(x.clamp(max=8) / 2 - 2, _NEAR)
    beyond = x.clamp(min=8)
    return torch.where(x <= 8, near, chebyshev(32 / beyond - 2, _FAR) / beyond.sqrt())


def i0(x):
    x = _floating(x)
    size = _wide(x).abs()
    grown = size.exp() * _scaled(size)
    # As torch has it: what is infinite is divided by what is.
    return torch.where(size == torch.inf, torch.full_like(size, torch.nan), grown).to(x.dtype)


def i0e(x):
    x = _floating(x)
    return _scaled(_wide(x).abs()).to(x.dtype)


def i1(x):
    x = _floating(x)
    wide = _wide(x)
    return (aten.special_i1e.default(wide) * wide.abs().exp()).to(x.dtype)


def frexp(x):
    """A mantissa of 1/2 to 1, and the exponent of 2, out of the bits."""
    wide = _wide(x)
    kind, low, mask, bias = (
        (torch.int64, 52, 0x7FF, 1022) if wide.dtype == torch.float64 else (torch.int32, 23, 0xFF, 126)
    )
    # A number whose exponent is the least has leading zeros.
    is_small = wide.abs() < torch.finfo(wide.dtype).tiny
    bits = torch.where(is_small, wide * 2.0 ** (low + 1), wide).view(kind)
    exponent = ((bits >> low) & mask) - bias - torch.where(is_small, low + 1, 0)
    mantissa = ((bits & ~(mask << low)) | (bias << low)).view(wide.dtype)
    is_plain = (wide == 0) | ~wide.isfinite()
    return torch.where(is_plain, x, mantissa.to(x.dtype)), torch.where(is_plain, 0, exponent).to(torch.int32)


def mode(x, dim=-1, keepdim=False):
    """The least of the most frequent values, and where it is last.

    What is no number equals nothing.
    """
    if not x.dim():
        return x.clone(), torch.zeros([], dtype=torch.int64)
    torch._check(x.shape[dim] > 0, lambda: "mode: expected at least one element")
    values, places = x.movedim(dim, -1).sort(dim=-1, stable=True)
    often = (values.unsqueeze(-1) == values.unsqueeze(-2)).sum(-1).clamp(min=1)
    most, first = often.max(-1, keepdim=True)
    found = values.gather(-1, first), places.gather(-1, first + most - 1)
    return tuple(t.movedim(-1, dim) if keepdim else t.squeeze(-1) for t in found)


def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """Each element beside the least test element that is not below it, whatever the sizes:
    torch asks which way is shorter.
    """
    dtype = torch.result_type(elements, test_elements)
    elements, tests = elements.to(dtype), test_elements.to(dtype).flatten().sort().values
    place = torch.searchsorted(tests, elements.contiguous())
    # After the last one is another, with which none is compared: there may be no test element.
    beside = torch.cat([tests, tests.new_zeros(1)])[place]
    found = (beside == elements) & (place < tests.shape[0])
    return ~found if invert else found
