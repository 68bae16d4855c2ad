"""Prints a partitioned graph as one straight-line function of Python.

Between clusters nothing runs but the ops that torch was left, and Python for sizes. A name is
deleted where nothing reads it any more, so that memory lives as long as in eager mode.

Invariant: a parameter or a buffer that calls change is read from the module in each call.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import sympy
import torch
from torch.utils._sympy.printers import PythonPrinter

from ...core.errors import UnsupportedOp
from ..capture.captured_graph import CapturedGraph
from ..graph.randomness import draws
from ..lowering.table import ITEMS
from ..pytree.result import Result
from ..symbolic.expressions import SYMBOLIC, expression
from .clusters import CompiledCluster, changing_weights, hint_of, kept_to_the_end, number_type

aten = torch.ops.aten
#: An op that torch runs, or a cluster.
Step: TypeAlias = torch.fx.Node | CompiledCluster

#: Makes the scalar tensor of a number.
_SCALARS = {dtype: functools.partial(torch.tensor, dtype=dtype) for dtype in (torch.int64, torch.float64)}
#: Constants that are printed as they are.
_LITERALS = (int, bool, str, type(None))


class Printer:
    """Prints the function; ``names`` holds what it calls and reads."""

    def __init__(self):
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"math": math}
        #: Each symbol and the variable that has its value.
        self.sizes: dict[sympy.Symbol, str] = {}
        self.values: dict[torch.fx.Node, str] = {}
        self._held: dict[int, str] = {}
        self._expressions = PythonPrinter()

    def line(self, text: str) -> None:
        self.lines.append(f"    {text}")

    def constant(self, value) -> str:
        """The name of an object that the function holds."""
        if id(value) not in self._held:
            name = self._held[id(value)] = f"k{len(self._held)}"
            self.names[name] = value
        return self._held[id(value)]

    def name(self, node: torch.fx.Node) -> str:
        """A variable for the value of a node."""
        return self.values.setdefault(node, f"v{len(self.values)}")

    def bind(self, symbol: sympy.Symbol, text: str) -> None:
        """A variable for a size."""
        name = self.sizes[symbol] = f"s{len(self.sizes)}"
        self.line(f"{name} = {text}")

    def bind_sizes(self, tensor: torch.Tensor, name: str) -> None:
        """Variables for the sizes of a tensor that are not known yet."""
        for axis, size in enumerate(map(expression, tensor.shape)):
            if isinstance(size, sympy.Symbol) and size not in self.sizes:
                self.bind(size, f"{name}.size({axis})")

    def size(self, value) -> str:
        """A number that depends on sizes."""
        expr = value.node.expr if isinstance(value, SYMBOLIC) else sympy.sympify(value)
        if expr.is_number and not isinstance(value, SYMBOLIC):
            return str(value)
        if unknown := expr.free_symbols - self.sizes.keys():
            raise UnsupportedOp(f"the size {min(map(str, unknown))} is known within a cluster alone")
        renamed = expr.xreplace(
            {s: sympy.Symbol(text, integer=s.is_integer) for s, text in self.sizes.items()}
        )
        return self._expressions.doprint(renamed)

    def argument(self, value) -> str:
        """An argument of an op, nested as it may be."""
        if isinstance(value, torch.fx.Node):
            held = value.meta.get("val")
            if value not in self.values and isinstance(held, (*SYMBOLIC, int, float, bool)):
                return self.argument(held)
            return self.values[value]
        if isinstance(value, SYMBOLIC):
            return self.size(value)
        if isinstance(value, tuple):
            return f"({''.join(f'{self.argument(x)}, ' for x in value)})"
        if isinstance(value, list):
            return f"[{', '.join(self.argument(x) for x in value)}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{k!r}: {self.argument(x)}' for k, x in value.items())}}}"
        if isinstance(value, slice):
            return f"slice({', '.join(map(self.argument, (value.start, value.stop, value.step)))})"
        if type(value) in _LITERALS:
            return repr(value)
        return self.constant(value)

    def op(self, node: torch.fx.Node) -> None:
        """Names the result of an op."""
        arguments = [self.argument(x) for x in node.args]
        if node.target is operator.getitem:
            text = f"{arguments[0]}[{arguments[1]}]"
        else:
            arguments += [f"{name}={self.argument(x)}" for name, x in node.kwargs.items()]
            text = f"{self.constant(node.target)}({', '.join(arguments)})"
        self.line(f"{self.name(node)} = {text}")

    def function(self, name: str, parameters: str) -> tuple[Callable, str]:
        """The function and its text."""
        text = "\n".join([f"def {name}({parameters}):", *self.lines]) + "\n"
        namespace = dict(self.names)
        exec(compile(text, f"<disc {name}>", "exec"), namespace)
        return namespace[name], text


@dataclass
class Printed:
    """The function that runs a partitioned graph, and what it reads."""

    run: Callable
    text: str
    #: The variable of each weight that torch reads.
    weights: dict[str, str]


def printed(graph: CapturedGraph, original: Callable, steps: list[Step]) -> Printed:
    """Prints ``steps`` as a function of the flat tensors of a call of ``original()``."""
    printer = Printer()
    weights = _print_head(graph, original, printer)
    gone = _last_uses(graph, steps)
    for i, step in enumerate(steps):
        _print_op(printer, step) if isinstance(step, torch.fx.Node) else _print_cluster(printer, step)
        names = [printer.values[node] for node in gone.get(i, ()) if node in printer.values]
        if names:
            printer.line(f"del {', '.join(names)}")
    _print_end(graph, original, printer)
    return Printed(*printer.function("run", "tensors"), weights)


def _print_head(graph: CapturedGraph, original: Callable, printer: Printer) -> dict[str, str]:
    """Names inputs, sizes, weights and constants; the variables of the weights that stay."""
    names = [f"i{i}" for i in range(len(graph.inputs))]
    if names:
        printer.line(f"{', '.join(names)}, = tensors")
    printer.values |= dict(zip(graph.inputs, names, strict=True))
    composite = []
    # A call passes numbers of Python for these inputs.
    printer.sizes |= {symbol: printer.values[node] for symbol, node in graph.sizes.items()}
    for node, name in zip(graph.inputs, names, strict=True):
        printer.bind_sizes(node.meta["val"], name)
        sizes = enumerate(map(expression, node.meta["val"].shape))
        composite += [
            (e, f"{name}.size({axis})") for axis, e in sizes if not isinstance(e, (int, sympy.Symbol))
        ]
    for size, text in composite:
        unknown = [s for s in size.free_symbols if s not in printer.sizes]
        if len(unknown) == 1:
            step, offset = size.coeff(unknown[0], 1), size.coeff(unknown[0], 0)
            printer.bind(unknown[0], f"({text} - ({printer.size(offset)})) // ({printer.size(step)})")
    weights: dict[str, str] = {}
    changing = changing_weights(graph.traced)
    for i, (node, name, tensor) in enumerate(graph.traced.weights):
        printer.values[node] = f"w{i}"
        if node in changing:
            printer.line(f"w{i} = {printer.constant(_now)}({printer.constant(original)}(), {name!r})")
        else:
            printer.values[node] = weights.setdefault(name, f"w{i}")
            printer.names[weights[name]] = tensor.detach()
    for node, tensor in graph.traced.constants:
        printer.values[node] = printer.constant(tensor)
    return weights


def _now(module: torch.nn.Module, name: str) -> torch.Tensor:
    """A parameter or a buffer as it is in this call, without the gradient that it asks for."""
    found = operator.attrgetter(name)(module)
    return found.detach() if found.requires_grad else found


def _print_cluster(printer: Printer, made: CompiledCluster) -> None:
    cluster = made.cluster
    result = Result(made.program.program.outputs, made.program.out_spec)
    taken = [printer.argument(n) for n in cluster.taken]
    taken += [f"{printer.constant(_SCALARS[number_type(s)])}({printer.size(s)})" for s in cluster.sizes]
    run = printer.constant(made.run)
    call = f"{run}([{', '.join(taken)}])"
    if not result.plain:
        printer.line(f"taken = [{', '.join(taken)}]")
        call = f"{printer.constant(result.leaves)}({run}(taken), taken)"
    given = [printer.name(node) for node in cluster.given]
    printer.line(f"{', '.join(given)}, = {call}" if given else call)
    for node, name in zip(cluster.given, given, strict=True):
        printer.bind_sizes(node.meta["val"], name)
        order = memory_order(node.meta["val"])
        if order != sorted(order) and any(_sees_memory(user) for user in node.users):
            back = [order.index(axis) for axis in range(len(order))]
            printer.line(f"{name} = {name}.permute({order}).contiguous().permute({back})")


def memory_order(val: torch.Tensor) -> list[int]:
    """The axes of a tensor from the slowest to the fastest in memory, as eager mode has them."""
    strides = [hint_of(stride) for stride in val.stride()]
    if 0 in strides:
        # An element that several positions share has no order.
        return list(range(val.dim()))
    return sorted(range(val.dim()), key=lambda axis: -strides[axis])


def _sees_memory(node: torch.fx.Node) -> bool:
    """Returns true for an op whose result depends on the order of its argument in memory: random
    numbers are drawn in that order.
    """
    return draws(node) or node.target is aten.as_strided.default


def _print_op(printer: Printer, node: torch.fx.Node) -> None:
    printer.op(node)
    name = printer.values[node]
    val = node.meta.get("val")
    if str(node.target) in ITEMS and isinstance(val, SYMBOLIC):
        unknown = val.node.expr.free_symbols - printer.sizes.keys()
        for symbol in unknown:
            printer.sizes[symbol] = name
        if not unknown:
            printer.line(f"{printer.constant(_check_number)}({name}, {printer.size(val)})")
        return
    for i, part in enumerate(val if isinstance(val, (list, tuple)) else (val,)):
        if isinstance(part, torch.Tensor):
            held = f"{name}[{i}]" if isinstance(val, (list, tuple)) else name
            printer.bind_sizes(part, held)


def _check_number(value, wanted) -> None:
    """Raises where a number out of a tensor is not what the model asserted that it is."""
    if value != wanted:
        raise RuntimeError(f"a number that depends on data is {value}, and the model asserts {wanted}")


def _last_uses(graph: CapturedGraph, steps: list[Step]) -> dict[int, list[torch.fx.Node]]:
    """For each step the values that nothing reads after it."""
    last: dict[torch.fx.Node, int] = {}
    for i, step in enumerate(steps):
        if isinstance(step, torch.fx.Node):
            held = [*step.all_input_nodes, step]
        else:
            held = [*step.cluster.taken, *step.cluster.given]
        last |= dict.fromkeys(held, i)
    kept = kept_to_the_end(graph.traced)
    kept |= {node for node, *_ in (*graph.traced.weights, *graph.traced.constants)}
    uses: dict[int, list[torch.fx.Node]] = {}
    for node, i in last.items():
        # Sizes and numbers are read by their symbols.
        if node not in kept and not isinstance(node.meta.get("val"), SYMBOLIC):
            uses.setdefault(i, []).append(node)
    return uses


def _print_end(graph: CapturedGraph, original: Callable, printer: Printer) -> None:
    """Stores what the graph computes for inputs and buffers, and returns the results."""
    traced = graph.traced
    for target, value in traced.stored:
        printer.line(f"{printer.values[target]}.copy_({printer.argument(value)})")
    for name, value in traced.assignments:
        path, _, leaf = name.rpartition(".")
        owner = f"{printer.constant(original)}().get_submodule({path!r})"
        printer.line(f"{owner}._buffers[{leaf!r}] = {printer.argument(value)}")
    leaves = "".join(f"{printer.argument(result)}, " for result in traced.results)
    printer.line(f"return [{leaves}]")
