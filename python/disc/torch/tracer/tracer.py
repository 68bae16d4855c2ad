"""Traces a module into an FX graph of whole ATen ops (``linear``, ``layer_norm``,
attention) with symbolic sizes.

It gives what ``torch.export`` gives in non-strict mode, in a fraction of the time: one mode at the
top of torch's dispatcher records each op, and ``FakeTensorMode`` with a ``ShapeEnv`` computes what
comes out. An op that was met before with the same sizes, types and arguments is not computed again:
its results are described by what was found then, and the conditions that it put on sizes are known
already.

Not here: which sizes the example gets, and the reading of the conditions (``capture.capture``,
``capture.guards``). Invariants:

- what it cannot trace as ``torch.export`` does raises ``NotTraced``, and the caller uses
  ``torch.export``;
- no traced tensor stays in the module, whatever happens;
- numbers computed from sizes are no nodes: they appear as SymInts in the arguments.
"""

from __future__ import annotations

import contextlib
import operator
from typing import Any

import torch
import torch._dispatch.python
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.schema_check_mode import SchemaCheckMode
from torch.fx.experimental import _config
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._traceback import CapturedTraceback

from ..compat import asserting
from ..decompositions.lookup import Serves, serves_all
from ..devices.device import TYPES
from ..graph.changes import Change
from ..graph.exported import Traced
from ..graph.in_place import written_arguments
from ..graph.origin import running_line
from ..graph.randomness import draws
from ..graph.weight_names import PLAIN, Names
from ..overrides.builtins import is_about_numbers, open_numbers
from ..overrides.functions import SymbolicFunctions
from ..overrides.memos import open_caches
from ..overrides.registry import overridden
from ..symbolic.expressions import SYMBOLIC
from . import process_state
from .fake_rules import Lying, PlainResults
from .light_modes import LightFakeMode, show_decompositions
from .not_traced import NotTraced, Transformed
from .passed_numbers import PassedNumbers
from .shape_env import Env
from .stages import NOT_MINE, STAGES, Op

aten = torch.ops.aten


def trace(
    entry: torch.nn.Module,
    examples: list[torch.Tensor],
    dynamic,
    oblivious: bool,
    serves: Serves = serves_all,
    first=None,
    ones: frozenset = frozenset(),
) -> Traced:
    """Traces ``entry(*examples)``, which returns a flat tuple; ``entry.module`` holds the weights.

    ``dynamic(i, axis)`` says which sizes get a symbol, and ``first(i, axis)`` which earlier axis is
    known to have the same one: what is computed of equal sizes (the caches of all layers) is
    computed once. ``oblivious``: no size is taken to differ from 0 and 1; ``ones`` are expressions
    that are 1, in symbols of axes. ``serves(op, complex)`` says which ops are recorded whole;
    others are recorded as the steps that torch makes of them.
    """
    if any(not _is_plain(t) or t.is_complex() or not t.is_contiguous() for t in examples):
        raise NotTraced("an example is not a dense contiguous tensor")
    try:
        return _trace(entry, examples, dynamic, oblivious, serves, open_numbers, first, ones)
    except (TypeError, ValueError) as error:
        if not is_about_numbers(error):
            raise
    return _trace(entry, examples, dynamic, oblivious, serves, contextlib.nullcontext, first, ones)


def _trace(entry, examples, dynamic, oblivious: bool, serves: Serves, numbers, first, ones) -> Traced:
    show_decompositions()
    env = Env(ones, tracked_fakes=[], **asserting())
    mode = LightFakeMode(shape_env=env, allow_non_fake_inputs=True, export=True)
    # Its own cache makes each result twice, to compare them; what is known here is asked for first.
    mode.cache_enabled = False
    recorder = Recorder(mode, entry.module, serves)
    with _config.patch(backed_size_oblivious=oblivious):
        sizes = _sizes(env, examples, dynamic, oblivious, first or (lambda i, axis: (i, axis)))
        fakes = [recorder.input(t, i, row) for i, (t, row) in enumerate(zip(examples, sizes, strict=True))]
        with (
            overridden("trace"),
            process_state.without_libraries([*examples, *entry.module.parameters()]),
            numbers(entry.module),
            open_caches(entry.module),
            tracing(TracingContext(mode)),
            torch._dispatch.python.enable_python_dispatcher(),
            mode,
            SymbolicFunctions(),
            recorder,
        ):
            results = entry(*fakes)
    recorder.check_replaced(entry.seen.changes)
    return recorder.finish(results)


def _sizes(env: Env, examples, dynamic, oblivious: bool, first) -> list[list]:
    """The sizes of the inputs: symbols, or numbers."""
    rows: list[list] = []
    for i, t in enumerate(examples):
        rows.append([])
        for axis, size in enumerate(t.shape):
            other, where = first(i, axis)
            if not dynamic(i, axis):
                rows[i].append(size)
            elif (
                (other, where) < (i, axis) and dynamic(other, where) and examples[other].shape[where] == size
            ):
                rows[i].append(rows[other][where])
            else:
                rows[i].append(env.new_size(size, i, axis, oblivious))
    return rows


def _is_plain(t: torch.Tensor) -> bool:
    """Dense, and of a class without behaviour of its own."""
    if type(t) not in PLAIN or t.layout is not torch.strided or t.device.type not in TYPES:
        return False
    return not (t.is_quantized or t.is_neg() or t.is_conj())


class Recorder(SchemaCheckMode):
    """Records the ops of one trace.

    It derives from ``SchemaCheckMode`` only for its place: above autograd and all decompositions.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __init__(self, mode: FakeTensorMode, module: torch.nn.Module, serves: Serves):
        TorchDispatchMode.__init__(self, torch._C.DispatchKey.PreDispatch)
        self.mode = mode
        self.serves = serves
        self.graph = torch.fx.Graph()
        self.traced = Traced(self.graph, shape_env=mode.shape_env)
        self.names = Names(module)
        #: By the identity of a real tensor.
        self.outside: dict[int, tuple[torch.Tensor, FakeTensor]] = {}
        #: A number for each kind of fake tensor (all but its place in the graph), and one tensor of
        #: each kind.
        self.kinds: dict[tuple, int] = {}
        self.samples: list[torch.Tensor | None] = []
        self.plain = PlainResults()
        #: The layout of the tensors of a kind; a dense tensor and its kind by type, sizes and
        #: order.
        self.orders: dict[int, Lying | None] = {}
        self.lying: dict[tuple, tuple[FakeTensor, int]] = {}
        #: An op and all that its results depend on -> what came out.
        self.known: dict[tuple, Any] = {}
        self.writes = self.ambiguous = False
        self.numbers = PassedNumbers(self.graph)
        self._kept_numbers: set[torch.fx.Node] = set()

    # Tensors.

    def input(self, t: torch.Tensor, i: int, sizes: list) -> FakeTensor:
        fake = FakeTensor(self.mode, torch.empty(sizes, dtype=t.dtype, device="meta"), t.device)
        self.traced.inputs.append(self._placeholder(f"input_{i}", fake))
        return fake

    def _placeholder(self, name: str, fake: FakeTensor) -> torch.fx.Node:
        node = self.graph.placeholder(name)
        node.meta["val"], node.meta["root"] = fake, node
        self._track(fake, node, self._kind(fake))
        return node

    @staticmethod
    def _track(fake: FakeTensor, node: torch.fx.Node, kind: int) -> None:
        """``fake`` is the value of ``node`` from here on.

        Nothing but the traced program may hold ``fake``: torch copies what somebody else holds, and
        a copy is not tracked.
        """
        fake.__dict__["_disc"] = (node, kind)

    def _kind(self, fake: FakeTensor) -> int:
        layout = _key(fake.shape), _key(fake.stride()), _key(fake.storage_offset())
        kind = self.kinds.setdefault((fake.dtype, fake.fake_device, *layout), len(self.kinds))
        if kind == len(self.samples):
            self.samples.append(None)
        return kind

    def _like(self, model: FakeTensor, kind: int) -> FakeTensor:
        """A tensor of the kind of ``model``, made without computing sizes and strides again."""
        if self.samples[kind] is None:
            with torch._C._DisableTorchDispatch():
                self.samples[kind] = torch.empty_strided(
                    model.shape, model.stride(), dtype=model.dtype, device="meta"
                )
        return FakeTensor(self.mode, self.samples[kind], model.fake_device)

    def _stand_in(self, t: torch.Tensor) -> FakeTensor:
        """The fake tensor that stands for a tensor in the trace."""
        if type(t) is FakeTensor:
            if "_disc" not in t.__dict__:
                raise NotTraced("a tensor of unknown origin")
            return t
        if id(t) not in self.outside:
            self.outside[id(t)] = t, self._outsider(t)
        return self.outside[id(t)][1]

    def _outsider(self, t: torch.Tensor) -> FakeTensor:
        """A weight or a constant, met for the first time."""
        if torch._C._functorch.is_functorch_wrapped_tensor(t):
            raise Transformed("a tensor inside of a transform of torch.func")
        if not _is_plain(t):
            raise NotTraced(f"a tensor of class {type(t).__name__} and type {t.dtype}")
        with torch._C._DisableTorchDispatch():
            meta = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")
        fake = FakeTensor(self.mode, meta, t.device)
        name = self.names.of(t)
        node = self._placeholder("constant" if name is None else "weight", fake)
        if name is None:
            self.traced.constants.append((node, t))
        else:
            self.traced.weights.append((node, name, t))
        return fake

    # Ops.

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        op = Op(func, args, kwargs or {})
        for stage in STAGES:
            if (found := stage(self, op)) is not NOT_MINE:
                return found
        raise NotTraced(f"no stage records {func}")

    def plain_result(self, func, args, kwargs, met: list):
        """The recipe by which ``build`` makes the result of a frequent op;
        None if torch has to be asked for it.
        """
        if func is aten.dropout.default and args[2:] == (False,):
            return "same", None, 0, None
        # Of tensors on several devices torch knows whether they go together.
        if len({t.fake_device for t in met}) != 1:
            return None
        found = self.plain.of(func, args, kwargs, met, [self._where(t) for t in met])
        if found is None:
            return None
        *what, is_view = found
        return "tensor", *self._dense(*what, met[0].fake_device), 0 if is_view else None

    def _where(self, t: FakeTensor) -> Lying | None:
        kind = t.__dict__["_disc"][1]
        if kind not in self.orders:
            self.orders[kind] = self.plain.lying(t)
        return self.orders[kind]

    def _dense(self, dtype: torch.dtype, shape: list, order, device: torch.device) -> tuple[FakeTensor, int]:
        """A dense tensor whose axes are in this order in memory."""
        key = dtype, _key(shape), order, device
        if key not in self.lying:
            with torch._C._DisableTorchDispatch():
                sample = torch.empty([shape[axis] for axis in order], dtype=dtype, device="meta")
                sample = sample.permute([order.index(axis) for axis in range(len(order))])
            fake = FakeTensor(self.mode, sample, device)
            kind = self._kind(fake)
            if self.samples[kind] is None:
                self.samples[kind] = sample
            self.orders[kind], self.lying[key] = Lying(order), (fake, kind)
        return self.lying[key]

    def conditions(self) -> tuple[int, int]:
        env = self.mode.shape_env
        return len(env.guards), sum(map(len, env.deferred_runtime_asserts.values()))

    def node(self, func, args, kwargs) -> torch.fx.Node:
        node = self.graph.create_node("call_function", func, args, kwargs)
        node.meta["trace"] = CapturedTraceback.extract(skip=4)
        # A trace takes a tenth of a millisecond to read: too long for each node.
        node.meta["line"] = running_line()
        return node

    def arguments(self, x, met: list, key: list):
        """Arguments for torch and for the graph; ``met`` gets the tensors,
        ``key`` all that the results depend on.
        """
        if isinstance(x, torch.Tensor):
            fake = self._stand_in(x)
            node, kind = fake.__dict__["_disc"]
            met.append(fake)
            key.append(("tensor", kind))
            return fake, node
        if isinstance(x, dict):
            key += x
            pairs = {name: self.arguments(y, met, key) for name, y in x.items()}
            return {k: p[0] for k, p in pairs.items()}, {k: p[1] for k, p in pairs.items()}
        if isinstance(x, (list, tuple)):
            key.append(len(x))
            pairs = [self.arguments(y, met, key) for y in x]
            kind = list if isinstance(x, list) else tuple
            return kind(p[0] for p in pairs), kind(p[1] for p in pairs)
        key.append(_key(x))
        return x, x

    def describe(self, out, node, met: list):
        """Makes ``node`` the origin of what came out;
        returns what ``build`` needs to make the same again.
        """
        if isinstance(out, FakeTensor):
            source = self._source(out, node, met)
            kind = self._kind(out)
            node.meta["val"], node.meta["root"] = self._like(out, kind), self._root(node, met, source)
            self._track(out, node, kind)
            return "tensor", node.meta["val"], kind, source
        if isinstance(out, torch.Tensor):
            inside = torch._C._functorch.maybe_current_level() is not None
            raise (Transformed if inside else NotTraced)("an op returned a tensor that is not traced")
        if isinstance(out, (list, tuple)):
            node.meta["root"] = node
            parts = [
                self.describe(part, self._item(node, i) if isinstance(part, torch.Tensor) else None, met)
                for i, part in enumerate(out)
            ]
            node.meta["val"] = tuple(part[1] for part in parts)
            return "sequence", type(out), parts, None
        if node is not None:
            node.meta["val"] = out
        return "other", out, None, None

    def _source(self, out: FakeTensor, node, met: list) -> int | None:
        """Finds which of the tensors met owns the memory of ``out``:
        traced tensors of one kind seem to share theirs.
        """
        shared = [i for i, t in enumerate(met) if _one_storage(t, out)]
        if len({met[i].__dict__["_disc"][0].meta["root"] for i in shared}) > 1:
            call = node.args[0] if node.target is operator.getitem else node
            declared = _aliased(call)
            shared = [i for i in shared if declared[i]] or shared
            self.ambiguous |= len({met[i].__dict__["_disc"][0].meta["root"] for i in shared}) > 1
        return shared[0] if shared else None

    def build(self, found, node, met: list):
        what, model, detail, source = found
        if what == "tensor":
            out = self._like(model, detail)
            node.meta["val"], node.meta["root"] = model, self._root(node, met, source)
            self._track(out, node, detail)
            return out
        if what == "other":
            if node is not None:
                node.meta["val"] = model
            return model
        parts = [
            self.build(part, self._item(node, i) if part[0] == "tensor" else None, met)
            for i, part in enumerate(detail)
        ]
        node.meta["val"], node.meta["root"] = tuple(part[1] for part in detail), node
        return list(parts) if model is list else tuple(parts)

    def _item(self, node, i: int) -> torch.fx.Node:
        return self.graph.call_function(operator.getitem, (node, i))

    @staticmethod
    def _root(node, met: list, source: int | None):
        return node if source is None else met[source].__dict__["_disc"][0].meta["root"]

    # The end.

    @staticmethod
    def check_replaced(changes: list[Change]) -> None:
        for change in changes:
            if change.kind in ("parameter", "submodule"):
                raise NotTraced(f"the module replaces the {change.kind} {change.name}")

    def finish(self, results) -> Traced:
        if self.writes and self.ambiguous:
            raise NotTraced("it is not known which tensors share their memory with one that is written to")
        _, nodes = self.arguments(tuple(results), [], [])
        self._kept_numbers = self.numbers.used_by(results)
        self.graph.output(nodes)
        for node in reversed(list(self.graph.nodes)):
            if node.op == "call_function" and not node.users and not self._is_kept(node):
                self.graph.erase_node(node)
        return self.traced

    def _is_kept(self, node: torch.fx.Node) -> bool:
        """Returns true for a node that stays, whether its result is used or not."""
        return node in self._kept_numbers or _has_effect(node)


def _has_effect(node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and (
        node.target._schema.is_mutable
        or not node.target._schema.returns
        or bool(written_arguments(node))
        or draws(node)
    )


def _aliased(call: torch.fx.Node) -> list[bool]:
    """For each tensor among the arguments:
    whether the schema says that a result may be a view of it.
    """
    arguments = call.target._schema.arguments
    by_name = {argument.name: argument for argument in arguments}
    given = [
        *zip(arguments, call.args, strict=False),
        *((by_name[name], x) for name, x in call.kwargs.items()),
    ]
    declared = []
    for argument, x in given:
        nodes = [y for y in pytree.tree_leaves(x) if isinstance(y, torch.fx.Node)]
        declared += [argument.alias_info is not None] * len(nodes)
    return declared


def _one_storage(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


def _key(x):
    """Identifies an argument: a size by its expression, anything else by its type and value."""
    if isinstance(x, SYMBOLIC):
        return x.node.expr
    if isinstance(x, (list, tuple)):
        return tuple(_key(y) for y in x)
    return type(x), x
