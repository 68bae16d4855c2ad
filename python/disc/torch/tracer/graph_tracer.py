"""Traces a graph of dynamo's into a graph of whole ATen ops, over the sizes that dynamo knows.

Dynamo decided which sizes have symbols, and guards what it asked about them: nothing here opens or
fixes a size.
"""

from __future__ import annotations

import contextlib

import torch
import torch._dispatch.python
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from ..decompositions.lookup import Serves
from ..devices.device import TYPES
from ..graph.exported import Traced
from ..graph.moved_tensors import Layouts
from ..graph.weight_names import PLAIN
from ..symbolic.expressions import SYMBOLIC, expression
from . import process_state
from .not_traced import NotTraced
from .tracer import Recorder


class OtherMemory(Exception):
    """An argument gets other memory, which no graph of ops does, not even one of AOTAutograd's."""


def trace_graph(gm: torch.fx.GraphModule, env, serves: Serves) -> tuple[Traced, list[torch.fx.Node | None]]:
    """Traces ``gm``, whose sizes are symbols of ``env``; beside the trace, the placeholder of each
    argument of ``gm``, None for a number.

    ``serves(op, complex)`` says which ops are recorded whole. Raises NotTraced for what no graph of
    ops on dense tensors is, and OtherMemory.
    """
    holders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    values = [node.meta.get("example_value") for node in holders]
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    mode.cache_enabled = False
    recorder = _GraphRecorder(mode, serves)
    given = [recorder.adopt(x, str(node.target)) for x, node in zip(values, holders, strict=True)]
    nodes = [recorder.node_of(x) for x in given]
    layouts = Layouts([x for x in given if isinstance(x, torch.Tensor)])
    for node in gm.graph.nodes:
        if node.target is torch.Tensor.set_ and node.args[0] in holders:
            raise OtherMemory(f"the model gives {node.args[0].target} other memory (x.data = y)")
        if getattr(node.target, "__module__", "").startswith(_TRANSFORMS):
            raise NotTraced(f"{node.target} belongs to a transform of torch.func")
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            raise NotTraced(f"{node.target} holds graphs")
    floats = {node for node, x in zip(holders, values, strict=True) if _is_float(node, x)}
    with (
        process_state.without_libraries(x for x in given if isinstance(x, torch.Tensor)),
        tracing(TracingContext(mode)),
        torch._dispatch.python.enable_python_dispatcher(),
        env.ignore_fresh_unbacked_symbols(),
        mode,
        recorder,
    ):
        run = _Run(gm, recorder, floats)
        with run.modes:
            results = run.run(*given)
    if layouts.moved():
        raise NotTraced("the model changes the shape of an argument in place")
    return recorder.finish(results), nodes


def _is_float(node: torch.fx.Node, value) -> bool:
    """Returns true for a number of Python that dynamo passes as a tensor."""
    held = node.meta.get("grapharg")
    return held is not None and held.pass_arg_as_tensor and isinstance(value, torch.Tensor)


#: Functions that enter and leave transforms are in these modules.
_TRANSFORMS = ("torch._functorch", "torch._C._functorch")


class _GraphRecorder(Recorder):
    """Records the ops of a graph, with the lines of the model that dynamo noted."""

    def __init__(self, mode: FakeTensorMode, serves: Serves):
        super().__init__(mode, torch.nn.Module(), serves)
        #: The node of dynamo's graph that runs.
        self.running: torch.fx.Node | None = None

    def adopt(self, value, name: str):
        """The stand-in of an argument in the trace."""
        if not isinstance(value, torch.Tensor):
            return value
        if type(value) is not FakeTensor or value.layout is not torch.strided or value.is_quantized:
            raise NotTraced(f"{name} is a tensor of class {type(value).__name__}")
        if value.fake_device.type not in TYPES or value.is_conj() or value.is_neg():
            raise NotTraced(f"{name} is on {value.fake_device}, or its conjugation or negation is pending")
        with torch._C._DisableTorchDispatch():
            meta = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        fake = FakeTensor(self.mode, meta, value.fake_device)
        self._placeholder(name, fake)
        return fake

    @staticmethod
    def node_of(value) -> torch.fx.Node | None:
        return value.__dict__["_disc"][0] if isinstance(value, FakeTensor) else None

    def node(self, func, args, kwargs) -> torch.fx.Node:
        node = self.graph.create_node("call_function", func, args, kwargs)
        node.meta["stack_trace"] = self.running.meta.get("stack_trace") if self.running is not None else None
        return node


class _Run(torch.fx.Interpreter):
    """Runs dynamo's graph under the recorder."""

    def __init__(self, gm: torch.fx.GraphModule, recorder: _GraphRecorder, floats: set[torch.fx.Node]):
        super().__init__(gm, garbage_collect_values=False)
        self.recorder = recorder
        self.floats = floats
        #: The regions of autocast that were entered.
        self.modes = contextlib.ExitStack()

    def run_node(self, n: torch.fx.Node):
        self.recorder.running = n
        if n.op == "call_method" and n.target == "item" and n.args[0] in self.floats:
            return self._number(n)
        return super().run_node(n)

    def _number(self, n: torch.fx.Node):
        value = n.meta.get("example_value")
        if isinstance(value, SYMBOLIC) and not value.node.expr.is_number:
            holder = self.recorder.node_of(self.env[n.args[0]])
            numbers = self.recorder.numbers
            if holder not in numbers.values:
                numbers.add(holder, value)
            return numbers.values[holder]
        # Dynamo asked for it: it is this one by a guard.
        return float(expression(value)) if isinstance(value, SYMBOLIC) else value

    def call_function(self, target, args, kwargs):
        if target is torch.amp.autocast_mode._enter_autocast:
            inner = contextlib.ExitStack()
            inner.enter_context(torch.amp.autocast(*args, **kwargs))
            self.modes.push(inner)
            return inner
        if target is torch.amp.autocast_mode._exit_autocast:
            return args[0].close()
        return super().call_function(target, args, kwargs)

    def fetch_attr(self, target: str):
        held = super().fetch_attr(target)
        if isinstance(held, torch.Tensor) and type(held) not in PLAIN:
            raise NotTraced(f"{target} is a tensor of class {type(held).__name__}")
        return held
