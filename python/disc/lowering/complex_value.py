"""A complex value as its two parts, which are values of the emitter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Complex:
    re: Any
    im: Any

    def map(self, f) -> Complex:
        return Complex(f(self.re), f(self.im))
