"""Lowers a captured FX graph to ops of the compiler.

The meaning of each op is one entry of ``TABLE``: a function of the emitter and the arguments of the
overload. The entries are in the files of the families (``elementwise`` and its neighbours).
Here is the walk over the graph: inputs, weights, shape arithmetic, inlined regions, outputs, and
the report of everything that has no entry.

Invariants:

- sizes come from the shape environment of the capture, never from an example;
- a value is converted once; where the graph writes in place, ``functionalize`` says what a later
  reader sees;
- every unsupported op of a graph is reported in one error.
"""

from __future__ import annotations

import operator
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._sympy.symbol import SymT, symbol_is_type

from ...core.errors import Error, UnsupportedOp
from ...core.stages import stage
from ...lowering import sizes
from ...lowering.emitter import MISSING, Number, is_value
from ..capture.captured_program import CapturedProgram
from ..graph.element_types import refused
from ..graph.origin import Line, model_line, source_line
from ..graph.other_devices import nodes_elsewhere
from ..graph.program import Program
from ..symbolic.conditions import conjuncts
from ..symbolic.expressions import SYMBOLIC, expression
from ..tracer import deadline
from . import complex_numbers, control_flow
from .emitter import TorchEmitter
from .functionalize import Aliases
from .interface import (
    RELATIONS,
    Names,
    add_check,
    bind_weights,
    declare_facts,
    declare_inputs,
    declare_outputs,
    declare_state,
    note_fact,
    state_fact,
    state_relation,
)
from .reasons import why_missing
from .scalars import floating, integer, least_value, rounded_root, truth
from .size_expressions import Expressions
from .table import CHECKS, ITEMS, TABLE

if TYPE_CHECKING:
    from ..capture.captured_graph import CapturedGraph

#: Kinds of symbols that stand for numbers out of tensors.
_OF_DATA = (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)
_INLINED = ("wrap_with_set_grad_enabled", "wrap_with_autocast")


@stage("conversion")
def convert(graph: CapturedGraph, builder) -> CapturedProgram:
    """Emits ``graph`` into ``builder``.

    Raises UnsupportedOp, which names all ops without an entry.
    """
    start = time.perf_counter()
    walk = Walk(graph, builder)
    program = walk.program
    walk.refuse_elsewhere()
    walk.lower()
    walk.raise_if_missing()
    declare_outputs(graph, walk, builder, program)
    stages = {"capture": graph.milliseconds, "convert": (time.perf_counter() - start) * 1e3}
    return CapturedProgram(
        graph.arguments, graph.plan, graph.out_spec, graph.symbols, graph.dtypes, graph.fixed, graph.fixed_at,
        program, builder, graph.by, stages, graph.returned_caches, graph.device, tuple(graph.devices),
        graph.notes,
    )  # fmt: skip


class Walk:
    """Lowers the nodes of one captured graph in program order."""

    def __init__(self, captured: CapturedGraph, builder):
        self.captured = captured
        self.builder = builder
        self.program = program = Program()
        expressions = Expressions(captured.simplify)
        expressions.check = lambda condition, text: add_check(program, condition, text)
        self.emitter = TorchEmitter(builder, expressions)
        expressions.bind_root = lambda root: rounded_root(self.emitter, root)
        self.emitter.state = lambda fact: state_fact(builder, program, fact)
        self.emitter.note = lambda fact: note_fact(program, fact)
        self.values: dict[torch.fx.Node, Any] = {}
        self.weight_names: dict[torch.fx.Node, str] = {}
        #: Inputs, and parameters and buffers that are inputs of the program, to which it may write:
        #: the positions of their parameters.
        self.writable: dict[torch.fx.Node, int] = {}
        self.input_names = Names()
        self.missing: Counter[tuple[str, str]] = Counter()
        self.sources: dict[tuple[str, str], list[str]] = {}
        self.helps: list[str] = []
        self.aliases = Aliases(self, TABLE)
        #: The placeholders of graphs within this one.
        self.given_within: set[torch.fx.Node] = set()
        #: The nodes of another device.
        self.elsewhere: dict[torch.fx.Node, str] = {}
        #: The node that is being converted.
        self.node: torch.fx.Node | None = None
        self._line: Line | None = None

    def lower(self) -> None:
        """Declares the interface but for the results, and converts the graph."""
        expressions = self.emitter.expressions
        declare_inputs(self.captured, self.builder, expressions, self, self.program)
        declare_state(self.captured, self.builder, self, self.program)
        declare_facts(self.captured, self.builder, expressions, self.program)
        bind_weights(self.captured, self.emitter, self, self.program)
        self.run(self.captured.graph)

    def refuse_elsewhere(self) -> None:
        """Notes what belongs to another device: compiled code has one."""
        self.elsewhere = nodes_elsewhere(
            self.captured.traced, self.captured.device, is_part=self.captured.is_part
        )
        for node, reason in self.elsewhere.items():
            self.lack(str(node.target), reason, node=node)

    def run(self, graph: torch.fx.Graph) -> Any:
        """Converts every node; the value is what the graph returns."""
        self.aliases.enter(graph)
        for node in graph.nodes:
            deadline.give_way()
            if node.op == "output":
                return node.args[0]
            self.locate(node)
            if node.op == "get_attr":
                self._get_attr(node, graph)
            elif node.op == "call_function":
                self._call(node)
        return ()

    def locate(self, node: torch.fx.Node) -> None:
        """Makes the line of a node the origin of the ops that follow."""
        if (line := model_line(node)) == self._line:
            return
        self._line = line
        if line is None:
            self.builder.location()
        else:
            path, number, function = line
            self.builder.location(self.program.files.shown(path), number, function)

    def read(self, node):
        return self.aliases.read(node)

    def resolve(self, arg):
        """Arguments of an op: nodes become values or sizes,
        numbers that depend on sizes become sizes.
        """
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
        """torch takes min(1, s) for 1: the size of ``x[:1]``.

        Where such a value is used, the size has to be 1.
        """
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
        if node in self.elsewhere:
            self.program.operations += 1
            self.values[node] = MISSING
            return
        if name == "aten._assert_scalar.default":
            return self._assert(node)
        if name == "aten._assert_async.msg":
            return self._assert_data(node)
        if name in CHECKS or "assert" in name:
            return
        if name in ITEMS:
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
            if self.values[node] is None and node.users:
                self.lack(str(source.target), f"result {index} is not computed", node=source)
            if self.values[node] is None:
                self.values[node] = MISSING
        elif name in control_flow.FLOWS:
            self.program.operations += 1
            try:
                self.values[node] = control_flow.FLOWS[name](self, node)
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
                if val.node.expr.free_symbols & set(numbers) and least_value(val) < 0:
                    return integer(self.emitter, val.node.expr)
                return self.emitter.expressions.size(val)
            if isinstance(val, torch.SymFloat):
                return floating(self.emitter, self.captured.simplify(val.node.expr))
            if isinstance(val, torch.SymBool):
                return truth(self.emitter, self.captured.simplify(val.node.expr))
        except UnsupportedOp as error:
            self.lack(str(node.target), error.message, node=node)
            return MISSING
        return val

    def _item(self, node):
        """A number out of a tensor: a dim, if it is known to be no less than 0,
        since it is then most likely a size.
        """
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
                self._note_number(val.node.expr, value.value, floating)
            return value
        value = b.convert(value, "i64")
        if least_value(val) >= 0:
            return b.bind(value, val)
        self._note_number(val.node.expr, value, integer)
        return Number(value)

    def _note_number(self, e, value, of_expression) -> None:
        """Notes a number out of a tensor; one that has to be another one is compared with it."""
        b = self.emitter
        if e.is_Symbol and e not in b.expressions.numbers:
            b.expressions.numbers[e] = value
            return
        known = b.lift(of_expression(b, e), value.dtype)
        b.require_true(b.compare("EQ", value, known), f"a number that depends on data is not {e}")

    def _assert(self, node) -> None:
        """States what capture knows of sizes that depend on data: a fact, checked where the size is
        bound; of other numbers out of tensors a check of the call.
        """
        condition = getattr(node.args[0], "meta", {}).get("val", node.args[0])
        if not isinstance(condition, torch.SymBool):
            return
        known = self.emitter.expressions
        is_of_data = _is_of_data(node.args[0])
        for fact in conjuncts(condition.node.expr):
            relation = next((sign for kind, sign in RELATIONS if isinstance(fact, kind)), None)
            is_of_numbers = bool(fact.free_symbols & set(known.numbers))
            if relation is not None and fact.free_symbols <= set(known.symbols):
                state_relation(known, self.emitter.state, fact, relation)
            elif is_of_numbers or (relation is None and is_of_data):
                if (value := self._number(condition, node)) is not MISSING:
                    self.emitter.require_true(value, node.args[1])
                return

    def _assert_data(self, node) -> None:
        """Emits a check of the data, which runs in each call."""
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
        """Lowers the graph that the attribute ``graph_of`` names;
        returns its results for ``given``.
        """
        graph = self.values[graph_of].graph
        holders = [n for n in graph.nodes if n.op == "placeholder"]
        self.given_within.update(holders)
        self.values |= zip(holders, given, strict=True)
        results = self.run(graph)
        self.locate(graph_of)
        return self.resolve(results)

    def _convert(self, node, name: str) -> None:
        entry, written = self.aliases.entry(name, node)
        args, kwargs = self.resolve(node.args), self.resolve(node.kwargs)
        entry = complex_numbers.entry(name, node, (args, list(kwargs.values())), entry)
        if entry is None:
            self.lack(_readable(node.target), *why_missing(node.target), node=node)
            result = MISSING
        elif _has_missing(args) or _has_missing(kwargs.values()):
            result = MISSING
        elif (refusal := self._refusal(node)) is not None:
            self.lack(name, refusal, node=node)
            result = MISSING
        else:
            result = self.apply(node, name, entry, args, kwargs)
        self.program.operations += 1
        if written and result is not MISSING:
            result = self.aliases.write(node, written, result)
        self.values[node] = result

    def _refusal(self, node) -> str | None:
        """Why torch refuses the types of a node's arguments; None if it does not."""
        if self.captured.device.type != "cpu":
            return None
        values = (source.meta.get("val") for source in node.all_input_nodes)
        dtypes = [value.dtype for value in values if isinstance(value, torch.Tensor)]
        dtype = refused(node.target, dtypes, node.args, node.kwargs)
        return None if dtype is None else f"torch has no form of it for {dtype} on CPUs"

    def apply(self, node, name: str, entry, args, kwargs):
        self.emitter.meta = node.meta.get("val")
        try:
            return entry(self.emitter, *args, **kwargs)
        except UnsupportedOp as error:
            self.lack(name, error.message, error.help, node=node)
            return MISSING
        except Error as error:
            # The op of the compiler refuses its operands, and names only itself.
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


def _is_of_data(condition) -> bool:
    """Returns true if a number out of a tensor decides a condition; its symbol may be that of a
    size by now, which it equals.
    """
    if isinstance(condition, torch.fx.Node):
        return str(condition.target) in ITEMS or any(map(_is_of_data, condition.all_input_nodes))
    symbols = condition.node.expr.free_symbols if isinstance(condition, SYMBOLIC) else ()
    return any(symbol_is_type(symbol, _OF_DATA) for symbol in symbols)


def _only_checked(node) -> bool:
    """Returns true if nothing but checks and comparisons uses a number."""
    return all(
        str(user.target) in CHECKS or (isinstance(user.meta.get("val"), SYMBOLIC) and _only_checked(user))
        for user in node.users
    )


def _is_one(traced) -> bool:
    """Returns true if torch has a size as 1, without asking it,
    which would be an error for a size that depends on data.
    """
    return expression(traced) == 1


def _has_missing(args) -> bool:
    return any(a is MISSING or (isinstance(a, (list, tuple)) and _has_missing(a)) for a in args)
