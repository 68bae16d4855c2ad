"""Runs a captured module through the bridge and the stub, once per set of sizes."""

from __future__ import annotations

import sympy
import torch
from disc.torch.capture.capture import capture
from disc.torch.lowering.graph import convert
from torch.utils import _pytree as pytree

from .builder import FactViolated, StubBuilder


class StubModule:
    """``disc.optimize`` with the stub as the compiler."""

    def __init__(self, module, args, kwargs=None, dims=None):
        self.module = module
        self.captured = capture(module, args, kwargs, dims)
        self.names: list[str] = []

    def __call__(self, *args, **kwargs):
        leaves = pytree.tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        inputs = dict(zip(self.captured.arguments.tensor_names, tensors, strict=True))
        weights = {name: tensor.detach() for _, name, tensor in self.captured.traced.weights}
        builder = StubBuilder({}, inputs, weights)
        program = convert(self.captured, builder).program
        self.names, self.program = builder.names, program
        self._check(tensors)
        results = []
        for kind, what in program.outputs:
            if kind == "constant":
                results.append(what)
            elif kind == "input":
                results.append(tensors[what])
            else:
                data = builder.outputs[what]
                results.append(data.item() if kind == "number" else data)
        return pytree.tree_unflatten(results, self.captured.out_spec)

    def _check(self, tensors) -> None:
        sizes = {s: sympy.Integer(tensors[t].shape[axis]) for s, (t, axis) in self.captured.symbols.items()}
        for condition, text in self.program.checks:
            if condition.xreplace(sizes) != sympy.true:
                raise FactViolated(text)
