"""Records one op of a trace, in stages: ``STAGES`` is their order.

A stage returns the result of the op, ``NOT_MINE`` if the op is for the stages after it, or raises
``NotTraced``. Comments in the table give the reason for the place of a stage, as what later stages
rely on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from ..decompositions import lookup
from ..devices import autocast_state
from ..graph.element_types import refused
from ..graph.randomness import draws
from ..overrides.squeeze import SQUEEZES, squeezed
from ..symbolic.expressions import has_symbol
from . import autocast, deadline
from .fake_overrides import SHAPES
from .not_traced import NotTraced
from .scalar_tensors import ITEMS, size_of

if TYPE_CHECKING:
    from .tracer import Recorder

aten = torch.ops.aten
#: A constant that is larger is no constant of the program.
_MOST_BYTES = 1 << 20
#: Not None, which is the result of an op that only writes.
NOT_MINE = object()


class Op:
    """One op with its arguments, as stages read them."""

    __slots__ = (
        "args",
        "constant",
        "func",
        "given",
        "given_kwargs",
        "key",
        "kwargs",
        "met",
        "node_args",
        "node_kwargs",
        "out",
    )

    def __init__(self, func, args: tuple, kwargs: dict[str, Any]):
        self.func = func
        #: The arguments as torch passed them.
        self.given = args
        self.given_kwargs = kwargs

    def read(self, recorder: Recorder) -> None:
        """Finds stand-ins of the tensors and their nodes."""
        #: The traced tensors among the arguments.
        self.met: list[FakeTensor] = []
        key: list[Any] = [self.func]
        #: The arguments with stand-ins, and those of the node.
        self.args, self.node_args = recorder.arguments(self.given, self.met, key)
        self.kwargs, self.node_kwargs = recorder.arguments(self.given_kwargs, self.met, key)
        #: Values that are known of tensors met.
        self.constant = [t.constant for t in self.met if t.constant is not None]
        #: All that the results depend on.
        self.key = tuple(key)

    def run(self):
        """The results by torch's own rules."""
        return SHAPES.get(self.func, self.func)(*self.args, **self.kwargs)


def refuse_graphs(recorder: Recorder, op: Op):
    """Refuses ops that hold graphs."""
    if not isinstance(op.func, torch._ops.OpOverload):
        raise NotTraced(f"{op.func} is not an op")
    return NOT_MINE


def under_autocast(recorder: Recorder, op: Op):
    """Records an op within autocast: conversions of its arguments, and the op without autocast."""
    if not (state := autocast_state.current()):
        return NOT_MINE
    with autocast_state.off():
        leaves = pytree.tree_leaves((op.given, op.given_kwargs))
        kind = autocast.kind_of(state, leaves)
        target = autocast.target_of(kind, op.func, leaves, op.given_kwargs) if kind is not None else None

        def convert(x):
            if target is None or not autocast.converts(x) or x.dtype == target:
                return x
            return recorder.__torch_dispatch__(aten.to.dtype, (), (x, target))

        args, kwargs = pytree.tree_map(convert, (op.given, op.given_kwargs))
        return recorder.__torch_dispatch__(op.func, (), args, kwargs)


def as_squeezed(recorder: Recorder, op: Op):
    """Records ``squeeze`` as an op that keeps sizes symbolic."""
    if op.func in SQUEEZES:
        with recorder:
            if (found := squeezed(*op.given)) is not None:
                return found
    return NOT_MINE


def read_arguments(recorder: Recorder, op: Op):
    """Finds the stand-in of each tensor."""
    deadline.check()
    if op.func is aten.lift_fresh.default and type(op.given[0]) is not FakeTensor:
        recorder.traced.made.append(op.given[0])
    op.read(recorder)
    return NOT_MINE


def as_number(recorder: Recorder, op: Op):
    """Answers an op whose result is a value of a tensor."""
    if torch.Tag.data_dependent_output not in op.func.tags:
        return NOT_MINE
    if len(op.constant) < len(op.met):
        is_item = op.func in ITEMS and not recorder.writes
        if is_item and (value := _item_of(recorder, op.node_args[0])) is not None:
            return value
        raise NotTraced("a value of a tensor decides what is computed")
    return op.func(*op.args, **op.kwargs)


def _item_of(recorder: Recorder, holder: torch.fx.Node) -> int | torch.SymInt | torch.SymFloat | None:
    """The value of a tensor without axes: a size, or the float that an input holds."""
    if (size := size_of(holder)) is not None:
        return size
    value = holder.meta.get("val")
    if holder not in recorder.traced.inputs or value.dtype is not torch.float64 or value.dim():
        return None
    if holder not in recorder.numbers.values:
        with unset_fake_temporarily():
            recorder.numbers.add(holder, recorder.mode.shape_env.create_unbacked_symfloat())
    return recorder.numbers.values[holder]


def as_copy(recorder: Recorder, op: Op):
    """Makes a new tensor a copy of itself, whose value FakeTensorMode remembers."""
    if op.func is aten.lift_fresh.default:
        op.func, op.args = aten.lift_fresh_copy.default, op.given
    return NOT_MINE


def as_before(recorder: Recorder, op: Op):
    """Describes the results as those of an equal op before."""
    if (found := recorder.known.get(op.key)) is None:
        return NOT_MINE
    return _made(recorder, op, found)


def _made(recorder: Recorder, op: Op, found: tuple):
    """The results that a recipe of ``Recorder.describe`` says."""
    if found[0] == "same":
        return op.met[found[2]]
    return recorder.build(found, recorder.node(op.func, op.node_args, op.node_kwargs), op.met)


def _described(recorder: Recorder, op: Op, out) -> tuple:
    """Makes a node the origin of the results; returns their recipe."""
    return recorder.describe(out, recorder.node(op.func, op.node_args, op.node_kwargs), op.met)


def in_steps(recorder: Recorder, op: Op):
    """Records an op without a lowering as its decomposition, if there is one."""
    func = op.func
    whole = recorder.serves(func, any(t.is_complex() for t in op.met))
    # Of what torch refuses the steps might be none that it refuses.
    if whole or refused(func, [t.dtype for t in op.met], op.args, op.kwargs) is not None:
        return NOT_MINE
    if not op.met and lookup.is_constant(func) and not has_symbol((*op.args, *op.kwargs.values())):
        return _constant(recorder, op)
    steps = lookup.steps(func)
    return NOT_MINE if steps is None else _taken_apart(recorder, op, steps)


def _constant(recorder: Recorder, op: Op):
    """Computes an op that depends on no tensor and no size."""
    with unset_fake_temporarily(), torch._C._DisableTorchDispatch():
        made = op.func(*op.args, **op.kwargs)
    tensors = [t for t in pytree.tree_leaves(made) if isinstance(t, torch.Tensor)]
    recorder.traced.made += tensors
    return made if sum(t.nbytes for t in tensors) <= _MOST_BYTES else NOT_MINE


def _taken_apart(recorder: Recorder, op: Op, steps: Callable):
    """Records the steps of an op.

    A failed attempt is erased from the graph. Conditions on sizes cannot be erased: torch.export
    begins anew then.
    """
    graph, func = recorder.graph, op.func
    last = next(iter(reversed(graph.nodes)), None)
    conditions, writes = recorder.conditions(), recorder.writes
    try:
        with recorder:
            out = steps(*op.args, **op.kwargs)
        tensors = [t for t in pytree.tree_leaves(out) if isinstance(t, torch.Tensor)]
        is_whole = bool(tensors) or not func._schema.returns
        if is_whole and all("_disc" in t.__dict__ for t in tensors) and not _draws(recorder, func, last):
            return out
    except Exception:
        # If sizes or types are wrong, the op itself will say so.
        pass
    if recorder.conditions() != conditions:
        raise NotTraced(f"{func} could not be taken apart")
    for node in reversed(list(graph.nodes)):
        if node is last:
            break
        if node.op == "call_function":
            graph.erase_node(node)
    recorder.writes = writes
    return NOT_MINE


def _draws(recorder: Recorder, func, last: torch.fx.Node | None) -> bool:
    """Returns true if the steps of a random op, the nodes after ``last``, draw random numbers:
    theirs are not the op's.
    """
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    steps = itertools.takewhile(lambda node: node is not last, reversed(list(recorder.graph.nodes)))
    return any(map(draws, steps))


def by_rules(recorder: Recorder, op: Op):
    """Describes the results of a frequent op by rules of disc (``fake_rules``)."""
    if op.constant or (found := recorder.plain_result(op.func, op.args, op.kwargs, op.met)) is None:
        return NOT_MINE
    recorder.known[op.key] = found
    return _made(recorder, op, found)


def run(recorder: Recorder, op: Op):
    """Has torch compute the results, without values."""
    recorder.mode.shape_env.asked_in = op.func
    op.out = op.run()
    if torch.Tag.dynamic_output_shape in op.func.tags and free_unbacked_symbols(op.out):
        raise NotTraced("a size depends on values")
    return NOT_MINE


def as_write(recorder: Recorder, op: Op):
    """Records an op that writes to a tensor."""
    func = op.func
    if not func._schema.is_mutable or func is aten.detach_.default:
        return NOT_MINE
    recorder.writes = True
    if torch.Tag.inplace_view in func.tags:
        raise NotTraced(f"{func} changes the shape of a tensor in place")
    _described(recorder, op, op.out)
    return op.out


def as_result(recorder: Recorder, op: Op):
    """Records any other op, and notes its results for equal ones."""
    func, out, met = op.func, op.out, op.met
    if func is aten.contiguous.default and any(t is out for t in met):
        # In the layout of the example; an input may have another one.
        out = aten.alias.default(out)
    # A conversion to the type that a tensor has, and its kin.
    same = next((i for i, t in enumerate(met) if t is out), None)
    if same is None:
        found = _described(recorder, op, out)
    else:
        found = "same", None, same, None
    if not op.constant and func is not aten.lift_fresh_copy.default:
        recorder.known[op.key] = found
    return out


#: The last stage has a result for every op.
STAGES: tuple[Callable[[Recorder, Op], Any], ...] = (
    # From here on the op is an overload, with a schema and tags.
    refuse_graphs,
    # From here on autocast is off, and arguments have the types that the op computes with.
    under_autocast,
    # Before the arguments are read: what replaces the op is dispatched by itself.
    as_squeezed,
    # From here on every tensor is traced and has a node, and the key has all that results depend
    # on.
    read_arguments,
    # From here on results depend on sizes and types, not on values.
    as_number,
    # From here on a new tensor is a copy of a value that FakeTensorMode remembers.
    as_copy,
    # Before all that takes long. Conditions on sizes that the op puts are known already.
    as_before,
    # From here on the op is recorded whole.
    in_steps,
    # From here on torch has to be asked.
    by_rules,
    # From here on there are results, which no other stage has described.
    run,
    # From here on results may be described once for all equal ops.
    as_write,
    as_result,
)
