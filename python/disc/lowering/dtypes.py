"""Defines the element types of the compiler, their limits,
and what an emitter asks of a framework's promotion rules.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

FLOATS = ("f16", "bf16", "f32", "f64")
HALVES = ("f16", "bf16")
INTS = ("i8", "i16", "i32", "i64", "u8")
_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 8}


class Promotion(Protocol):
    """The rules by which a framework chooses the type of a result."""

    def default_float(self) -> str:
        """The type of a float that nothing else decides."""

    def scalar_type(self, value: Any) -> str:
        """The type of a Python number."""

    def promote(self, tensors: list[str], scalars: list[str], numbers: list[str]) -> str:
        """The common type of tensors with dimensions, tensors without,
        and Python numbers, given by type.
        """


def category(name: str) -> int:
    """0 for bool, 1 for integers, 2 for floats."""
    return 0 if name == "i1" else 2 if name in FLOATS else 1


def neutral(how: str, dtype: str):
    """The value that changes nothing when it is combined by ``how``."""
    if how in ("add", "or", "multiply", "and"):
        return 0 if how in ("add", "or") else 1
    return lowest(dtype) if how == "maximum" else highest(dtype)


def lowest(dtype: str):
    """The least value of a type.

    >>> lowest("f16"), lowest("i8"), lowest("u8"), lowest("i1")
    (-inf, -128, 0, False)
    """
    if dtype in FLOATS:
        return -math.inf
    return False if dtype == "i1" else 0 if dtype == "u8" else -(1 << (_BITS[dtype] - 1))


def highest(dtype: str):
    """The greatest value of a type.

    >>> highest("bf16"), highest("i8"), highest("u8"), highest("i1")
    (inf, 127, 255, True)
    """
    if dtype in FLOATS:
        return math.inf
    return True if dtype == "i1" else 255 if dtype == "u8" else (1 << (_BITS[dtype] - 1)) - 1


def wrapped(value, dtype: str):
    """A number as a literal of ``dtype``: an integer that is too large wraps around,
    as in two's complement.

    >>> wrapped(200, "i8"), wrapped(-1, "u8"), wrapped(0.5, "f32")
    (-56, 255, 0.5)
    """
    if dtype in INTS and isinstance(value, (int, float)) and not isinstance(value, bool):
        width = _BITS[dtype]
        value = int(value) & ((1 << width) - 1)
        return value - (1 << width) if dtype != "u8" and value >= 1 << (width - 1) else value
    return value
