"""Defines the condition that a product of floats rounds to an integer where the
exact product is one.
"""

from __future__ import annotations

from fractions import Fraction

import sympy


class RoundsAlike(sympy.Function):
    """Of a size, a factor and a fraction:
    whether the product of floats is an integer (or a half) where the exact one is.
    """

    nargs = 3

    @staticmethod
    def holds(size: int, factor: Fraction, near: Fraction) -> bool:
        """Returns true if the condition holds.

        >>> [RoundsAlike.holds(size, Fraction(0.7), Fraction(7, 10)) for size in (10, 90)]
        [True, False]
        """
        exact = near * size
        return (2 * exact).denominator != 1 or float(factor) * size == exact
