"""Declares the interface of a program: its inputs and their dims, facts about sizes, weights,
constants and outputs.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import sympy
import torch

from ...core.dims import Dim
from ...core.errors import Error, UnsupportedOp
from ...lowering import sizes
from ...lowering.complex_value import Complex
from ...lowering.emitter import Number, is_value
from ..graph.program import Program
from ..symbolic.conditions import spelled
from ..symbolic.expressions import SYMBOLIC
from ..symbolic.number_of_sizes import NumberOfSizes, number_of_sizes
from ..symbolic.source_lines import written
from . import complex_numbers
from .emitter import TorchEmitter
from .promotion import name_of
from .size_expressions import has_root

if TYPE_CHECKING:
    from .graph import Walk


def declare_inputs(captured, builder, expressions, walk, program: Program) -> None:
    shapes = [captured.input_shape(i) for i in range(len(captured.inputs))]
    names = _dim_names(captured, shapes)
    inputs = walk.input_names
    deferred = []
    for i, (node, shape) in enumerate(zip(captured.inputs, shapes, strict=True)):
        row = [size if isinstance(size, int) else names[i][axis] for axis, size in enumerate(shape)]
        dtype = name_of(node.meta["val"].dtype)
        value = builder.input(inputs.fresh(captured.arguments.tensor_names[i]), row, dtype)
        program.dims.append([str(d) for d in row])
        walk.values[node] = value
        walk.writable[node] = i
        for axis, expr in enumerate(shape):
            if isinstance(expr, sympy.Symbol):
                expressions.symbols.setdefault(expr, value.shape[axis])
            elif not isinstance(expr, int):
                deferred.append((expr, value.shape[axis]))
    for symbol, node in captured.sizes.items():
        if symbol.is_integer:
            expressions.bind(symbol, walk.emitter.bind_dim(walk.values[node], str(symbol)))
        else:
            expressions.numbers[symbol] = walk.values[node]
    for expr, dim in deferred:
        _relate(expr, dim, expressions, builder, program)


def declare_state(captured, builder, walk: Walk, program: Program) -> None:
    """Parameters and buffers that calls change are inputs, one for each tensor:
    a call takes them from the module. So are others that keep changing between calls.
    """
    traced = captured.traced
    assigned = set(traced.assigned)
    written = set(traced.written())
    state = [row for row in traced.weights if row[0] in written or row[1] in assigned]
    tensors = {id(tensor) for _, _, tensor in state}
    made: dict[int, tuple[Any, int]] = {}
    for node, name, tensor in traced.weights:
        is_changed = id(tensor) in tensors
        if not is_changed and (not captured.takes_weights or tensor.is_complex() or not node.users):
            continue
        if is_changed:
            _refuse_shared(name, tensor, traced, tensors)
        if id(tensor) not in made:
            value = builder.input(walk.input_names.fresh(name), list(tensor.shape), name_of(tensor.dtype))
            made[id(tensor)] = value, len(captured.inputs) + len(program.state)
            program.state.append(name)
        walk.values[node], place = made[id(tensor)]
        if is_changed:
            walk.writable[node] = place
        walk.weight_names[node] = name


def _refuse_shared(name: str, tensor: torch.Tensor, traced, state: set[int]) -> None:
    """A write to a tensor is not seen through another one."""
    if tensor.is_complex():
        raise UnsupportedOp(f"the module changes {name}, a tensor of complex numbers")
    others = [(n, t) for _, n, t in traced.weights] + [("a constant", t) for _, t in traced.constants]
    for other, t in others:
        if t is not tensor and tensor.numel() and _one_storage(t, tensor):
            raise Error(
                f"the model changes {name}, which shares memory with {other}: that is not supported",
                code="E0405",
            )


def _one_storage(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _dim_names(captured, shapes) -> list[list[str]]:
    """A declared name, else one made of the input and the axis;
    axes with one symbol share one name.
    """
    by_symbol: dict[Any, str] = {}
    axes = [(i, axis, expr) for i, shape in enumerate(shapes) for axis, expr in enumerate(shape)]
    for i, axis, expr in axes:
        declared = captured.plan.axes[i][axis]
        if isinstance(declared, Dim) and isinstance(expr, sympy.Symbol):
            by_symbol.setdefault(expr, declared.name)
    names = Names(captured.plan.declared())
    rows: list[list[str]] = [[] for _ in shapes]
    arguments = captured.arguments
    for i, axis, expr in axes:
        name = by_symbol.get(expr)
        if name is None:
            # An open integer is its own size.
            place = "" if arguments.tensors[i] in arguments.numbers else f"_{axis}"
            name = names.fresh(f"{arguments.tensor_names[i]}{place}".replace(".", "_"))
            if isinstance(expr, sympy.Symbol):
                by_symbol[expr] = name
        rows[i].append(name)
    return rows


class Names:
    """Names that the compiler can read, no two of them equal: keys of dicts are any text,
    and ``a_b`` may be beside ``a.b``.
    """

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
    """An input's size that capture knows as an expression: its symbol is solved for,
    or the two are equal.
    """
    unknown = [s for s in expr.free_symbols if s not in expressions.symbols]
    if len(unknown) == 1:
        (symbol,) = unknown
        step, offset = expr.coeff(symbol, 1), expr.coeff(symbol, 0)
        if step.is_Integer and step > 0 and (expr - step * symbol - offset) == 0:
            rest = dim - expressions.size(offset)
            expressions.bind(symbol, rest // int(step))
            state_fact(builder, program, f"{rest % int(step)} == 0")
            return
    state_fact(builder, program, f"{dim} == {expressions.size(expr)}")


def state_fact(builder, program: Program, fact: str) -> None:
    if fact not in program.facts:
        builder.fact(fact)
        program.facts.append(fact)


def note_fact(program: Program, fact: str) -> None:
    """A fact that the program has: it explains why a call is refused."""
    if fact not in program.facts:
        program.facts.append(fact)


def add_check(program: Program, condition, text: str) -> None:
    if (condition, text) not in program.checks:
        program.checks.append((condition, text))


RELATIONS = ((sympy.Eq, "=="), (sympy.Le, "<="), (sympy.Ge, ">="), (sympy.Lt, "<"), (sympy.Gt, ">"))


def _spelled_as(dim: Dim, captured, program: Program) -> str:
    """The name of a declared dim in the program:
    another declared one's where the model makes the two equal.
    """
    axes = [
        (i, axis) for i, row in enumerate(captured.plan.axes) for axis, what in enumerate(row) if what == dim
    ]
    return next((program.dims[i][axis] for i, axis in axes), dim.name)


def declare_facts(captured, builder, expressions, program: Program) -> None:
    for dim in captured.plan.declared().values():
        name = _spelled_as(dim, captured, program)
        for text, stated in (
            (f"{name} >= {dim.min}", dim.min > 0),
            (f"{name} <= {dim.max}", dim.max is not None),
            (f"{name} % {dim.multiple_of} == 0", dim.multiple_of > 1),
        ):
            if stated:
                state_fact(builder, program, text)
        if dim.likely and hasattr(builder, "likely"):
            builder.likely(name, list(dim.likely))
    for fact in captured.facts:
        if not fact.free_symbols <= set(expressions.symbols):
            continue
        place = captured.conditions.places.get(fact)
        relation = next((sign for kind, sign in RELATIONS if isinstance(fact, kind)), None)
        if relation is not None and not fact.has(sympy.Float) and not has_root(fact):
            text = state_relation(
                expressions, lambda text: state_fact(builder, program, text), fact, relation
            )
        else:
            text = spelled(fact)
            program.checks.append((fact, text))
        if place is not None and text is not None:
            program.asked_at.setdefault(text, written(place))


def state_relation(expressions, state, fact, relation: str) -> str | None:
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


def bind_weights(captured, emitter: TorchEmitter, walk: Walk, program: Program) -> None:
    """Parameters and buffers are weights, one for each tensor, whatever names it has;
    lifted tensors are constants.
    """
    made: dict[int, Any] = {}
    for node, name, tensor in captured.traced.weights:
        if not node.users or node in walk.values:
            continue
        if id(tensor) not in made:
            held = torch.view_as_real(tensor) if tensor.is_complex() else tensor
            value = emitter.builder.weight(name, list(held.shape), name_of(held.dtype))
            made[id(tensor)] = complex_numbers.joined(emitter, value) if tensor.is_complex() else value
            program.weights.append((name, held))
        walk.values[node] = made[id(tensor)]
        walk.weight_names[node] = name
    for node, tensor in captured.traced.constants:
        if node.users:
            held = emitter.tensor(torch.view_as_real(tensor) if tensor.is_complex() else tensor)
            walk.values[node] = complex_numbers.joined(emitter, held) if tensor.is_complex() else held


def _made_contiguous(result, walk: Walk) -> int | None:
    """The input that a result is a row-major copy of; None if the copy was written to."""
    if not isinstance(result, torch.fx.Node) or result.target is not torch.ops.aten.contiguous.default:
        return None
    inputs, plain = walk.captured.inputs, len(result.args) == 1 and not result.kwargs
    held = inputs.index(result.args[0]) if plain and result.args[0] in inputs else None
    return held if held is not None and walk.read(result) is walk.values[inputs[held]] else None


def declare_outputs(captured, walk: Walk, builder, program: Program) -> None:
    """Declares the outputs; a constant or an input that the module hands back as it is
    stays on the Python side.
    """
    stored = {target: walk.read(result) for target, result in captured.traced.stored}
    walk.values |= stored
    walk.aliases.stored |= dict.fromkeys(stored)
    values: list[Any] = []
    #: A result that is returned twice is one tensor, as in eager mode.
    made: dict[torch.fx.Node, int] = {}
    for result in captured.traced.results:
        value = walk.read(result) if isinstance(result, torch.fx.Node) else walk.resolve(result)
        if (number := _on_host(captured, result)) is not None:
            program.outputs.append(("size", number))
        elif (held := _changed(result, walk)) is not None:
            program.outputs.append(("input", held))
        elif (held := _made_contiguous(result, walk)) is not None:
            program.outputs.append(("contiguous", held))
        elif isinstance(result, torch.fx.Node) and result in captured.inputs:
            program.outputs.append(("input", captured.inputs.index(result)))
        elif is_value(value) or isinstance(value, Complex):
            place = made.setdefault(result, len(values)) if isinstance(result, torch.fx.Node) else len(values)
            is_complex = isinstance(value, Complex)
            program.outputs.append(("complex" if is_complex else "value", place))
            if place == len(values):
                values.append(complex_numbers.apart(walk.emitter, value) if is_complex else value)
        elif isinstance(value, Number):
            program.outputs.append(("number", len(values)))
            values.append(value.value)
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
    for name, result in captured.traced.assignments:
        program.assigned.append((name, *_assigned(name, result, walk, values, made)))
    stores = _stores(walk, values, program)
    if not values and not program.outputs:
        raise Error("the module returns nothing", code="E0404")
    builder.output(values, stores=stores) if stores else builder.output(values)


def _on_host(captured, result) -> NumberOfSizes | None:
    """A number that a module on a GPU returns, if its sizes tell it."""
    if captured.device.type == "cpu":
        return None
    value = result.meta.get("val") if isinstance(result, torch.fx.Node) else result
    return number_of_sizes(value, captured.symbols)


def _changed(result, walk: Walk) -> int | None:
    """The input, parameter or buffer that a result is, if calls change it;
    a result may not be a view of one that is written to.
    """
    if not isinstance(result, torch.fx.Node):
        return None
    root, is_same = walk.aliases.origin(result)
    if root not in walk.aliases.stored:
        return (
            walk.writable[root] if root in walk.weight_names and root in walk.writable and is_same else None
        )
    if is_same:
        return walk.writable[root]
    if result.target is torch.ops.aten.contiguous.default:
        walk.aliases.dense.add(root)
        return walk.writable[root]
    raise Error(
        f"the model returns a view of {_called(root, walk)}, to which it writes: that is not supported yet",
        code="E0405",
        help="return a clone of it",
    )


def _called(node, walk: Walk) -> str:
    """An input, a parameter or a buffer in messages."""
    if name := walk.weight_names.get(node):
        return f"the parameter or buffer {name}"
    return f"the input {walk.captured.arguments.tensor_names[walk.writable[node]]}"


def _assigned(name: str, result, walk: Walk, values: list, made: dict) -> tuple[str, int]:
    """A buffer that is assigned anew: an output, or an input as it is."""
    if isinstance(result, torch.fx.Node) and result.op == "placeholder" and result in walk.writable:
        return "input", walk.writable[result]
    if (held := _changed(result, walk)) is not None:
        return "input", held
    value = walk.read(result) if isinstance(result, torch.fx.Node) else None
    if not is_value(value) or result.op == "placeholder":
        raise Error(f"the model assigns {name} a tensor that is not supported", code="E0405")
    place = made.setdefault(result, len(values))
    if place == len(values):
        values.append(value)
    return "value", place


def _stores(walk: Walk, values: list, program: Program) -> list[tuple[int, int]]:
    """Adds the new value of each input, parameter and buffer that is written to to the outputs;
    pairs of output and parameter.
    """
    stores = []
    for node in sorted(walk.aliases.stored, key=walk.writable.__getitem__):
        parameter = walk.writable[node]
        if parameter in program.written:
            raise UnsupportedOp("a parameter that the module has twice is written under both names")
        stores.append((len(values), parameter))
        values.append(walk.read(node))
        program.written.append(parameter)
        if node in walk.aliases.dense:
            program.dense.append(parameter)
    return stores
