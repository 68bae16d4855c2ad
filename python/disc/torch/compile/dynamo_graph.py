"""Reads a graph of dynamo's: the graph of whole ops that it is, and its arguments."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from ..devices.device import device_of
from ..graph.exported import Traced
from ..lowering.interface import Names
from ..lowering.table import serves
from ..tracer.graph_tracer import trace_graph
from .results import split_results


@dataclass
class Argument:
    """One argument of dynamo's graph."""

    position: int
    #: As the model has it: ``x``, ``encoder.weight``.
    name: str
    #: None for a number.
    node: torch.fx.Node | None
    #: The tensor, real while dynamo compiles and without memory afterwards; the fake number.
    example: object
    #: A parameter or a buffer of a module.
    is_weight: bool


@dataclass
class DynamoGraph:
    """A traced graph and its arguments."""

    traced: Traced
    arguments: list[Argument]
    #: The nodes that compiled code gives, in order.
    given: list[torch.fx.Node] = field(default_factory=list)
    #: Makes the results out of the arguments and of what compiled code gives.
    finish: Callable | None = None
    #: The results by their number among the outputs ("output") or the arguments ("arg"); None where
    #: ``finish`` makes some.
    leaves: list[tuple[str, int]] | None = None
    #: Weights are at hand when the graph is compiled.
    has_weights: bool = True
    #: The inputs that hold numbers, by the positions of the arguments.
    numbers: dict[int, torch.fx.Node] = field(default_factory=dict)

    @property
    def graph(self) -> torch.fx.Graph:
        return self.traced.graph

    @functools.cached_property
    def device(self) -> torch.device:
        """The device of the arguments; raises disc.Error if there are several."""
        tensors = [a for a in self.arguments if isinstance(a.example, torch.Tensor)]
        return device_of((f"{'weight' if a.is_weight else 'input'} {a.name}", a.example) for a in tensors)

    def release(self) -> None:
        """Lets go of the tensors of the first call."""
        for a in self.arguments:
            if isinstance(a.example, torch.Tensor):
                a.example = without_memory(a.example)


def read(gm: torch.fx.GraphModule, env) -> DynamoGraph:
    """Traces a graph of dynamo's over the sizes of ``env``."""
    traced, nodes = trace_graph(gm, env, serves)
    holders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    root = _root(holders)
    arguments = [
        _argument(i, holder, node, root) for i, (holder, node) in enumerate(zip(holders, nodes, strict=True))
    ]
    names = Names()
    for a in arguments:
        a.name = names.fresh(a.name)
    graph = DynamoGraph(traced, arguments)
    split_results(graph)
    return graph


def _root(holders: list[torch.fx.Node]) -> str:
    """The expression of the module that all weights belong to; empty if there are several.

    Its variable (``self``, or whatever a function calls it) is no part of a layer's name.
    """
    sources = map(_source, holders)
    roots = {found[0] for found in map(_MEMBER.split, sources) if len(found) > 1}
    return roots.pop() if len(roots) == 1 else ""


def _source(holder: torch.fx.Node) -> str:
    return _source_text(getattr(holder.meta.get("grapharg"), "source", None), str(holder.target))


def _argument(position: int, holder: torch.fx.Node, node, root: str) -> Argument:
    held = holder.meta.get("grapharg")
    example = held.example if held is not None else holder.meta.get("example_value")
    source = _source(holder).removeprefix(root)
    is_weight = node is not None and (
        isinstance(example, torch.nn.Parameter) or "._buffers[" in source or "._parameters[" in source
    )
    return Argument(position, _name(source) or str(holder.target), node, example, is_weight)


#: Steps of dynamo's sources that name nothing of the model.
_UNNAMED = frozenset(("L", "G", "self", "kwargs", "args", "_modules", "_parameters", "_buffers", "__dict__"))
_LONGEST_NAME = 40
#: Begins the path of a weight, or of a module, within a module.
_MEMBER = re.compile(r"\._(?:modules|parameters|buffers)\[")


def _source_text(source, target: str) -> str:
    """The expression that dynamo took an argument from."""
    text = source.name if source is not None else target
    return text() if callable(text) else text


def _name(source: str) -> str:
    """The name of what dynamo took an argument from: ``L['self']._modules['l']`` is ``l``."""
    steps = re.findall(r"[A-Za-z_]\w*|\d+", source)
    name = ""
    for step in reversed([step for step in steps if step not in _UNNAMED]):
        if name and len(step) + len(name) >= _LONGEST_NAME:
            break
        name = f"{step}.{name}" if name else step[-_LONGEST_NAME:]
    return name


def without_memory(t: torch.Tensor) -> torch.Tensor:
    """A tensor of the same type and sizes that holds nothing."""
    return torch.empty(t.shape, dtype=t.dtype, device="meta")
