"""Defines what a capture results in: a graph with symbolic sizes, and what is known of the sizes.

Invariants:

- every axis of every tensor input is dynamic unless the user fixed it or the model did; what the
  model fixed is in ``fixed``;
- ``facts`` hold for every call that eager would accept, or were implied by a branch that the model
  took for the example;
- no fact comes from an example size being 0 or 1, and none from two example sizes being equal,
  unless the model compares them itself and would refuse the example otherwise;
- the example satisfies all facts, as long as some choice of sizes brings that about.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy
import torch
from torch.utils import _pytree as pytree

from ...core.dims import DimPlan
from ..devices.device import HOST
from ..graph.changes import Change
from ..graph.exported import Traced
from ..pytree.arguments import Arguments
from ..symbolic.expressions import expression
from . import guards
from .function_caches import FunctionCaches


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
    #: Containers outside of the module that a trace filled, and that calls do not change.
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
