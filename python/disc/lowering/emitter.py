"""Emits ops of the compiler for the lowerings of a front end.

Each op of the compiler that a lowering uses has one method here, so that names and attributes of
ops are only in this file. Shapes broadcast as in NumPy; types are promoted by the rules of the
framework. Lowerings say what a framework's ops mean.

Conventions: ``x, y`` are values (they have ``shape`` and ``dtype``); a *scalar* is a Python number,
a size, or ``Number``.
"""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import extension
from ..core.errors import ShapeError, UnsupportedOp
from . import dtypes, sizes
from .sizes import same

_NUMPY = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "i1": np.bool_,
    "bf16": np.float32,
}
_RELATIONS = {"==": operator.eq, "<=": operator.le, ">=": operator.ge}


@dataclass(frozen=True)
class Number:
    """A number of Python that depends on sizes, such as ``math.sqrt(x.shape[0])``:
    a value of rank 0 and type f64, i64 or i1.
    """

    value: Any


class _Missing:
    """Stands for the result of an unsupported op,
    so that the walk can go on and find the others.
    """


MISSING = _Missing()


class Emitter:
    """Emits ops for the node of the framework graph that is being converted."""

    def __init__(self, builder, promotion: dtypes.Promotion):
        self.builder = builder
        self.promotion = promotion
        #: Takes the text of a fact.
        self.state = builder.fact
        #: Takes the text of a fact that a composition has stated.
        self.note: Callable[[str], None] = lambda fact: None
        #: By the mask: its places, as long as nothing else has them.
        self._places: dict[int, tuple] = {}
        #: By what was repeated along an axis of size 1: itself, what is repeated, and the axis.
        self._repeats: dict[int, tuple] = {}
        #: Names of dims that were bound somewhere: no two are alike.
        self._bound: set[str] = set()

    @contextlib.contextmanager
    def region(self):
        """Forgets at its end what was learned within of values, sizes and numbers:
        a region's values are its own.
        """
        own = "_places", "_repeats"
        before = {name: dict(getattr(self, name)) for name in own}
        try:
            yield
        finally:
            for name in own:
                setattr(self, name, before[name])

    # Sizes.

    def result_size(self, rank: int):
        """The sizes of the framework's result, if it has this rank: a function of the axis.

        None where nothing is known.

        A front end overrides it, if its framework says of each op what comes out.
        """
        return None

    def result_sizes(self) -> list | None:
        """The sizes of the framework's result, as ``result_size`` gives them, if it states any."""
        return None

    def unsupported(self, reason: str, help: str | None = None) -> UnsupportedOp:
        """The error for an op whose arguments here cannot be compiled."""
        return UnsupportedOp(reason, help=help)

    def equal(self, left, right) -> bool:
        """Returns true if two sizes are known to be equal."""
        return same(left, right) or (
            not (sizes.is_int(left) and sizes.is_int(right)) and self.builder.equal(left, right)
        )

    def require(self, left, sign: str, right) -> None:
        """A relation of sizes that the op needs, and that the framework checks when it runs:
        a fact of the signature.
        """
        if sign == "==" and self.equal(left, right):
            return
        if sizes.is_int(left) and sizes.is_int(right):
            if _RELATIONS[sign](left, right):
                return
            raise ShapeError(f"sizes {left} and {right} do not fit: expected {left} {sign} {right}")
        self.state(f"{left} {sign} {right}")

    def require_true(self, condition, message: str) -> None:
        """A condition on data that fails the call unless it holds."""
        self.builder.op("assert", [self.lift(condition, "i1")], message=message)

    # Values out of scalars.

    def op(self, name: str, *operands, result=None, **attrs):
        """``result``: (shape, dtype) where the op needs it stated."""
        if result is not None:
            return self.builder.op(name, list(operands), result_types=[result], **attrs)
        return self.builder.op(name, list(operands), **attrs)

    def compose(self, name: str, *operands, **attrs):
        """The result, or the list of results, of a composition (docs/compositions.md)."""
        given = [x.value if isinstance(x, Number) else x for x in operands]
        made = self.builder.compose(name, given, self.result_sizes(), **attrs)
        for fact in self.builder.stated():
            self.note(fact)
        return made

    def full(self, value, shape, dtype: str):
        """A constant with all elements equal."""
        # A number beyond a half type is an infinity.
        with np.errstate(over="ignore"):
            literal = np.asarray(dtypes.wrapped(value, dtype)).astype(_NUMPY[dtype])
        return self.builder.constant(literal, dims=list(shape), dtype=dtype)

    def lift(self, x, dtype: str | None = None):
        """A value out of a value or a scalar, in ``dtype`` if given."""
        if isinstance(x, Number):
            x = x.value
        elif isinstance(x, (bool, int, float)):
            return self.full(x, [], dtype or self.promotion.scalar_type(x))
        elif not is_value(x):
            x = self.builder.dim(x)
        return self.convert(x, dtype) if dtype else x

    def type_of(self, x) -> str:
        return (
            self.promotion.scalar_type(x)
            if isinstance(x, (bool, int, float))
            else x.dtype
            if is_value(x)
            else "i64"
        )

    def promoted_type(self, *xs) -> str:
        groups: tuple[list, list, list] = ([], [], [])
        for x in xs:
            if isinstance(x, Number):
                floating = x.value.dtype in dtypes.FLOATS
                groups[2].append(self.promotion.default_float() if floating else x.value.dtype)
            elif is_value(x):
                groups[0 if len(x.shape) else 1].append(x.dtype)
            else:
                groups[2].append(self.type_of(x))
        return self.promotion.promote(*groups)

    def promote(self, *xs, floating: bool = False) -> list:
        """Values of the type that the framework computes in; ``floating``:
        at least its default float.
        """
        dtype = self.promoted_type(*xs)
        if floating and dtype not in dtypes.FLOATS:
            dtype = self.promotion.default_float()
        return [self.lift(x, dtype) for x in xs]

    # Element-wise ops.

    def convert(self, x, dtype: str):
        if x.dtype == dtype:
            return x
        if dtype == "i1":
            return self.compare("NE", x, self.full(0, x.shape, x.dtype))
        return self.op("convert", x, dtype=dtype)

    def wide(self, x):
        """Converts f16 and bf16 to f32: computing in f32 rounds once."""
        return self.convert(x, "f32") if x.dtype in dtypes.HALVES else x

    def widened(self, f, *xs):
        """``f`` of ``xs`` computed in f32 where these are f16 or bf16, in their type again."""
        if xs[0].dtype not in dtypes.HALVES:
            return f(*xs)
        return self.convert(f(*(self.wide(x) for x in xs)), xs[0].dtype)

    def map(self, name: str, *xs, **attrs):
        """An element-wise op on values that are broadcast to one shape."""
        return self.op(name, *self.together(*xs), **attrs)

    def together(self, *xs) -> list:
        shape = self.common_shape(*xs)
        return [self.expand(x, shape) for x in xs]

    def compare(self, direction: str, x, y):
        return self.map("compare", x, y, direction=direction)

    def select(self, pred, x, y):
        return self.map("select", pred, x, y)

    def maximum(self, x, y):
        return self.map("maximum", x, self._like(y, x))

    def minimum(self, x, y):
        return self.map("minimum", x, self._like(y, x))

    def add(self, x, y):
        return self.map("or" if x.dtype == "i1" else "add", x, self._like(y, x))

    def sub(self, x, y):
        return self.map("subtract", x, self._like(y, x))

    def mul(self, x, y):
        return self.map("and" if x.dtype == "i1" else "multiply", x, self._like(y, x))

    def div(self, x, y):
        return self.map("divide", x, self._like(y, x))

    def neg(self, x):
        return self.op("negate", x)

    def is_nan(self, x):
        return self.op("is_nan", x) if x.dtype in dtypes.FLOATS else self.full(False, x.shape, "i1")

    def _like(self, y, x):
        return y if is_value(y) else self.lift(y, x.dtype)

    # Sizes that depend on data.

    def bind_dim(self, size, name: str | None = None):
        """Makes a dim of a scalar i64; one name is taken once,
        as another region may have bound the same.
        """
        name = name if name and name not in self._bound else f"size_{len(self._bound) + 1}"
        self._bound.add(name)
        self.op("bind_dim", size, dim=name)
        return extension.dim(name)

    def places(self, mask, bind=None):
        """The row-major places of the true elements; ``bind`` makes a dim of their number."""
        if id(mask) in self._places:
            return self._places[id(mask)][1]
        flat = self.reshape(mask, [sizes.product(mask.shape)])
        count = self.sum(self.convert(flat, "i64"), [0])
        found = self.op("nonzero", flat, result=([(bind or self.bind_dim)(count)], "i64"))
        self._places[id(mask)] = mask, found
        return found

    def coordinates(self, places, shape) -> list:
        """The coordinates of row-major places, one value per axis."""
        parts: list = []
        for i in reversed(range(len(shape))):
            size = self.lift(shape[i], "i64")
            parts.insert(0, self.map("remainder", places, size) if i else places)
            places = self.div(places, size) if i else places
        return parts

    # Shapes.

    def common_shape(self, *xs) -> list:
        """The broadcast shape; of two sizes that are not provably equal,
        that of the framework's result decides.
        """
        rank = max(len(x.shape) for x in xs)
        hint = self.result_size(rank)
        shape = []
        for axis in range(rank):
            own = [x.shape[axis - rank + len(x.shape)] for x in xs if axis >= rank - len(x.shape)]
            shape.append(self._common_size(own, hint, axis))
        return shape

    def _common_size(self, sizes_, hint, axis: int):
        result: Any = 1
        for size in sizes_:
            if same(size, 1) or same(size, result):
                continue
            if same(result, 1) or (hint is not None and same(size, hint(axis))):
                result = size
        return result

    def expand(self, x, shape):
        """Numpy-style broadcasting to ``shape``."""
        rank = len(shape)
        return self.broadcast(x, shape, list(range(rank - len(x.shape), rank)))

    def broadcast(self, x, shape, dims: list[int]):
        """``dims[i]`` is the axis of the result that axis ``i`` of ``x`` becomes."""
        shape = list(shape)
        if len(x.shape) == len(shape) and all(same(a, b) for a, b in zip(x.shape, shape, strict=True)):
            return x
        for axis, size in zip(dims, x.shape, strict=True):
            if not same(size, 1):
                self.require(size, "==", shape[axis])
        result = self.op("broadcast_in_dim", x, result=(shape, x.dtype), dims=list(dims))
        if len(x.shape) == len(shape):
            longer = [i for i, (a, b) in enumerate(zip(x.shape, shape, strict=True)) if not same(a, b)]
            if len(longer) == 1:
                self._repeats[id(result)] = (result, x, longer[0])
        return result

    def reshape(self, x, shape):
        shape = list(shape)
        if len(shape) == len(x.shape) and all(same(a, b) for a, b in zip(x.shape, shape, strict=True)):
            return x
        # The framework has compared them; how it writes its sizes may be beyond what is proved
        # here.
        count = sizes.product(shape)
        if len(x.shape) == 1 and self._binds_later(x.shape[0], count):
            self.require(count, "<=", x.shape[0])
            x = self.op("slice", x, start=[0], limit=[count], strides=[1])
        self.require(sizes.product(x.shape), "==", count)
        result = self.op("reshape", x, result=(shape, x.dtype))
        repeated = self._repeats.get(id(x))
        if repeated is not None and len(shape) == len(x.shape) - 1:
            axis = repeated[2]
            kept = [*x.shape[: axis - 1], *x.shape[axis + 1 :]] if axis else []
            rest = [*shape[: axis - 1], *shape[axis:]]
            if len(kept) == len(rest) and all(same(a, b) for a, b in zip(kept, rest, strict=True)):
                self._repeats[id(result)] = (result, repeated[1], axis)
        return result

    def _binds_later(self, size, product) -> bool:
        """Returns true if a fact ``size == product`` would give a dim of the signature a form that
        some op only binds later: it is ``x_0`` beside ``size_1*size_1``.
        """
        names = frozenset(re.findall(r"[A-Za-z_]\w*", str(product)))
        is_own = str(size).isidentifier() and str(size) not in self._bound
        return is_own and bool(names & self._bound) and not str(product).isidentifier()

    def before_repeats(self, x):
        """``[..., heads, 1, rows, columns]`` for an ``x`` whose heads are those,
        each several times in a row; else nothing.
        """
        _, source, axis = self._repeats.get(id(x), (None, None, None))
        joined = source is not None and len(source.shape) == len(x.shape) + 1
        return source if joined and axis == len(source.shape) - 3 else None

    def unsqueeze(self, x, *axes: int):
        """New axes of size 1 at these places of the result."""
        rank = len(x.shape) + len(axes)
        wanted = {axis % rank for axis in axes}
        rest = iter(x.shape)
        return self.reshape(x, [1 if i in wanted else next(rest) for i in range(rank)])

    def squeeze(self, x, *axes: int):
        gone = {axis % len(x.shape) for axis in axes}
        return self.reshape(x, [size for i, size in enumerate(x.shape) if i not in gone])

    def transpose(self, x, dims):
        dims = list(dims)
        return x if dims == sorted(dims) else self.op("transpose", x, dims=dims)

    def move(self, x, source: int, target: int):
        """Axis ``source`` goes to place ``target``."""
        rank = len(x.shape)
        dims = [i for i in range(rank) if i != source % rank]
        dims.insert(target % rank, source % rank)
        return self.transpose(x, dims)

    def iota(self, shape, axis: int, dtype: str):
        if dtype == "i1":
            return self.convert(self.iota(shape, axis, "i32"), "i1")
        return self.op("iota", result=(list(shape), dtype), dim=axis)

    def slice(self, x, axis: int, start, limit, stride: int = 1):
        """``x[start:limit:stride]`` of one axis; the bounds are in range."""
        rank = len(x.shape)
        if stride == 1 and same(start, 0):
            if same(limit, x.shape[axis]):
                return x
            if self.equal(limit, x.shape[axis]):
                # Facts about this axis do not imply facts about products of several: the equality
                # is stated.
                self.state(f"{limit} == {x.shape[axis]}")
                return x
        starts, limits, strides = [0] * rank, list(x.shape), [1] * rank
        starts[axis], limits[axis], strides[axis] = start, limit, stride
        return self.op("slice", x, start=starts, limit=limits, strides=strides)

    def concatenate(self, xs, axis: int):
        for x in xs[1:]:
            for i, (own, first) in enumerate(zip(x.shape, xs[0].shape, strict=True)):
                if i != axis:
                    self.require(own, "==", first)
        return xs[0] if len(xs) == 1 else self.op("concatenate", *xs, dim=axis)

    def reverse(self, x, axes):
        return self.op("reverse", x, dims=list(axes)) if axes else x

    def pad(self, x, value, low, high, interior=None):
        """Constant padding; negative amounts crop."""
        rank = len(x.shape)
        return self.op(
            "pad",
            x,
            self._like(value, x),
            low=list(low),
            high=list(high),
            interior=list(interior or [0] * rank),
        )

    def take(self, x, axis: int, index, bounds: str = "check"):
        """The elements ``index`` of one axis, as ``numpy.take``.

        ``bounds``: "check" fails the call, "clamp" takes the nearest element.
        """
        depth = len(index.shape)
        others = [i for i in range(len(x.shape)) if i != axis]
        return self.op(
            "gather",
            x,
            index,
            offset_dims=[i if i < axis else i + depth - 1 for i in others],
            collapsed_slice_dims=[axis],
            start_index_map=[axis],
            index_vector_dim=depth,
            slice_sizes=[1 if i == axis else size for i, size in enumerate(x.shape)],
            bounds=bounds,
        )

    # Contractions, reductions.

    def dot(self, x, y, *, batching=((), ()), contracting, dtype: str | None = None):
        """Result axes: batch, free axes of ``x``, free axes of ``y``.

        ``dtype``: the type of the result.
        """
        for i, j in [*zip(*batching, strict=True), *zip(*contracting, strict=True)]:
            self.require(y.shape[j], "==", x.shape[i])
        attrs = {"lhs_contracting_dims": list(contracting[0]), "rhs_contracting_dims": list(contracting[1])}
        if batching[0]:
            attrs |= {"lhs_batching_dims": list(batching[0]), "rhs_batching_dims": list(batching[1])}
        if dtype is not None and dtype != x.dtype:
            attrs["dtype"] = dtype
        return self.op("dot_general", x, y, **attrs)

    def combine(self, name: str, xs, how: str, dtype: str, inits=(), **attrs):
        """An op with a body that combines two scalars by the op ``how``."""
        scalar = ((), dtype)
        body = ([scalar, scalar], lambda a, c: [c if how == "overwrite" else self.op(how, a, c)])
        return self.builder.op(name, [*xs, *inits], regions=[body], **attrs)

    def branch(self, condition, sides: list):
        """``sides[0]()`` where the condition, a scalar of type i1, holds,
        else ``sides[1]()``; of the same types.
        """
        return _listed(self.builder.op("if", [condition], regions=[([], side) for side in sides]))

    def repeat(self, inits: list, more, step):
        """``values = step(*values)`` as long as ``more(*values)`` holds, a scalar of type i1;
        the types of the values stay.
        """
        types_ = [(list(x.shape), x.dtype) for x in inits]
        return _listed(self.builder.op("while", list(inits), regions=[(types_, more), (types_, step)]))

    def loop(self, count, inits: list, step):
        """``values = step(i, *values)`` for each ``i`` below the size ``count``;
        the types of the values stay.
        """
        last, one = self.lift(count, "i64"), self.lift(1, "i64")
        return self.repeat(
            [self.lift(0, "i64"), *inits],
            lambda i, *_: [self.compare("LT", i, last)],
            lambda i, *values: [self.add(i, one), *step(i, *values)],
        )[1:]

    def reduce(self, x, axes, how: str, keepdim: bool = False):
        """``how``: add, multiply, maximum, minimum, and, or. A tensor without axes has none to
        reduce, whichever are named.
        """
        axes = sorted(axis % len(x.shape) for axis in axes) if x.shape else []
        result = (
            self.combine("reduce", [x], how, x.dtype, [self.neutral(how, x.dtype)], dims=axes) if axes else x
        )
        return self.unsqueeze(result, *axes) if keepdim and axes else result

    def neutral(self, how: str, dtype: str):
        return self.full(dtypes.neutral(how, dtype), [], dtype)

    def sum(self, x, axes, keepdim: bool = False):
        return self.reduce(x, axes, "add", keepdim)

    def cumulative(self, x, axis: int, how: str):
        return self.combine("cumulative", [x], how, x.dtype, [self.neutral(how, x.dtype)], dim=axis)


def composed(name: str):
    """An entry of a table for a composition that takes what the framework gives."""
    return lambda b, *operands: b.compose(name, *operands)


def is_value(x) -> bool:
    return hasattr(x, "dtype") and hasattr(x, "shape")


def _listed(results) -> list:
    """The results of an op that may have one or several."""
    return [results] if is_value(results) else list(results)
