"""Defines ``Traced``: one traced module as the lowering reads it, whoever traced it.

Invariants:

- ``graph`` holds ops of ATen with ``meta["val"]``; its output is one flat sequence;
- a number that depends on sizes is a node, or a SymInt (SymFloat) in the arguments;
- ``meta["root"]`` of a node, where it is known, names the node that owns the node's memory.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

import torch

from ...core.errors import Error, UnsupportedOp
from .in_place import shares_memory, written_arguments
from .randomness import draws
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
    #: Placeholders whose memory gets the value of a node at the end, as ``torch.export`` says it;
    #: these nodes are the first of the graph's results.
    stored: list[tuple[torch.fx.Node, Any]] = field(default_factory=list)
    #: The buffers that are assigned anew; what they are is the last of the graph's results.
    assigned: list[str] = field(default_factory=list)

    @property
    def _returned(self) -> tuple:
        (output,) = (n for n in self.graph.nodes if n.op == "output")
        return tuple(output.args[0])

    @property
    def results(self) -> tuple:
        """The results of the module: nodes, numbers and constants."""
        found = self._returned
        return found[len(self.stored) : len(found) - len(self.assigned)]

    @property
    def assignments(self) -> list[tuple[str, Any]]:
        """The buffers that are assigned anew, and what they are then."""
        found = self._returned
        return list(zip(self.assigned, found[len(found) - len(self.assigned) :], strict=True))

    def drop_assignments(self, names: set[str]) -> None:
        """Forgets what is assigned to these buffers, and the nodes that only they needed."""
        (output,) = (n for n in self.graph.nodes if n.op == "output")
        found = list(output.args[0])
        kept = found[: len(found) - len(self.assigned)]
        kept += [node for name, node in self.assignments if name not in names]
        self.assigned = [name for name in self.assigned if name not in names]
        output.args = (type(output.args[0])(kept),)
        for node in reversed(list(self.graph.nodes)):
            if node.op == "call_function" and not node.users and not _has_effect(node):
                self.graph.erase_node(node)

    def written(self) -> list[torch.fx.Node]:
        """The placeholders of inputs, weights and constants that a call writes to."""
        writers = [n for n in self.graph.nodes if n.op == "call_function"]
        targets = [w for n in writers for w in written_arguments(n)]
        held = [*self.inputs, *(node for node, *_ in (*self.weights, *self.constants))]
        stored = {node for node, _ in self.stored}
        return [node for node in held if node in stored or any(shares_memory(node, w) for w in targets)]

    def depends_on(self, result, sources: set[torch.fx.Node]) -> bool:
        """Returns true if the values of some of the nodes decide a result."""
        seen, open_ = set(), [result]
        while open_:
            node = open_.pop()
            if not isinstance(node, torch.fx.Node) or node in seen:
                continue
            if node in sources:
                return True
            seen.add(node)
            open_ += node.all_input_nodes
        return False


def from_export(program, module: torch.nn.Module | None = None) -> Traced:
    """The program of ``torch.export``,
    for a module that was wrapped as ``module``: ``module`` here.
    """
    signature, graph = program.graph_signature, program.graph
    placeholders = {n.name: n for n in graph.nodes if n.op == "placeholder"}
    traced = Traced(graph)
    names = Names(module) if module is not None else None
    mutated = {s.target for s in signature.output_specs if s.kind.name in _MUTATIONS}
    for spec in signature.input_specs:
        node, kind = placeholders[spec.arg.name], spec.kind.name
        if kind == "USER_INPUT":
            traced.inputs.append(node)
            continue
        if not node.users and spec.target not in mutated:
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
    _read_mutations(traced, signature, placeholders)
    modes = (getattr(n.meta.get("val"), "fake_mode", None) for n in traced.inputs)
    traced.shape_env = next((mode.shape_env for mode in modes if mode is not None), None)
    return traced


#: Results of an exported program that are the new values of what it was given.
_MUTATIONS = ("BUFFER_MUTATION", "PARAMETER_MUTATION", "USER_INPUT_MUTATION")


def _read_mutations(traced: Traced, signature, placeholders: dict) -> None:
    """Notes the results that are new values of inputs, parameters and buffers."""
    by_target = {spec.target: placeholders[spec.arg.name] for spec in signature.input_specs if spec.target}
    for position, spec in enumerate(signature.output_specs):
        kind = spec.kind.name
        if kind == "USER_OUTPUT":
            continue
        target = (
            placeholders.get(spec.target) if kind == "USER_INPUT_MUTATION" else by_target.get(spec.target)
        )
        if kind not in _MUTATIONS or target is None or position != len(traced.stored):
            raise Error(
                f"the model changes {spec.target}, which is not supported ({kind.lower()})", code="E0405"
            )
        traced.stored.append((target, traced._returned[position]))


def _has_effect(node) -> bool:
    if node.target is operator.getitem:
        return False
    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.is_mutable or not schema.returns:
        return True
    return bool(written_arguments(node)) or draws(node)
