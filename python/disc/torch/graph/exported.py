"""Defines ``Traced``: one traced module as the lowering reads it, whoever traced it.

Invariants:

- ``graph`` holds ops of ATen with ``meta["val"]``; its output is one flat sequence;
- a number that depends on sizes is a node, or a SymInt (SymFloat) in the arguments;
- ``meta["root"]`` of a node, where it is known, names the node that owns the node's memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from ...core.errors import Error, UnsupportedOp
from .in_place import shares_memory, written_arguments
from .weight_names import Names


@dataclass
class Traced:
    """``inputs[i]`` is the placeholder of the i-th tensor input;
    weights have the names of the module.
    """

    graph: torch.fx.Graph
    inputs: list[torch.fx.Node] = field(default_factory=list)
    weights: list[tuple[torch.fx.Node, str, torch.Tensor]] = field(default_factory=list)
    constants: list[tuple[torch.fx.Node, torch.Tensor]] = field(default_factory=list)
    #: Real tensors that were made from numbers meanwhile.
    made: list[torch.Tensor] = field(default_factory=list)
    shape_env: Any = None

    @property
    def results(self) -> tuple:
        """The results of the graph: nodes, numbers and constants."""
        (output,) = (n for n in self.graph.nodes if n.op == "output")
        return tuple(output.args[0])

    def writes_outside(self) -> bool:
        """Returns true if it writes in place to a weight or a constant."""
        written = [w for n in self.graph.nodes if n.op == "call_function" for w in written_arguments(n)]
        held = [node for node, *_ in (*self.weights, *self.constants)]
        return any(shares_memory(node, w) for w in written for node in held)


def from_export(program, module: torch.nn.Module | None = None) -> Traced:
    """The program of ``torch.export``,
    for a module that was wrapped as ``module``: ``module`` here.
    """
    signature, graph = program.graph_signature, program.graph
    changed = [str(s.target) for s in signature.output_specs if s.kind.name != "USER_OUTPUT"]
    if changed:
        raise Error(
            f"the model changes {', '.join(changed)} in place, which is not supported yet", code="E0405"
        )
    placeholders = {n.name: n for n in graph.nodes if n.op == "placeholder"}
    traced = Traced(graph)
    names = Names(module) if module is not None else None
    for spec in signature.input_specs:
        node, kind = placeholders[spec.arg.name], spec.kind.name
        if kind == "USER_INPUT":
            traced.inputs.append(node)
            continue
        if not node.users:
            continue
        if kind not in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            raise UnsupportedOp(f"the module holds a {kind.lower()} ({spec.target}), which is not supported")
        tensor = program.state_dict.get(spec.target)
        tensor = program.constants[spec.target] if tensor is None else tensor
        name = names.of(tensor) if names is not None else None
        if kind == "CONSTANT_TENSOR" and name is not None:
            traced.weights.append((node, name, tensor))
        elif kind == "CONSTANT_TENSOR":
            traced.constants.append((node, tensor))
        else:
            traced.weights.append((node, spec.target.removeprefix("module."), tensor))
    modes = (getattr(n.meta.get("val"), "fake_mode", None) for n in traced.inputs)
    traced.shape_env = next((mode.shape_env for mode in modes if mode is not None), None)
    return traced
