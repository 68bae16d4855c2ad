"""Computes with sizes: each is an int or a dim of the compiler, which has ``+ - * // %``,
``.min`` and ``.max``.
"""

from __future__ import annotations

Size = object  # an int, or a dim of the compiler


def is_int(size) -> bool:
    return isinstance(size, int)


def least(a, b):
    """The lesser of two sizes."""
    if is_int(a) and is_int(b):
        return min(a, b)
    return a if same(a, b) else (b.min(a) if is_int(a) else a.min(b))


def greatest(a, b):
    """The greater of two sizes."""
    if is_int(a) and is_int(b):
        return max(a, b)
    return a if same(a, b) else (b.max(a) if is_int(a) else a.max(b))


def same(a, b) -> bool:
    """Returns true if two sizes are one expression."""
    return bool(a == b)


def spread(value, n: int) -> list:
    """A number, or a list that may have one element for all, for ``n`` spatial axes."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * n if len(values) == 1 else values


def product(sizes):
    result = 1
    for size in sizes:
        result = result * size
    return result


def fold(f):
    """``f`` of two sizes as a function of a list of them."""

    def build(args):
        result = args[0]
        for arg in args[1:]:
            result = f(result, arg)
        return result

    return build


# Quotients: a size over a size that is positive wherever the quotient is a number.


def rounded_up(above, below):
    return (above + (below - 1)) // below


def rounded_to_zero(above, below):
    down = above // below
    if same(greatest(above, 0), above):
        return down
    return greatest(down, 0) + least(rounded_up(above, below), 0)


def rounded_to_even(above, below):
    """The nearest integer; of two that are as near, the even one.

    >>> [rounded_to_even(n, 2) for n in (1, 3, 5, -1, -3)]
    [0, 2, 2, 0, -2]
    """
    twice, step = above * 2 + below, below * 2
    up = twice // step
    # 1 where the number is in the middle, and the upper integer is odd.
    return up - greatest(1 - twice % step, 0) * (up % 2)


# Conditions as sizes: 1 where one holds, else 0.


def relation(sign: str, left, right):
    """1 where ``left sign right`` holds, else 0.

    >>> [relation(sign, 3, 4) for sign in ("==", "!=", "<", "<=", ">", ">=")]
    [0, 1, 1, 1, 0, 0]
    """
    less = right - left
    more = 0 - less
    if sign in ("==", "!="):
        differs = least(greatest(less, more), 1)
        return differs if sign == "!=" else 1 - differs
    above = {"<": less, "<=": less + 1, ">": more, ">=": more + 1}[sign]
    return least(greatest(above, 0), 1)


def chosen(condition, value, other):
    """``value`` where ``condition`` is 1, ``other`` where it is 0."""
    return other + (value - other) * condition
