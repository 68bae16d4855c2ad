"""Dims of the stub builder: sympy expressions with the sizes of one run,
so symbolic and concrete shapes check each other.
"""

from __future__ import annotations

import sympy


class StubDim:
    def __init__(self, expr, env: dict):
        self.expr = sympy.sympify(expr)
        self.env = env

    @property
    def size(self) -> int:
        value = self.expr.xreplace({s: sympy.Integer(self.env[str(s)]) for s in self.expr.free_symbols})
        return int(value)

    def _other(self, other):
        return other.expr if isinstance(other, StubDim) else sympy.Integer(other)

    def _make(self, expr):
        expr = sympy.expand(expr)
        return int(expr) if expr.is_Integer else StubDim(expr, self.env)

    def __add__(self, other):
        return self._make(self.expr + self._other(other))

    __radd__ = __add__

    def __sub__(self, other):
        return self._make(self.expr - self._other(other))

    def __rsub__(self, other):
        return self._make(self._other(other) - self.expr)

    def __mul__(self, other):
        return self._make(self.expr * self._other(other))

    __rmul__ = __mul__

    def __floordiv__(self, other):
        return self._make(sympy.floor(self.expr / self._other(other)))

    def __rfloordiv__(self, other):
        return self._make(sympy.floor(self._other(other) / self.expr))

    def __mod__(self, other):
        return self._make(sympy.Mod(self.expr, self._other(other)))

    def __rmod__(self, other):
        return self._make(sympy.Mod(self._other(other), self.expr))

    def min(self, other):
        return self._make(sympy.Min(self.expr, self._other(other)))

    def max(self, other):
        return self._make(sympy.Max(self.expr, self._other(other)))

    def __eq__(self, other):
        if not isinstance(other, (int, StubDim)):
            return NotImplemented
        distance = sympy.expand(self.expr - self._other(other))
        return distance == 0 or distance in self.env["="] or sympy.expand(-distance) in self.env["="]

    def __hash__(self):
        return hash(self.expr)

    def __repr__(self) -> str:
        return str(self.expr)


def concrete(size) -> int:
    return size.size if isinstance(size, StubDim) else int(size)
