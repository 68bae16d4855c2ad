"""Computes layouts of tensors and fake results of views from sizes as they are written,
without asking torch.

Invariants:

- the order of axes that is found holds for all sizes of at least 2;
- a product of sizes is another one only if it is written with the same factors.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

import sympy
import torch

from ..symbolic.expressions import expression

aten = torch.ops.aten

#: The axes of a dense tensor in the order of its memory, the outermost first.
Order = tuple[int, ...]


@dataclass(frozen=True)
class Lying:
    order: Order
    #: Nothing is between the elements.
    dense: bool = True


def alike(a, b) -> bool:
    """Returns true if sizes are written alike; asks torch nothing about them."""
    return len(a) == len(b) and all(expression(x) == expression(y) for x, y in zip(a, b, strict=True))


class Orders:
    """The order of the axes of tensors in memory."""

    def __init__(self):
        #: Large sizes of no pattern: strides that fit them fit all sizes.
        self._random = random.Random(0)
        self._symbols: dict[sympy.Symbol, sympy.Integer] = {}
        self._values: dict[sympy.Expr, int | None] = {}

    def of(self, t: torch.Tensor) -> Lying | None:
        """The layout of the axes of ``t``; None if elements are repeated, or it is not known."""
        sizes, strides = ([self._value(size) for size in what] for what in (t.shape, t.stride()))
        if None in sizes or None in strides:
            return None
        if any(value == 1 and expression(size) != 1 for value, size in zip(sizes, t.shape, strict=True)):
            return None  # min(1, n), say
        # An axis of one element may be anywhere: it stays where it is.
        long = sorted((a for a, size in enumerate(sizes) if size != 1), key=lambda a: (-strides[a], a))
        step, dense = 1, True
        for axis in reversed(long):
            if strides[axis] < step:
                return None
            dense &= strides[axis] == step
            step = strides[axis] * sizes[axis]
        return Lying(_settled(t.shape, long), dense)

    def _value(self, size) -> int | None:
        expr = expression(size)
        if isinstance(expr, int):
            return expr
        if expr not in self._values:
            for symbol in expr.free_symbols - self._symbols.keys():
                self._symbols[symbol] = sympy.Integer(self._random.randrange(10**5, 10**6))
            value = expr.xreplace(self._symbols)
            self._values[expr] = int(value) if value.is_Integer else None
        return self._values[expr]


def in_order(rank: int) -> Order:
    return tuple(range(rank))


# Views: a tensor's elements in other axes. A rule gives the sizes, the order, and whether it is a
# view and no copy.

View = tuple[list, Order, bool]
#: A product of sizes: a number, and the powers of what else is multiplied.
Product = tuple[int, dict]


def _product(sizes) -> Product:
    number, powers = 1, {}
    for size in map(expression, sizes):
        for factor in (size,) if isinstance(size, int) else sympy.Mul.make_args(size):
            if isinstance(factor, int) or factor.is_Integer:
                number *= int(factor)
                continue
            base, power = factor.as_base_exp()
            if not power.is_Integer or power < 0:
                base, power = factor, 1
            powers[base] = powers.get(base, 0) + int(power)
    return number, powers


def _quotient(a: Product, b: Product) -> Product | None:
    """``a / b``, if ``b`` is written in ``a``."""
    if (
        a[0] <= 0
        or b[0] <= 0
        or a[0] % b[0]
        or any(a[1].get(base, 0) < power for base, power in b[1].items())
    ):
        return None
    powers = {base: power - b[1].get(base, 0) for base, power in a[1].items()}
    return a[0] // b[0], {base: power for base, power in powers.items() if power}


def _size(product: Product, sizes):
    number, powers = product
    if not powers:
        return number
    expr = sympy.Mul(number, *(base**power for base, power in powers.items()))
    symbolic = [size for size in sizes if isinstance(size, torch.SymInt)]
    for size in symbolic:
        if size.node.expr == expr:
            return size
    return symbolic[0].node.shape_env.create_symintnode(expr, hint=None)


def _view(x, order: Order, shape) -> View | None:
    given = [size for size in shape if not (type(size) is int and size == -1)]
    rest = _quotient(_product(x.shape), _product(given))
    if rest is None or len(given) < len(shape) - 1 or (len(given) == len(shape) and rest != (1, {})):
        return None
    shape = [_size(rest, x.shape) if type(size) is int and size == -1 else size for size in shape]
    parts = _parts(x.shape, shape)
    if parts is None:
        return None
    place = {axis: i for i, axis in enumerate(axis for axis in order if expression(x.shape[axis]) != 1)}
    merged = all(place[b] == place[a] + 1 for of, _ in parts for a, b in itertools.pairwise(of))
    if not merged:
        return shape, in_order(len(shape)), False
    lying = sorted(parts, key=lambda part: place[part[0][0]])
    return shape, _settled(shape, [axis for _, to in lying for axis in to]), True


def _parts(sizes, shape) -> list[tuple[list[int], list[int]]] | None:
    """Pairs the axes of ``sizes`` with those of ``shape``: the shortest runs of equal products;
    axes of 1 belong to none.
    """
    of, to = ([axis for axis, size in enumerate(what) if expression(size) != 1] for what in (sizes, shape))
    parts = []
    while of and to:
        a, b = [of.pop(0)], [to.pop(0)]
        while (have := _product([sizes[i] for i in a])) != (want := _product([shape[i] for i in b])):
            if to and _quotient(have, want) is not None:
                b.append(to.pop(0))
            elif of and _quotient(want, have) is not None:
                a.append(of.pop(0))
            else:
                return None
        parts.append((a, b))
    return None if of or to else parts


def _settled(shape, lying: list[int]) -> Order:
    """The order of all axes, where those of one element stay in their places."""
    places = iter(lying)
    return tuple(axis if expression(size) == 1 else next(places) for axis, size in enumerate(shape))


def _only_view(x, order: Order, shape) -> View | None:
    found = _view(x, order, shape)
    return found if found is not None and found[2] else None


def _flatten(x, order: Order, start=0, end=-1) -> View | None:
    if not all(-x.dim() <= dim < x.dim() for dim in (start, end)) or start % x.dim() >= end % x.dim():
        return None
    start, end = start % x.dim(), end % x.dim()
    one = _size(_product(x.shape[start : end + 1]), x.shape)
    return _view(x, order, [*x.shape[:start], one, *x.shape[end + 1 :]])


def _permute(x, order: Order, dims) -> View | None:
    if len(dims) != x.dim() or not all(-x.dim() <= dim < x.dim() for dim in dims):
        return None
    dims = [dim % x.dim() for dim in dims]
    if sorted(dims) != list(range(x.dim())):
        return None
    shape = [x.shape[dim] for dim in dims]
    lying = [dims.index(axis) for axis in order if expression(x.shape[axis]) != 1]
    return shape, _settled(shape, lying), True


def _transpose(x, order: Order, a, b) -> View | None:
    if not all(-x.dim() <= dim < x.dim() for dim in (a, b)):
        return None
    dims = list(range(x.dim()))
    dims[a], dims[b] = dims[b], dims[a]
    return _permute(x, order, dims)


VIEWS = {
    aten.view.default: _only_view,
    aten.reshape.default: _view,
    aten.flatten.using_ints: _flatten,
    aten.permute.default: _permute,
    aten.transpose.int: _transpose,
}


def view_of(func, x, lying: Lying | None, *args, **kwargs) -> tuple[list, Order, bool] | None:
    """The sizes and the order of a view, and whether it is one."""
    # The offset of a view of a part of a tensor is computed by torch.
    if lying is None or not lying.dense or expression(x.storage_offset()) != 0:
        return None
    return VIEWS[func](x, lying.order, *args, **kwargs)
