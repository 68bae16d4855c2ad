"""Evaluates polynomials and Chebyshev series of special functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch


def horner(x, coefficients: Sequence[float]):
    """A polynomial; the coefficient of the highest power comes first."""
    value = torch.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        value = value * x + c
    return value


def chebyshev(x, coefficients: Sequence[float]):
    """A series of Chebyshev polynomials of x / 2; the highest order comes first."""
    before, last, now = 0.0, 0.0, torch.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        before, last, now = last, now, x * now - last + c
    return 0.5 * (now - before)


def in_double(f: Callable) -> Callable:
    """``f`` computed in double precision, with a result of the type of its argument."""

    def steps(x):
        dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        return f(x.double()).to(dtype)

    return steps
