"""The bridge of torch: a captured FX graph becomes ops of the compiler.

The meaning of each op is one entry of ``TABLE``: a function of the emitter and the arguments of the overload. The entries are in
the files of the families (``torch_elementwise`` and its neighbours). Here is the walk over the graph: inputs, weights, shape
arithmetic, inlined regions, outputs, and the report of everything that has no entry.

Invariants:

- sizes come from the shape environment of the capture, never from an example;
- a value is converted once; where the graph writes in place, ``torch_alias`` says what a later reader sees;
- every unsupported op of a graph is reported in one error.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import os
import re
from collections import Counter
from typing import Any

import sympy
import torch
from torch.utils._sympy import functions as tsf

from .. import _guards
from .._dims import Dim
from .._errors import Error, UnsupportedOp
from .._program import Program
from .._symbols import SYMBOLIC, expression
from . import (
    sizes,
    torch_activation,
    torch_complex,
    torch_control,
    torch_create,
    torch_elementwise,
    torch_experts,
    torch_fft,
    torch_index,
    torch_loss,
    torch_matmul,
    torch_norm,
    torch_recurrent,
    torch_reduce,
    torch_shape,
    torch_sizes,
    torch_window,
    types,
)
from .emit import MISSING, Emitter, Number, is_value
from .torch_alias import Aliases, functional_name

FAMILIES = (
    torch_elementwise,
    torch_activation,
    torch_shape,
    torch_create,
    torch_reduce,
    torch_matmul,
    torch_norm,
    torch_loss,
    torch_window,
    torch_index,
    torch_recurrent,
    torch_experts,
    torch_fft,
    torch_sizes,
)
#: Overload -> function of the emitter and the overload's arguments.
TABLE = {name: entry for family in FAMILIES for name, entry in family.TABLE.items()}


def serves(op: torch._ops.OpOverload, is_complex: bool) -> bool:
    """Whether an op is converted as a whole; ``is_complex``: with complex tensors among its arguments."""
    name = str(op)
    if name in TABLE or functional_name(name) in TABLE:
        return not is_complex or torch_complex.serves(name)
    return name in torch_complex.TABLE or name in _CHECKS or name in _ITEMS or "assert" in name


#: Ops without a result that anyone reads: conditions that capture has already proved or turned into facts.
_CHECKS = (
    "aten._assert_scalar.default",
    "aten._assert_async.msg",
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range_for_size.default",
    "aten.sym_constrain_range.default",
    "aten._assert_async.default",
)
#: Ops that make a number out of a tensor.
_ITEMS = ("aten.item.default", "aten._local_scalar_dense.default")
_INLINED = ("wrap_with_set_grad_enabled", "wrap_with_autocast")


#: Frames of these are not the model's: torch, disc, and code that torch made.
_FRAMEWORK = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.dirname(__file__)) + os.sep,
    "<eval_with_key>",
)


def convert(captured, builder) -> Program:
    """Emits ``captured`` into ``builder``.

    Raises UnsupportedOp, which names all ops without an entry.
    """
    program = Program()
    expressions = sizes.Expressions(captured.simplify)
    expressions.check = lambda condition, text: _check(program, condition, text)
    emitter = Emitter(builder, expressions)
    emitter.state = lambda fact: _state(builder, program, fact)
    walk = _Walk(captured, emitter, program)
    _declare_inputs(captured, builder, expressions, walk, program)
    _declare_facts(captured, builder, expressions, program)
    _bind_weights(captured, emitter, walk, program)
    walk.run(captured.graph)
    walk.raise_if_missing()
    _finish(captured, walk, builder, program)
    return program


# Inputs and facts.


def _declare_inputs(captured, builder, expressions, walk, program: Program) -> None:
    shapes = [captured.input_shape(i) for i in range(len(captured.inputs))]
    names = _dim_names(captured, shapes)
    inputs = _Names()
    deferred = []
    for i, (node, shape) in enumerate(zip(captured.inputs, shapes, strict=True)):
        row = [size if isinstance(size, int) else names[i][axis] for axis, size in enumerate(shape)]
        dtype = types.name_of(node.meta["val"].dtype)
        value = builder.input(inputs.fresh(captured.arguments.tensor_names[i]), row, dtype)
        program.dims.append([str(d) for d in row])
        walk.values[node] = value
        for axis, expr in enumerate(shape):
            if isinstance(expr, sympy.Symbol):
                expressions.symbols.setdefault(expr, value.shape[axis])
            elif not isinstance(expr, int):
                deferred.append((expr, value.shape[axis]))
    for expr, dim in deferred:
        _relate(expr, dim, expressions, builder, program)


def _dim_names(captured, shapes) -> list[list[str]]:
    """A declared name, else one made of the input and the axis; axes with one symbol share one name."""
    by_symbol: dict[Any, str] = {}
    axes = [(i, axis, expr) for i, shape in enumerate(shapes) for axis, expr in enumerate(shape)]
    for i, axis, expr in axes:
        declared = captured.plan.axes[i][axis]
        if isinstance(declared, Dim) and isinstance(expr, sympy.Symbol):
            by_symbol.setdefault(expr, declared.name)
    names = _Names(captured.plan.declared())
    rows: list[list[str]] = [[] for _ in shapes]
    for i, axis, expr in axes:
        name = by_symbol.get(expr)
        if name is None:
            name = names.fresh(f"{captured.arguments.tensor_names[i]}_{axis}".replace(".", "_"))
            if isinstance(expr, sympy.Symbol):
                by_symbol[expr] = name
        rows[i].append(name)
    return rows


class _Names:
    """Names that the compiler can read, no two of them equal: keys of dicts are any text, and ``a_b`` may be beside ``a.b``."""

    def __init__(self, taken=()):
        self.taken = set(taken)

    def fresh(self, wanted: str) -> str:
        name = re.sub(r"[^A-Za-z0-9_.]", "_", wanted)
        name = name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"
        numbers = itertools.count(1)
        unique = name
        while unique in self.taken:
            unique = f"{name}_{next(numbers)}"
        self.taken.add(unique)
        return unique


def _relate(expr, dim, expressions, builder, program: Program) -> None:
    """An input's size that capture knows as an expression: its symbol is solved for, or the two are equal."""
    unknown = [s for s in expr.free_symbols if s not in expressions.symbols]
    if len(unknown) == 1:
        (symbol,) = unknown
        step, offset = expr.coeff(symbol, 1), expr.coeff(symbol, 0)
        if step.is_Integer and step > 0 and (expr - step * symbol - offset) == 0:
            rest = dim - expressions.size(offset)
            expressions.bind(symbol, rest // int(step))
            _state(builder, program, f"{rest % int(step)} == 0")
            return
    _state(builder, program, f"{dim} == {expressions.size(expr)}")


def _state(builder, program: Program, fact: str) -> None:
    if fact not in program.facts:
        builder.fact(fact)
        program.facts.append(fact)


def _check(program: Program, condition, text: str) -> None:
    if (condition, text) not in program.checks:
        program.checks.append((condition, text))


_COMPARISONS = (
    (sympy.Eq, "EQ"),
    (sympy.Ne, "NE"),
    (sympy.Le, "LE"),
    (sympy.Ge, "GE"),
    (sympy.Lt, "LT"),
    (sympy.Gt, "GT"),
)
_RELATIONS = ((sympy.Eq, "=="), (sympy.Le, "<="), (sympy.Ge, ">="), (sympy.Lt, "<"), (sympy.Gt, ">"))


def _spelled_as(dim: Dim, captured, program: Program) -> str:
    """The name of a declared dim in the program: another declared one's where the model makes the two equal."""
    axes = [
        (i, axis) for i, row in enumerate(captured.plan.axes) for axis, what in enumerate(row) if what == dim
    ]
    return next((program.dims[i][axis] for i, axis in axes), dim.name)


def _declare_facts(captured, builder, expressions, program: Program) -> None:
    for dim in captured.plan.declared().values():
        name = _spelled_as(dim, captured, program)
        for text, stated in (
            (f"{name} >= {dim.min}", dim.min > 0),
            (f"{name} <= {dim.max}", dim.max is not None),
            (f"{name} % {dim.multiple_of} == 0", dim.multiple_of > 1),
        ):
            if stated:
                _state(builder, program, text)
        if dim.likely and hasattr(builder, "likely"):
            builder.likely(name, list(dim.likely))
    for fact in captured.facts:
        if not fact.free_symbols <= set(expressions.symbols):
            continue
        place = captured.conditions.places.get(fact)
        relation = next((sign for kind, sign in _RELATIONS if isinstance(fact, kind)), None)
        if relation is not None and not fact.has(sympy.Float):
            text = _relation(expressions, lambda text: _state(builder, program, text), fact, relation)
        else:
            text = _guards.spelled(fact)
            program.checks.append((fact, text))
        if place is not None and text is not None:
            program.asked_at.setdefault(text, _guards.written(place))


def _relation(expressions, state, fact, relation: str) -> str | None:
    """States a relation of two sizes; the value is its text."""
    left, right = expressions.size(fact.lhs), expressions.size(fact.rhs)
    if sizes.is_int(left):
        left, right, relation = (
            right,
            left,
            {"<=": ">=", ">=": "<=", "<": ">", ">": "<"}.get(relation, relation),
        )
    if sizes.same(left, right) or (relation == ">=" and sizes.same(right, 0)):
        return None
    text = f"{left} {relation} {right}"
    state(text)
    return text


def _bind_weights(captured, emitter: Emitter, walk: _Walk, program: Program) -> None:
    """Parameters and buffers are weights, one for each tensor, whatever names it has; lifted tensors are constants."""
    made: dict[int, Any] = {}
    for node, name, tensor in captured.traced.weights:
        if not node.users:
            continue
        if id(tensor) not in made:
            held = torch.view_as_real(tensor) if tensor.is_complex() else tensor
            value = emitter.builder.weight(name, list(held.shape), types.name_of(held.dtype))
            made[id(tensor)] = torch_complex.joined(emitter, value) if tensor.is_complex() else value
            program.weights.append((name, held))
        walk.values[node] = made[id(tensor)]
        walk.weight_names[node] = name
    for node, tensor in captured.traced.constants:
        if node.users:
            held = emitter.tensor(torch.view_as_real(tensor) if tensor.is_complex() else tensor)
            walk.values[node] = torch_complex.joined(emitter, held) if tensor.is_complex() else held


# The walk.


class _Walk:
    def __init__(self, captured, emitter: Emitter, program: Program):
        self.captured = captured
        self.emitter = emitter
        self.program = program
        self.values: dict[torch.fx.Node, Any] = {}
        self.weight_names: dict[torch.fx.Node, str] = {}
        self.missing: Counter[tuple[str, str]] = Counter()
        self.sources: dict[tuple[str, str], list[str]] = {}
        self.helps: list[str] = []
        self.aliases = Aliases(self)
        #: What graphs within this one are given.
        self.given_within: set[torch.fx.Node] = set()
        #: The node that is being converted.
        self.node: torch.fx.Node | None = None

    def run(self, graph: torch.fx.Graph) -> Any:
        """Converts every node; the value is what the graph returns."""
        self.aliases.enter(graph)
        for node in graph.nodes:
            if node.op == "output":
                return node.args[0]
            if node.op == "get_attr":
                self._get_attr(node, graph)
            elif node.op == "call_function":
                self._call(node)
        return ()

    def read(self, node):
        return self.aliases.read(node)

    def resolve(self, arg):
        """Arguments of an op: nodes become values or sizes, numbers that depend on sizes become sizes."""
        if isinstance(arg, torch.fx.Node):
            return self._as_traced(arg, self.read(arg))
        if isinstance(arg, SYMBOLIC):
            return self._number(arg, self.node)
        if isinstance(arg, tuple):
            return tuple(self.resolve(a) for a in arg)
        if isinstance(arg, list):
            return [self.resolve(a) for a in arg]
        if isinstance(arg, dict):
            return {name: self.resolve(a) for name, a in arg.items()}
        if isinstance(arg, slice):
            return slice(self.resolve(arg.start), self.resolve(arg.stop), self.resolve(arg.step))
        return arg

    def _as_traced(self, node, value):
        """torch takes min(1, s) for 1: the size of ``x[:1]``. Where such a value is used, the size has to be 1."""
        val = node.meta.get("val")
        if not is_value(value) or not isinstance(val, torch.Tensor):
            return value
        pairs = zip(val.shape, value.shape, strict=True)
        ones = [i for i, (traced, size) in enumerate(pairs) if _is_one(traced) and not sizes.is_int(size)]
        if not ones:
            return value
        for i in ones:
            self.emitter.require(value.shape[i], "==", 1)
        return self.emitter.reshape(value, [1 if i in ones else size for i, size in enumerate(value.shape)])

    def _get_attr(self, node, graph) -> None:
        target = operator.attrgetter(node.target)(graph.owning_module)
        self.values[node] = self.emitter.tensor(target) if isinstance(target, torch.Tensor) else target

    def _call(self, node) -> None:
        name = str(node.target)
        self.node = node
        if name == "aten._assert_scalar.default":
            return self._assert(node)
        if name == "aten._assert_async.msg":
            return self._assert_data(node)
        if name in _CHECKS or "assert" in name:
            return
        if name in _ITEMS:
            self.values[node] = self._item(node)
            return
        if isinstance(node.meta.get("val"), SYMBOLIC) and _only_checked(node):
            return
        if isinstance(node.meta.get("val"), (int, float, bool, *SYMBOLIC)):
            self.values[node] = self._number(node.meta["val"], node)
        elif node.target is operator.getitem:
            source, index = node.args
            whole = self.read(source)
            self.values[node] = whole if whole is MISSING else whole[index]
            if self.values[node] is None:
                self.lack(str(source.target), f"result {index} is not computed", node=source)
                self.values[node] = MISSING
        elif name in torch_control.FLOWS:
            self.program.operations += 1
            try:
                self.values[node] = torch_control.FLOWS[name](self, node)
            except UnsupportedOp as error:
                self.lack(name, error.message, error.help, node=node)
                self.values[node] = MISSING
        elif any(part in name for part in _INLINED):
            self._inline(node, name)
        else:
            self._convert(node, name)

    def _number(self, val, node):
        """A number that capture knows; ``node`` is where it is used."""
        try:
            if isinstance(val, torch.SymInt):
                numbers = self.emitter.expressions.numbers
                if val.node.expr.free_symbols & set(numbers) and _lowest(val) < 0:
                    return _integer(self.emitter, val.node.expr)
                return self.emitter.expressions.size(val)
            if isinstance(val, torch.SymFloat):
                return _float(self.emitter, self.captured.simplify(val.node.expr))
            if isinstance(val, torch.SymBool):
                return _truth(self.emitter, self.captured.simplify(val.node.expr))
        except UnsupportedOp as error:
            self.lack(str(node.target), error.message, node=node)
            return MISSING
        return val

    def _item(self, node):
        """A number out of a tensor: a dim, if it is known to be no less than 0, since it is then most likely a size."""
        b, val = self.emitter, node.meta.get("val")
        value = self.read(node.args[0])
        if value is MISSING:
            return MISSING
        value = b.reshape(value, [])
        if value.dtype == "i1":
            return Number(value)
        if not isinstance(val, torch.SymInt):
            value = Number(b.convert(value, "f64"))
            if isinstance(val, torch.SymFloat):
                b.expressions.numbers[val.node.expr] = value.value
            return value
        value = b.convert(value, "i64")
        if _lowest(val) >= 0:
            return b.bind(value, val)
        b.expressions.numbers[val.node.expr] = value
        return Number(value)

    def _assert(self, node) -> None:
        """What capture knows of sizes that depend on data: a fact, checked where the size is bound."""
        condition = getattr(node.args[0], "meta", {}).get("val", node.args[0])
        if not isinstance(condition, torch.SymBool):
            return
        for fact in _guards.conjuncts(condition.node.expr):
            relation = next((sign for kind, sign in _RELATIONS if isinstance(fact, kind)), None)
            if relation is None or fact.free_symbols & set(self.emitter.expressions.numbers):
                continue
            if fact.free_symbols <= set(self.emitter.expressions.symbols):
                _relation(self.emitter.expressions, self.emitter.state, fact, relation)

    def _assert_data(self, node) -> None:
        """What is asked of the data: checked in each call."""
        condition, message = self.resolve(node.args)
        if condition is not MISSING:
            self.emitter.require_true(self.emitter.reshape(condition, []), message)

    def _inline(self, node, name: str) -> None:
        graph_at = next(
            i for i, a in enumerate(node.args) if isinstance(a, torch.fx.Node) and a.op == "get_attr"
        )
        if "autocast" in name and node.args[graph_at - 2] is True:
            self.lack(name, "autocast regions are not supported", node=node)
            self.values[node] = MISSING
            return
        given = [self.given(value) for value in node.args[graph_at + 1 :]]
        self.values[node] = self.run_inner(node.args[graph_at], given)

    def given(self, value):
        """An argument of a graph within: a value as it is."""
        return self.read(value) if isinstance(value, torch.fx.Node) else self.resolve(value)

    def run_inner(self, graph_of, given):
        """What the graph that the attribute ``graph_of`` names returns for ``given``."""
        graph = self.values[graph_of].graph
        holders = [n for n in graph.nodes if n.op == "placeholder"]
        self.given_within.update(holders)
        self.values |= zip(holders, given, strict=True)
        return self.resolve(self.run(graph))

    def _convert(self, node, name: str) -> None:
        entry, write = self.aliases.entry(name, node, TABLE)
        args, kwargs = self.resolve(node.args), self.resolve(node.kwargs)
        entry = torch_complex.entry(name, node, (args, list(kwargs.values())), entry)
        if entry is None:
            self.lack(_readable(node.target), *_why(node.target), node=node)
            result = MISSING
        elif _has_missing(args) or _has_missing(kwargs.values()):
            result = MISSING
        else:
            result = self.apply(node, name, entry, args, kwargs)
        self.program.operations += 1
        if write is not None and result is not MISSING:
            result = self.aliases.write(node, write, result)
        self.values[node] = result

    def apply(self, node, name: str, entry, args, kwargs):
        self.emitter.meta = node.meta.get("val")
        try:
            return entry(self.emitter, *args, **kwargs)
        except UnsupportedOp as error:
            self.lack(name, error.message, error.help, node=node)
            return MISSING
        except Error as error:
            # The op of the compiler refuses its operands, and names itself alone.
            if error.code != "E0204":
                raise
            where = f" ({source})" if (source := source_line(node)) else ""
            cure = error.help or "does the module run eagerly on the example?"
            raise Error(f"{name}{where}: {error.message}", code=error.code, op=name, help=cure) from error

    def lack(self, name: str, reason: str, help: str | None = None, *, node) -> None:
        if help and help not in self.helps:
            self.helps.append(help)
        key = (name, reason)
        self.missing[key] += 1
        self.sources.setdefault(key, [])
        source = source_line(node)
        if source and source not in self.sources[key] and len(self.sources[key]) < 3:
            self.sources[key].append(source)

    def raise_if_missing(self) -> None:
        if not self.missing:
            return
        lines = []
        for (name, reason), count in self.missing.most_common():
            where = f" ({', '.join(self.sources[name, reason])})" if self.sources[name, reason] else ""
            lines.append(f"  {count} x {name}: {reason}{where}")
        ops = sorted({name for name, _ in self.missing})
        total = sum(self.missing.values())
        raise UnsupportedOp(
            f"{total} operations of {len(ops)} kinds are not supported:\n" + "\n".join(lines),
            op=ops[0] if len(ops) == 1 else None,
            help="; ".join([*self.helps, "docs/coverage-torch.md lists what is supported"]),
        )


def _readable(op) -> str:
    """``vmap`` leaves functions of torch in the graph."""
    inner = str(getattr(op, "__module__", "")).startswith("torch._functorch")
    return "torch.vmap" if inner else str(op)


def _why(op) -> tuple[str, str | None]:
    """Why an op has no entry, and what to do."""
    if torch.Tag.nondeterministic_seeded in getattr(op, "tags", ()):
        return "random numbers are not supported", "give them to the module as an input"
    return "no entry in the table", None


def _only_checked(node) -> bool:
    """Whether nothing but checks and comparisons uses a number."""
    return all(
        str(user.target) in _CHECKS or (isinstance(user.meta.get("val"), SYMBOLIC) and _only_checked(user))
        for user in node.users
    )


def _is_one(traced) -> bool:
    """Whether torch has a size as 1, without asking it, which would be an error for a size that depends on data."""
    return expression(traced) == 1


def source_line(node) -> str | None:
    """The innermost line of the model that made the node, as ``file:line``."""
    places = _places(node)
    own = [p for p in places if not p[0].startswith(_FRAMEWORK)] or places
    return f"{os.path.basename(own[-1][0])}:{own[-1][1]}" if own else None


def _places(node) -> list[tuple[str, int]]:
    """File and line of each frame that led to the node, the innermost last."""
    if (trace := node.meta.get("trace")) is not None:
        return [(frame.filename, frame.lineno) for frame in trace.summary()]
    text = node.meta.get("stack_trace") or ""
    return [(m[1], int(m[2])) for m in re.finditer(r'^\s*File "(.*)", line (\d+)', text, re.MULTILINE)]


def _has_missing(args) -> bool:
    return any(a is MISSING or (isinstance(a, (list, tuple)) and _has_missing(a)) for a in args)


def _made_contiguous(result, walk: _Walk) -> int | None:
    """Which input a result is, copied where it does not lie in row-major order; none if the copy was written to."""
    if not isinstance(result, torch.fx.Node) or result.target is not torch.ops.aten.contiguous.default:
        return None
    inputs, plain = walk.captured.inputs, len(result.args) == 1 and not result.kwargs
    held = inputs.index(result.args[0]) if plain and result.args[0] in inputs else None
    return held if held is not None and walk.read(result) is walk.values[inputs[held]] else None


def _lowest(val: torch.SymInt):
    """The least value of a size or number, as far as capture knows."""
    return val.node.shape_env.bound_sympy(val.node.expr).lower


def _integer(b: Emitter, e) -> Number:
    """A number that depends on data and may be negative."""
    if e in b.expressions.numbers:
        return Number(b.expressions.numbers[e])
    if not e.free_symbols & set(b.expressions.numbers):
        return Number(b.lift(b.expressions.size(e), "i64"))
    parts = [_integer(b, arg).value for arg in e.args]
    names = ((sympy.Add, "add"), (sympy.Mul, "multiply"), (tsf.Min, "minimum"), (tsf.Max, "maximum"))
    name = next((name for kind, name in names if isinstance(e, kind)), None)
    if name is None:
        raise UnsupportedOp(
            f"the number {e}, which depends on data, is computed in a way that is not supported"
        )
    result = parts[0]
    for part in parts[1:]:
        result = b.op(name, result, part)
    return Number(result)


def _float(b: Emitter, e) -> Number | float:
    """A floating number that depends on sizes, computed in f64."""
    if e.is_number:
        return float(e)
    if e in b.expressions.numbers:
        return Number(b.lift(b.expressions.numbers[e], "f64"))
    if e.is_integer:
        return Number(b.lift(b.expressions.size(e), "f64"))
    parts = [b.lift(_float(b, arg), "f64") for arg in e.args]
    name = type(e).__name__
    if isinstance(e, (tsf.ToFloat, tsf.Identity, tsf.TruncToFloat)):
        return Number(parts[0])
    if isinstance(e, (tsf.IntTrueDiv, tsf.FloatTrueDiv)):
        return Number(b.div(*parts))
    if isinstance(e, (sympy.Add, sympy.Mul)):
        result = parts[0]
        for part in parts[1:]:
            result = (b.add if isinstance(e, sympy.Add) else b.mul)(result, part)
        return Number(result)
    if isinstance(e, (sympy.Pow, tsf.FloatPow)):
        return Number(b.map("power", *parts))
    if name == "OpaqueUnaryFn_log2":
        return Number(b.div(b.op("log", parts[0]), b.lift(math.log(2), "f64")))
    unary = {"OpaqueUnaryFn_sqrt": "sqrt", "OpaqueUnaryFn_log": "log", "OpaqueUnaryFn_exp": "exponential"}
    if name in unary:
        return Number(b.op(unary[name], parts[0]))
    raise UnsupportedOp(f"the number {e} is computed from sizes in a way that is not supported")


def _truth(b: Emitter, e) -> Number | bool:
    """A condition on sizes whose outcome is used as a value."""
    if e in (sympy.true, sympy.false):
        return bool(e)
    if isinstance(e, (sympy.And, sympy.Or, sympy.Not)):
        parts = [b.lift(_truth(b, arg), "i1") for arg in e.args]
        name = {sympy.And: "and", sympy.Or: "or", sympy.Not: "not"}[e.func]
        return Number(
            b.op("not", *parts) if name == "not" else functools.reduce(functools.partial(b.map, name), parts)
        )
    direction = next((word for kind, word in _COMPARISONS if isinstance(e, kind)), None)
    if direction is None:
        raise UnsupportedOp(f"the condition {e} on sizes is computed in a way that is not supported")
    number = _integer if all(arg.is_integer for arg in e.args) else _float
    dtype = "i64" if number is _integer else "f64"
    return Number(b.compare(direction, *(b.lift(number(b, arg), dtype) for arg in e.args)))


def _finish(captured, walk: _Walk, builder, program: Program) -> None:
    """Declares the outputs; a constant or an input that the module hands back as it is stays on the Python side."""
    values: list[Any] = []
    #: What is returned twice is one tensor, as in eager mode.
    made: dict[torch.fx.Node, int] = {}
    for result in captured.traced.results:
        value = walk.read(result) if isinstance(result, torch.fx.Node) else walk.resolve(result)
        if (held := _made_contiguous(result, walk)) is not None:
            program.outputs.append(("contiguous", held))
        elif isinstance(result, torch.fx.Node) and result in captured.inputs:
            program.outputs.append(("input", captured.inputs.index(result)))
        elif is_value(value):
            place = made.setdefault(result, len(values)) if isinstance(result, torch.fx.Node) else len(values)
            program.outputs.append(("value", place))
            if place == len(values):
                values.append(value)
        elif isinstance(value, Number):
            program.outputs.append(("number", len(values)))
            values.append(value.value)
        elif isinstance(value, torch_complex.Complex):
            raise UnsupportedOp("the module returns a complex tensor", help="return torch.view_as_real of it")
        elif isinstance(value, (int, float, bool, str, type(None))):
            program.outputs.append(("constant", value))
        elif isinstance(result, (torch.fx.Node, *SYMBOLIC)):
            program.outputs.append(("number", len(values)))
            values.append(builder.dim(value))
        else:
            raise Error(
                f"the module returns a {type(value).__name__}: neither a tensor nor a number nor a container that torch knows",
                code="E0404",
                help="register the type with torch.utils._pytree (dataclasses: register_dataclass)",
            )
    if not values and not program.outputs:
        raise Error("the module returns nothing", code="E0404")
    builder.output(values)
