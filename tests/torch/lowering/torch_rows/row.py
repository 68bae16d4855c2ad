"""Defines a row test: one overload, its arguments by shape and kind, the dtypes it runs in.

Sizes are names (``T("B N")``); a table binds them. Every row is captured once per dtype at the
first binding and then runs at every one: sizes 0 and 1 are always among them. A binding that eager
refuses is skipped, and at least one must run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

FLOATS = ("f32", "f64", "f16", "bf16")
INTS = ("i32", "i64")
NUMBERS = FLOATS + INTS
ALL = NUMBERS + ("bool",)
WIDE = ("f32", "f64")

TORCH = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "i32": torch.int32,
    "i64": torch.int64,
    "bool": torch.bool,
}

CAPTURE = {"B": 3, "N": 4, "M": 6, "K": 5, "H": 9, "W": 11, "D": 7}
BINDINGS = (
    CAPTURE,
    dict.fromkeys(CAPTURE, 1),
    {**CAPTURE, "B": 0},
    {**CAPTURE, "N": 0},
    {"B": 2, "N": 7, "M": 1, "K": 3, "H": 12, "W": 8, "D": 9},
)


@dataclass(frozen=True)
class T:
    """A tensor argument.

    ``kind`` says which values it has; ``dtype`` is fixed, or that of the run.
    """

    dims: str = "B N"
    kind: str = "any"
    dtype: str | None = None
    #: For the kinds "index" and "starts" (of parts, in order, the first at 0): the name or size
    #: that bounds it.
    below: str | int = "N"

    def shape(self, sizes: dict[str, int]) -> list[int]:
        return [int(d) if d.isdigit() else sizes[d] for d in self.dims.split()]


@dataclass(frozen=True)
class Row:
    overload: str
    args: tuple
    kwargs: dict[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = FLOATS
    #: False if the run with NaN and infinities does not compare.
    special: bool = True
    note: str = ""
    tolerance: float | None = None
    bindings: tuple[dict[str, int], ...] = BINDINGS
    #: The number of the op's results that the module returns: the others are only for training.
    #: All if it is None.
    results: int | None = None
    #: False if torch itself reads strided inputs wrongly.
    strided: bool = True

    @property
    def id(self) -> str:
        return f"{self.overload}{'-' + self.note if self.note else ''}"

    @property
    def tensors(self) -> list[T]:
        return [
            leaf for leaf in torch.utils._pytree.tree_leaves((self.args, self.kwargs)) if isinstance(leaf, T)
        ]


def row(
    overload: str,
    *args,
    dtypes=FLOATS,
    special=True,
    note="",
    tolerance=None,
    bindings=BINDINGS,
    results=None,
    strided=True,
    **kwargs,
) -> Row:
    return Row(f"aten.{overload}", args, kwargs, dtypes, special, note, tolerance, bindings, results, strided)


def unary(names: str, kind="any", dtypes=FLOATS, **options) -> list[Row]:
    return [row(f"{name}.default", T(kind=kind), dtypes=dtypes, **options) for name in names.split()]


def make(spec: T, sizes: dict[str, int], dtype: str, seed: int, special: bool = False) -> torch.Tensor:
    """The values of one argument."""
    generator = torch.Generator().manual_seed(seed)
    shape = spec.shape(sizes)
    dtype = spec.dtype or dtype
    if spec.kind == "index":
        bound = spec.below if isinstance(spec.below, int) else sizes[spec.below]
        return torch.randint(0, max(bound, 1), shape, generator=generator, dtype=TORCH[dtype])
    if spec.kind == "starts":
        bound = spec.below if isinstance(spec.below, int) else sizes[spec.below]
        starts = torch.randint(0, bound + 1, shape, generator=generator, dtype=TORCH[dtype]).sort().values
        starts[:1] = 0
        return starts
    if spec.kind == "permutation":
        order = torch.rand(shape, generator=generator).argsort(-1)
        return order.to(TORCH[dtype])
    if dtype == "bool":
        return torch.rand(shape, generator=generator) > 0.4
    if not TORCH[dtype].is_floating_point:
        return _integers(spec.kind, shape, generator).to(TORCH[dtype])
    x = _floats(spec.kind, shape, generator)
    if special and x.numel():
        flat = x.view(-1)
        for i, value in enumerate((float("nan"), float("inf"), -float("inf"), -0.0)):
            flat[(i * 3 + seed) % flat.numel()] = value
    return x.to(TORCH[dtype])


def _integers(kind, shape, generator):
    if kind == "distinct":
        count = torch.Size(shape).numel()
        return torch.randperm(count, generator=generator).reshape(shape) - 5
    low, high = {
        "positive": (1, 6),
        "shift": (0, 7),
        "exponent": (0, 4),
        "truth": (0, 2),
        "small": (-2, 3),
    }.get(kind, (-7, 8))
    x = torch.randint(low, high, shape, generator=generator)
    return torch.where(x == 0, 3, x) if kind == "nonzero" else x


def _floats(kind, shape, generator):
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
    return {
        "any": x * 2,
        "positive": uniform * 3 + 0.1,
        "unit": uniform * 1.96 - 0.98,
        "above1": uniform * 3 + 1.01,
        "probability": uniform * 0.9 + 0.05,
        "nonzero": torch.where(x.abs() < 0.2, 1.5, x),
        "ties": (x * 3).round() / 2,
        "spread": x * 20,
        "exponent": (x * 2).round(),
        "distinct": uniform.view(-1).argsort().double().view(shape) - 5,
        "sorted": x.sort().values,
        "truth": (uniform > 0.5).double(),
    }[kind]
