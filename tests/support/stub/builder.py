"""A stand-in for the compiler: the builder's interface,
with every op computed by torch as it is emitted.

Conversion is run once per set of sizes; every result is checked to have the shape that the symbolic
types say. The meaning of the ops here follows their documentation in the op table, not the bridge.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch
from disc.torch.lowering.promotion import DTYPES

from .dims import StubDim, concrete
from .ops import OPS


@dataclass
class StubValue:
    dims: list
    dtype: str
    data: torch.Tensor

    @property
    def shape(self) -> tuple:
        return tuple(self.dims)

    def __repr__(self) -> str:
        return f"<{'x'.join(map(str, self.dims))}x{self.dtype}>"


class StubBuilder:
    """``sizes`` binds the names of dims; ``inputs`` and ``weights`` are the tensors of this run."""

    def __init__(
        self, sizes: dict[str, int], inputs: dict[str, torch.Tensor], weights: dict[str, torch.Tensor]
    ):
        self.env = {**sizes, "=": set()}
        self.inputs = inputs
        self.weights = weights
        self.outputs: list[torch.Tensor] = []
        self.names: list[str] = []

    def _dim(self, size):
        if isinstance(size, str):
            return StubDim(sympy.Symbol(size, integer=True, nonnegative=True), self.env)
        return size

    def _value(self, dims, dtype: str, data: torch.Tensor, what: str) -> StubValue:
        dims = [self._dim(d) for d in dims]
        assert tuple(concrete(d) for d in dims) == tuple(data.shape), (
            f"{what}: {dims} at {self.env} is not {tuple(data.shape)}"
        )
        assert DTYPES[dtype] == data.dtype, f"{what}: {dtype} is not {data.dtype}"
        return StubValue(dims, dtype, data)

    def input(self, name, dims, dtype):
        for size, d in zip(self.inputs[name].shape, dims, strict=True):
            if isinstance(d, str):
                known = self.env.setdefault(d, int(size))
                assert known == size, f"{d} is {known} and {size}"
        return self._value(dims, dtype, self.inputs[name], f"input {name}")

    def weight(self, name, dims, dtype):
        return self._value(dims, dtype, self.weights[name], f"weight {name}")

    def constant(self, array, dims, dtype):
        data = torch.as_tensor(array).to(DTYPES[dtype])
        return self._value(dims, dtype, data.expand([concrete(d) for d in dims]).clone(), "constant")

    def dim(self, expr):
        return StubValue([], "i64", torch.tensor(concrete(expr)))

    def fact(self, text: str):
        self.names.append(text)
        left, sign, right = text.rpartition(next(s for s in ("==", "<=", ">=", "<", ">") if s in text))
        names = {n: sympy.Integer(v) for n, v in self.env.items() if n != "="}
        a, b = (eval(side.replace("//", "/"), _FUNCTIONS, names) for side in (left, right))
        holds = {"==": a == b, "<=": a <= b, ">=": a >= b, "<": a < b, ">": a > b}[sign]
        if sign == "==":
            symbols = {n: sympy.Symbol(n, integer=True, nonnegative=True) for n in self.env}
            whole = [eval(side.replace("//", "/"), _FUNCTIONS, symbols) for side in (left, right)]
            self.env["="].add(sympy.expand(whole[0] - whole[1]))
        if not holds:
            raise FactViolated(text)

    def equal(self, left, right) -> bool:
        return bool(left == right)

    def output(self, values):
        self.outputs = [v.data for v in values]

    def _body(self, types, emit) -> str:
        """Names a region by running it on scalars: ops of these tests apply one op, or compare."""
        start = len(self.names)
        values = []
        for i, (dims, dtype) in enumerate(types):
            values.append(StubValue(list(dims), dtype, torch.tensor(i % 2).to(DTYPES[dtype])))
        (result,) = emit(*values)
        made = self.names[start:]
        del self.names[start:]
        if "compare" in made:
            return "ascending" if bool(result.data) else "descending"
        return made[0] if made else "overwrite"

    def op(self, name, operands, result_types=None, regions=None, **attrs):
        assert all(isinstance(v, StubValue) for v in operands), f"{name}: {operands}"
        self.names.append(name)
        if regions:
            attrs["applies"] = self._body(*regions[0])
        try:
            results = OPS[name](operands, result_types, **attrs)
        except (AssertionError, RuntimeError, ValueError, TypeError) as error:
            raise AssertionError(
                f"{name}({operands}, {result_types}, {attrs}): {type(error).__name__}: {error}"
            ) from error
        made = [self._value(dims, dtype, data, name) for dims, dtype, data in results]
        return made[0] if len(made) == 1 else made


_FUNCTIONS = {"floor": sympy.floor, "Min": sympy.Min, "Max": sympy.Max, "Mod": sympy.Mod}


class FactViolated(Exception):
    """These sizes are outside of the signature."""
