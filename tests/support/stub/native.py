"""``disc.optimize`` on the stub: for tests of the front where the extension is not built."""

from __future__ import annotations

import dataclasses

import disc.core.extension
import disc.torch.lowering.graph
import torch
from disc.torch.lowering.graph import convert

from .builder import FactViolated, StubBuilder


class StubExecutable:
    def __init__(self, captured, weights, outputs):
        self.captured = captured
        self.weights = dict(weights)

    def run(self, tensors):
        names = self.captured.arguments.tensor_names
        for node, t in zip(self.captured.inputs, tensors, strict=True):
            if (
                t.dtype != node.meta["val"].dtype
                or t.layout is not torch.strided
                or t.dim() != node.meta["val"].dim()
            ):
                raise ValueError("dtype, rank or layout")
        builder = StubBuilder({}, dict(zip(names, tensors, strict=True)), self.weights)
        try:
            convert(self.captured, builder)
        except (AssertionError, FactViolated) as error:
            raise ValueError(str(error)) from error
        return builder.outputs

    def set_weights(self, weights):
        self.weights = dict(weights)

    def report(self):
        return {"kernels": 0, "kernels_by_kind": {}, "versions": 0, "stages_ms": {"passes": 0.0}}


class _Built:
    captured = None


def install(monkeypatch) -> None:
    """Puts the stub in the place of the compiler."""

    def convert_for_stub(captured, built):
        built.captured = captured
        inputs = {}
        for name, node in zip(captured.arguments.tensor_names, captured.inputs, strict=True):
            val = node.meta["val"]
            sizes = [s.node.hint if isinstance(s, torch.SymInt) else s for s in val.shape]
            inputs[name] = torch.zeros(sizes, dtype=val.dtype)
        program = convert(captured, StubBuilder({}, inputs, _weights(captured)))
        return dataclasses.replace(program, source=built)

    monkeypatch.setattr(disc.torch.lowering.graph, "convert", convert_for_stub)
    monkeypatch.setattr(disc.core.extension, "builder", _Built)
    monkeypatch.setattr(
        disc.core.extension, "compile_function", lambda built, options, threads, cache=None: built.captured
    )
    monkeypatch.setattr(disc.core.extension, "load", StubExecutable)


def _weights(captured) -> dict[str, torch.Tensor]:
    return {name: t.detach() for _, name, t in captured.traced.weights}
