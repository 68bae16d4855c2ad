"""Traces a module with sizes of our choice until the model accepts them (``capture.remedies``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy
import torch

from ...core.dims import Dim, DimPlan
from ...core.errors import DimError, Error
from ...core.stages import stage
from ..graph.exported import Traced
from ..graph.moved_tensors import moved_in_place, refusal_of_moved
from ..pytree.arguments import Arguments
from ..symbolic.source_lines import Place, written
from ..tracer import deadline
from . import conflicts, guards, zero_one
from .argument_containers import WritesArgument
from .captured_graph import CapturedGraph
from .entry import Entry
from .example_sizes import Sizes
from .failures import capture_error, is_shape_failure
from .function_caches import FunctionCaches
from .remedies import OF_FAILURES, OF_GRAPHS, Failure, pin_written

_MOST_ATTEMPTS = 24


class Attempts:
    """The attempts of one tracer to trace a module."""

    def __init__(
        self,
        module: torch.nn.Module,
        arguments: Arguments,
        tensors: list[torch.Tensor],
        plan: DimPlan,
        tracer: Callable[..., Traced],
        caches: FunctionCaches,
    ):
        """``tracer`` is ``quick`` or ``exported``; ``caches`` are those of the whole capture."""
        self.module = module
        self.arguments = arguments
        self.tensors = tensors
        self.plan = plan
        self.tracer = tracer
        self.caches = caches
        self.sizes = self._first_sizes()
        #: No size is taken to differ from 0 and 1.
        self.oblivious = True
        #: A graph that serves other sizes than the example's.
        self.spare: CapturedGraph | None = None

    def _first_sizes(self) -> Sizes:
        return Sizes(self.plan, [t.shape for t in self.tensors])

    def first_success(self) -> CapturedGraph:
        """The first graph whose sizes the model accepts."""
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            if self.spare is None:
                deadline.check()
            elif deadline.is_over():
                return self.spare
            if (captured := self._attempt(attempt)) is not None:
                return captured
        if self.spare is not None:
            return self.spare
        raise Error(
            f"{type(self.module).__name__}: no sizes were found that take the way of the example",
            code="E0404",
            help='give an example of other sizes, or fix those of this one (dims="static")',
        )

    def entry(self) -> Entry:
        return Entry(self.module, self.arguments, self.caches)

    def traced(self, entry: Entry, shapes: list[tuple[int, ...]], sizes) -> Traced:
        """Traces with inputs of these shapes: a trace reads sizes and dtypes, never values."""
        examples = [
            t.detach() if tuple(t.shape) == shape else t.detach().new_zeros(shape)
            for t, shape in zip(self.tensors, shapes, strict=True)
        ]
        return self.tracer(entry, examples, sizes, self.oblivious)

    def _attempt(self, attempt: int) -> CapturedGraph | None:
        """One trace; None if there is to be another one."""
        entry = self.entry()
        try:
            with stage("trace"):
                traced = self.traced(entry, self.sizes.capture_shapes(), self.sizes)
        except WritesArgument:
            raise
        except Exception as error:
            return self._after_failure(Failure(error, entry.seen.shapes))
        _refuse_moved(traced, entry.seen.moved, self.arguments)
        captured = _read(traced, entry, self.arguments, self.plan)
        captured.attempts = attempt
        return self._after_trace(captured)

    def _after_failure(self, failure: Failure) -> CapturedGraph | None:
        if deadline.is_over() or pin_written(failure, self.sizes):
            return None
        if self.spare is not None:
            return self.spare
        if is_shape_failure(failure.error):
            if any(cures(failure, self.sizes) for cures in OF_FAILURES):
                return None
            if self.oblivious:
                self.oblivious, self.sizes = False, self._first_sizes()
                return None
        raise capture_error(self.module, failure.error) from failure.error

    def _after_trace(self, captured: CapturedGraph) -> CapturedGraph | None:
        sizes = self.sizes
        _note_places(captured, sizes)
        sizes.same_as = _equal_places(captured)
        remedies = (remedy for remedy in OF_GRAPHS if captured.attempts <= remedy.attempts)
        if any(remedy.cure(captured, sizes) for remedy in remedies) or _settle_branches(captured, self):
            return None
        _report_fixed(captured, sizes)
        if self.spare is None and conflicts.broken_facts(captured, sizes) and sizes.keep_example():
            self.spare = captured
            return None
        return captured


def _refuse_moved(traced: Traced, moved: list[int], arguments: Arguments) -> None:
    """Refuses a module that makes an input or a weight another tensor in place."""
    names = dict(zip(traced.inputs, arguments.tensor_names, strict=True))
    names |= {node: name for node, name, _ in traced.weights}
    for node, writer in moved_in_place(traced.graph).items():
        raise refusal_of_moved(names.get(node, "a constant tensor"), writer)
    for i in moved:
        raise refusal_of_moved(arguments.tensor_names[i])


@stage("conditions")
def _read(traced: Traced, entry: Entry, arguments: Arguments, plan: DimPlan) -> CapturedGraph:
    env = traced.shape_env
    conditions = guards.read_conditions(env) if env is not None else guards.Conditions()
    captured = CapturedGraph(arguments, plan, traced, entry.seen.out_spec, conditions, {})
    captured.returned_caches = entry.seen.returned_caches
    captured.changes, captured.caches = entry.seen.changes, entry.caches
    traced.assigned = list(entry.seen.assigned)
    for t in range(len(traced.inputs)):
        for axis, expr in enumerate(captured.input_shape(t)):
            if isinstance(expr, sympy.Symbol):
                captured.symbols.setdefault(expr, (t, axis))
    return captured


def _note_places(captured: CapturedGraph, sizes: Sizes) -> None:
    """Notes the line of the model that gave an axis a value."""
    for t, node in enumerate(captured.inputs):
        for axis, size in enumerate(node.meta["val"].shape):
            symbol = size.node._expr if isinstance(size, torch.SymInt) else None
            if symbol in captured.conditions.places:
                sizes.places.setdefault((t, axis), captured.conditions.places[symbol])


def _equal_places(captured: CapturedGraph) -> dict[tuple[int, int], tuple[int, int]]:
    """Axes whose size is that of an earlier axis."""
    return {
        (t, axis): captured.symbols[expr]
        for t in range(len(captured.inputs))
        for axis, expr in enumerate(captured.input_shape(t))
        if isinstance(expr, sympy.Symbol) and captured.symbols[expr] != (t, axis)
    }


def _report_fixed(captured: CapturedGraph, sizes: Sizes) -> None:
    names = captured.arguments.tensor_names
    for t, row in enumerate(captured.plan.axes):
        for axis, what in enumerate(row):
            size = captured.input_shape(t)[axis]
            if isinstance(what, int) or not isinstance(size, int):
                continue
            if isinstance(what, Dim):
                place = sizes.places.get((t, axis))
                raise DimError(
                    f"{what.name} (axis {axis} of {names[t]}) is declared dynamic, and the model works only for "
                    f"{what.name} == {size}" + (f" ({written(place)})" if place else ""),
                    code="E0403",
                    dims=[what.name],
                    help=f"fix the axis ({{{axis}: {size}}}), or change the line that fixes it",
                )
            text = f"{names[t]} axis {axis} == {size}"
            captured.fixed.append(text)
            if (t, axis) in sizes.places:
                captured.fixed_at[text] = written(sizes.places[t, axis])


@stage("proofs for sizes of 0 and 1")
def _settle_branches(captured: CapturedGraph, attempts: Attempts) -> bool:
    """Settles what the model asks about sizes of 0 and 1;
    True if the example's way is to be captured instead.
    """
    if not captured.conditions.branches:
        return False
    sizes = attempts.sizes
    shapes = sizes.capture_shapes()
    chosen = {s: sympy.Integer(shapes[t][axis]) for s, (t, axis) in captured.symbols.items()}
    own = {s: sympy.Integer(sizes.shapes[t][axis]) for s, (t, axis) in captured.symbols.items()}

    def retrace(values: dict, fixed: set) -> CapturedGraph | None:
        rows = [captured.input_shape(t) for t in range(len(captured.inputs))]
        at = [[expr if isinstance(expr, int) else expr.xreplace(values) for expr in row] for row in rows]
        if not all(isinstance(x, int) or x.is_Integer for row in at for x in row):
            return None
        open_axes = _Open(
            {
                (t, axis)
                for t, row in enumerate(rows)
                for axis, expr in enumerate(row)
                if not isinstance(expr, int) and not expr.free_symbols & fixed
            },
            _equal_places(captured),
            sizes.ones,
        )
        entry = attempts.entry()
        try:
            traced = attempts.traced(entry, [tuple(int(x) for x in row) for row in at], open_axes)
            return _read(traced, entry, captured.arguments, captured.plan)
        except Exception:
            return None

    refused = zero_one.settle(captured, retrace, chosen, own, asked_all=attempts.oblivious)
    return sum(_keep_own(captured, sizes, symbol, place) for symbol, place in refused.items()) > 0


@dataclass
class _Open:
    """Finds the axes that are dynamic, and those of them that have the size of an earlier one."""

    axes: set[tuple[int, int]]
    same_as: dict[tuple[int, int], tuple[int, int]]
    ones: frozenset

    def dynamic(self, t: int, axis: int) -> bool:
        return (t, axis) in self.axes

    def first(self, t: int, axis: int) -> tuple[int, int]:
        return self.same_as.get((t, axis), (t, axis))


def _keep_own(captured: CapturedGraph, sizes: Sizes, symbol: sympy.Symbol, place: Place) -> int:
    """The size of the example takes a way of its own: its axes keep it.

    How many were free until now.
    """
    own = sizes.shapes[captured.symbols[symbol][0]][captured.symbols[symbol][1]]
    kept = 0
    for t in range(len(captured.inputs)):
        for axis, expr in enumerate(captured.input_shape(t)):
            if expr != symbol or sizes.shapes[t][axis] != own:
                continue
            if isinstance(declared := captured.plan.axes[t][axis], Dim):
                raise DimError(
                    f"{declared.name} (axis {axis} of {captured.arguments.tensor_names[t]}) is {own} in the "
                    f"example, for which the model takes a way of its own ({written(place)})",
                    code="E0403",
                    dims=[declared.name],
                    help="give an example of another size, or fix the axis",
                )
            if sizes.pin(t, axis):
                sizes.places[t, axis] = place
                kept += 1
    return kept
