"""Capture: a torch module and an example call become an FX graph with symbolic sizes,
plus what is known of the sizes.

Not here: the meaning of the ops in the graph (``torch.lowering``).
Invariants of a ``CapturedGraph``:

- every axis of every tensor input is dynamic unless the user fixed it or the model did; what the
  model fixed is in ``fixed``;
- ``facts`` hold for every call that eager would accept, or were implied by a branch that the model
  took for the example;
- no fact comes from an example size being 0 or 1, and none from two example sizes being equal,
  unless the model compares them itself and would refuse the example otherwise;
- the example satisfies all facts, as long as some choice of sizes brings that about.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import logging
import os
import threading
import time
import warnings
from dataclasses import dataclass, field

import sympy
import torch
from torch.utils import _pytree as pytree

from ...core.dims import Dim, DimPlan
from ...core.errors import DimError, Error
from ...core.stages import stage
from ..decompositions.lookup import Serves, serves_all
from ..devices import autocast_state
from ..devices.device import HOST, device_of_module
from ..graph.changes import Change
from ..graph.exported import Traced
from ..graph.moved_tensors import moved_in_place, refusal_of_moved
from ..overrides import (  # noqa: F401 (they register overrides)
    arithmetic,
    assigned_data,
    contiguity,
    division,
    patches,
    reached,
    relations,
    texts,
    transformer,
)
from ..overrides.registry import overridden
from ..overrides.silence import silenced
from ..overrides.squeeze import SQUEEZES
from ..pytree import kv_caches
from ..pytree.arguments import Arguments, flatten_arguments
from ..pytree.held_values import HeldValues
from ..symbolic.expressions import expression
from ..symbolic.source_lines import Place, written
from ..tracer import deadline
from . import conflicts, guards, kept_state, zero_one
from .argument_containers import WritesArgument
from .by_export import exported
from .entry import Entry
from .example_sizes import Sizes
from .failures import capture_error, is_shape_failure, symbol_places
from .function_caches import FunctionCaches

#: torch.export swaps global state while it runs.
_LOCK = threading.RLock()


def _renew_lock() -> None:
    """A child process has none of the threads that may hold the lock."""
    global _LOCK
    _LOCK = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)
_MAX_ATTEMPTS = 24
#: After so many attempts a fact that the example breaks stays: a graph for other sizes is better
#: than none.
_MAX_CHOICES = 16
#: They report what an attempt with other sizes cures.
_NOISY = (
    "torch.fx.experimental.symbolic_shapes",
    "torch._export.non_strict_utils",
    "torch.export._trace",
    "torch._subclasses.fake_tensor",
)


@dataclass
class CapturedGraph:
    """One captured module, to be lowered.

    ``inputs[i]`` is the graph's placeholder of the i-th tensor input.
    """

    arguments: Arguments
    plan: DimPlan
    traced: Traced
    out_spec: pytree.TreeSpec
    conditions: guards.Conditions
    symbols: dict[sympy.Symbol, tuple[int, int]]
    fixed: list[str] = field(default_factory=list)
    #: The lines of the model that fix what is in ``fixed``, as far as they are known.
    fixed_at: dict[str, str] = field(default_factory=dict)
    by: str = "disc"  # or "export"
    attempts: int = 1
    milliseconds: float = 0.0
    #: The attributes that the module assigned while it was traced.
    changes: list[Change] = field(default_factory=list)
    #: The caches of functions that traces of the module may fill.
    caches: FunctionCaches | None = None
    #: The inputs that hold sizes, as scalars, of a part of a graph.
    sizes: dict[sympy.Symbol, torch.fx.Node] = field(default_factory=dict)
    #: For each cache of the result, the one of the arguments that it is.
    returned_caches: tuple[int | None, ...] = ()
    #: The device of the module.
    device: torch.device = HOST
    #: It is a part of a graph, between ops of torch.
    is_part: bool = False
    #: Weights keep changing: each call takes them as inputs.
    takes_weights: bool = False
    #: Containers outside of the module that a trace filled, and that calls leave alone.
    tables: list[str] = field(default_factory=list)

    @property
    def notes(self) -> tuple[str, ...]:
        """Names of what calls write, and no result depends on."""
        return (*(change.name for change in self.changes), *self.tables)

    @property
    def graph(self) -> torch.fx.Graph:
        return self.traced.graph

    @property
    def inputs(self) -> list[torch.fx.Node]:
        return self.traced.inputs

    @property
    def facts(self) -> list[sympy.Basic]:
        return self.conditions.facts

    @property
    def dtypes(self) -> list[torch.dtype]:
        return [node.meta["val"].dtype for node in self.inputs]

    @property
    def devices(self) -> list[torch.device]:
        """The devices of the inputs: that of the module, but for scalars of the host."""
        found = (node.meta["val"].device for node in self.inputs)
        return [HOST if device.type == "meta" else device for device in found]

    def input_shape(self, i: int) -> tuple:
        """The sizes of input ``i`` as torch sees them: ints and sympy expressions."""
        return tuple(expression(size) for size in self.inputs[i].meta["val"].shape)

    def simplify(self, expr):
        return self.conditions.simplify(expr)


def capture(
    module: torch.nn.Module,
    args: tuple,
    kwargs: dict | None = None,
    dims=None,
    serves: Serves = serves_all,
    may_export: bool = True,
    in_grad_mode: bool = False,
    held: HeldValues | None = None,
) -> CapturedGraph:
    """Captures ``module(*args, **kwargs)``; the parameters and buffers become inputs of the graph.

    Ops that ``serves`` does not name are captured as the steps that torch makes of them.
    ``in_grad_mode`` is for a module that asks for the mode of its caller. The values in ``held``
    become inputs behind the arguments.
    ``may_export`` allows torch.export, which puts fake tensors into the module while it runs: calls
    of other threads would meet them.
    """
    start = time.perf_counter()
    reached.forget(module)
    arguments, tensors = flatten_arguments(module, args, kwargs or {}, held)
    _check_examples(arguments, tensors)
    device = device_of_module(module, arguments.tensor_names, tensors)
    # Behind a window it is a slice; how a cache lies makes no difference to what is computed of it.
    cached = set(kv_caches.leaves_of_caches(arguments.spec))
    tensors = [t.contiguous() if i in cached else t for i, t in zip(arguments.tensors, tensors, strict=True)]
    plan = arguments.plan(dims, tensors)
    try:
        with _LOCK, _quiet(), overridden("capture"), torch.set_grad_enabled(in_grad_mode):
            captured = _first_success(module, arguments, tensors, plan, serves, may_export)
        captured.device = device
        if captured.changes:
            with _LOCK, _quiet():
                kept_state.settle(captured, module, arguments, tensors)
    finally:
        reached.forget(module)
    captured.milliseconds = (time.perf_counter() - start) * 1e3
    return captured


def _first_success(
    module, arguments: Arguments, tensors, plan: DimPlan, serves: Serves, may_export: bool
) -> CapturedGraph:
    caches = FunctionCaches(module)
    try:
        return _attempts(module, arguments, tensors, plan, functools.partial(quick, serves=serves), caches)
    except deadline.TooLong:
        raise
    except Exception as error:
        # Whatever stopped the quick tracer: torch.export succeeds, or says what is wrong.
        from ..tracer.not_traced import Transformed

        reason = error.__cause__ or error
        if isinstance(reason, WritesArgument):
            raise
        if autocast_state.current() or not may_export:
            raise  # torch.export does not record what autocast around the call converts.
        logging.getLogger(__name__).info("traced by torch.export: %s", reason)
        below = isinstance(reason, Transformed)
        tracer = functools.partial(exported, serves=serves, below_transforms=below)
        captured = _attempts(module, arguments, tensors, plan, tracer, caches)
        captured.by = "export"
        return captured


def _check_examples(arguments: Arguments, tensors: list[torch.Tensor]) -> None:
    from torch._subclasses import FakeTensor

    for name, t in zip(arguments.tensor_names, tensors, strict=True):
        if isinstance(t, FakeTensor) or t.is_meta:
            raise Error(
                f"input {name}: a fake or meta tensor has no data; pass an example with data", code="E0601"
            )
        if t.layout is not torch.strided or t.is_quantized or t.is_nested:
            kind = "a nested tensor" if t.is_nested else f"layout {t.layout}, dtype {t.dtype}"
            raise Error(f"input {name}: expected a dense tensor, got {kind}", code="E0601")


def _attempts(
    module, arguments: Arguments, tensors, plan: DimPlan, tracer, caches: FunctionCaches
) -> CapturedGraph:
    """Traces with sizes of our choice until the model accepts them.

    ``tracer`` is ``quick`` or ``exported``; ``caches`` are those of the whole capture.
    """
    sizes = Sizes(plan, [t.shape for t in tensors])
    oblivious = True
    #: A graph that serves other sizes than the example's.
    spare: CapturedGraph | None = None
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        if spare is None:
            deadline.check()
        elif deadline.is_over():
            return spare
        entry = Entry(module, arguments, caches)
        try:
            with stage("trace"):
                traced = tracer(entry, _examples(tensors, sizes.capture_shapes()), sizes, oblivious)
        except WritesArgument:
            raise
        except Exception as error:
            if deadline.is_over() or _pin_written(entry.seen.shapes, sizes):
                continue
            if spare is not None:
                return spare
            if not is_shape_failure(error):
                raise capture_error(module, error) from error
            if conflicts.reconcile(entry.seen.shapes, sizes) or sizes.drop_preferences():
                continue
            if sizes.relax(str(error), symbol_places(entry.seen.shapes)):
                continue
            if oblivious:
                oblivious, sizes = False, Sizes(plan, [t.shape for t in tensors])
                continue
            raise capture_error(module, error) from error
        _refuse_moved(traced, entry.seen.moved, arguments)
        captured = _read(traced, entry, arguments, plan)
        _note_places(captured, sizes)
        sizes.same_as = _equal_places(captured)
        if _repin(captured, sizes) or _pin_squeezed(captured, sizes) or _pin_stretched(captured, sizes):
            continue
        if attempt <= _MAX_CHOICES and (_avoid(captured, sizes) or conflicts.leave(captured, sizes)):
            continue
        captured.attempts = attempt
        if _settle_branches(captured, module, tensors, sizes, tracer, oblivious):
            continue
        _report_fixed(captured, sizes)
        if spare is None and conflicts.broken_facts(captured, sizes) and sizes.keep_example():
            spare = captured
            continue
        return captured
    if spare is not None:
        return spare
    raise Error(
        f"{type(module).__name__}: no sizes were found that take the way of the example",
        code="E0404",
        help='give an example of other sizes, or fix those of this one (dims="static")',
    )


def _refuse_moved(traced: Traced, moved: list[int], arguments: Arguments) -> None:
    """Refuses a module that makes an input or a weight another tensor in place."""
    names = dict(zip(traced.inputs, arguments.tensor_names, strict=True))
    names |= {node: name for node, name, _ in traced.weights}
    for node, writer in moved_in_place(traced.graph).items():
        raise refusal_of_moved(names.get(node, "a constant tensor"), writer)
    for i in moved:
        raise refusal_of_moved(arguments.tensor_names[i])


def _examples(tensors, shapes) -> list[torch.Tensor]:
    """Stand-ins of the chosen sizes: capture looks at sizes and dtypes, never at values."""
    return [
        t.detach() if tuple(t.shape) == shape else t.detach().new_zeros(shape)
        for t, shape in zip(tensors, shapes, strict=True)
    ]


def quick(
    entry: Entry, examples, sizes: Sizes | None, oblivious: bool, serves: Serves = serves_all
) -> Traced:
    """Traces by the tracer of disc."""
    from ..tracer.tracer import trace

    if sizes is None:
        return trace(entry, examples, lambda i, axis: False, oblivious, serves)
    return trace(entry, examples, sizes.dynamic, oblivious, serves, sizes.first, sizes.ones)


@contextlib.contextmanager
def _quiet():
    """No garbage collection (a tenth of the time), and no advice about our choice of sizes."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        with silenced(_NOISY), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if collecting:
            gc.enable()


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


def _pin_written(shapes, sizes: Sizes) -> bool:
    """The model read the text of a size of our choice, and failed:
    what it looks up by the text is there for the user's.
    """
    again = False
    for t, shape in enumerate(shapes):
        for axis, size in enumerate(shape):
            if isinstance(size, torch.SymInt) and size.node._expr in texts.written(size.node.shape_env):
                c = sizes.class_of(t, axis)
                again |= c is not None and c.changed and sizes.pin(t, axis)
    return again


def _equal_places(captured: CapturedGraph) -> dict[tuple[int, int], tuple[int, int]]:
    """Axes whose size is that of an earlier axis."""
    return {
        (t, axis): captured.symbols[expr]
        for t in range(len(captured.inputs))
        for axis, expr in enumerate(captured.input_shape(t))
        if isinstance(expr, sympy.Symbol) and captured.symbols[expr] != (t, axis)
    }


def _repin(captured: CapturedGraph, sizes: Sizes) -> bool:
    """The model fixed a dimension at a size that is not the user's:
    keep the user's there and capture again.
    """
    again = False
    for c in list(sizes.classes):
        for t, axis in list(c.members):
            if c.changed and not c.fixed and isinstance(captured.input_shape(t)[axis], int):
                again |= sizes.pin(t, axis)
    return again


def _avoid(captured: CapturedGraph, sizes: Sizes) -> bool:
    """A fact that the example itself breaks comes from a size of our choice:
    capture again with another one.
    """
    own = {s: sympy.Integer(sizes.shapes[t][axis]) for s, (t, axis) in captured.symbols.items()}
    broken = conflicts.broken_facts(captured, sizes)
    if broken and conflicts.avoid(captured, sizes):
        return True
    symbols = [fact.free_symbols & captured.symbols.keys() for fact in broken]
    for several in symbols:
        if len(several) > 2 and sizes.add_up({captured.symbols[s] for s in several}):
            return True
    for fact in broken:
        if (found := _solved_for_largest(fact, captured, own)) is not None and sizes.relate(*found):
            return True
    places = sorted({captured.symbols[s] for some in symbols for s in some})
    if sum(sizes.choose_again(t, axis) for t, axis in places) > 0:
        return True
    # No choice takes the example's way beside a size of 0 or 1 of the example: that one stays.
    small = [(t, axis) for t, axis in places if sizes.shapes[t][axis] < 2]
    return sum(sizes.pin(t, axis) for t, axis in small if captured.plan.axes[t][axis] is None) > 0


def _solved_for_largest(fact, captured: CapturedGraph, own: dict):
    """The axis of the largest size among several that are added up,
    and how it comes of the others in the example.
    """
    symbols = fact.free_symbols & captured.symbols.keys()
    if not fact.is_Relational or len(symbols) < 3:
        return None
    difference = sympy.expand(fact.lhs - fact.rhs)
    if any(difference.coeff(s, 1) not in (1, -1) for s in symbols) or not difference.is_polynomial(*symbols):
        return None
    if sympy.Poly(difference, *symbols).total_degree() > 1:
        return None
    largest = max(symbols, key=lambda s: (own[s], str(s)))
    value = difference.xreplace(own)
    others = {captured.symbols[s]: int(difference.coeff(s, 1)) for s in symbols - {largest}}
    offset = value - difference.coeff(largest, 0).xreplace(dict.fromkeys(symbols, sympy.Integer(0)))
    return captured.symbols[largest], others, int(difference.coeff(largest, 1)), int(offset)


def _pin_squeezed(captured: CapturedGraph, sizes: Sizes) -> bool:
    """``squeeze`` drops an axis of size 1 and keeps others: the rank follows the example,
    and its axis stays 1, or not 1.
    """
    again = False
    hints = {s: sizes.shapes[t][axis] for s, (t, axis) in captured.symbols.items()}
    for node in captured.graph.nodes:
        if node.target not in SQUEEZES:
            continue
        shape = [expression(size) for size in node.args[0].meta["val"].shape]
        axes = node.args[1] if len(node.args) > 1 else range(len(shape))
        for axis in [axes] if isinstance(axes, int) else axes:
            size = shape[axis]
            if isinstance(size, int):
                continue
            if size.xreplace({s: sympy.Integer(v) for s, v in hints.items()}) == 1:
                for symbol in size.free_symbols & set(captured.symbols):
                    again |= sizes.pin(*captured.symbols[symbol])
            else:
                captured.conditions.facts.append(sympy.Ne(size, 1))
    return again


def _pin_stretched(captured: CapturedGraph, sizes: Sizes) -> bool:
    """A size of 1 of the example that meets a size from data is stretched to it,
    where ours would have to be equal to it.
    """
    env = captured.traced.shape_env
    again = False
    for check in itertools.chain(*env.deferred_runtime_asserts.values()) if env is not None else ():
        sides = set(check.expr.args) if isinstance(check.expr, sympy.Eq) else set()
        for symbol in sides & set(captured.symbols):
            c = sizes.class_of(*captured.symbols[symbol])
            if c is not None and c.user == 1 and c.changed and not c.declared:
                again |= sizes.pin(*captured.symbols[symbol])
    return again


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
def _settle_branches(captured: CapturedGraph, module, tensors, sizes: Sizes, tracer, oblivious: bool) -> bool:
    """Settles what the model asks about sizes of 0 and 1;
    True if the example's way is to be captured instead.
    """
    if not captured.conditions.branches:
        return False
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
        entry = Entry(module, captured.arguments, captured.caches)
        examples = _examples(tensors, [tuple(int(x) for x in row) for row in at])
        try:
            return _read(
                tracer(entry, examples, open_axes, oblivious), entry, captured.arguments, captured.plan
            )
        except Exception:
            return None

    refused = zero_one.settle(captured, retrace, chosen, own, asked_all=oblivious)
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
