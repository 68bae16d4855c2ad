"""Runs one form of call: a module that disc compiled whole, in parts, or not at all.

Invariant: ``Refused`` is raised before anything ran, so that somebody else may serve the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ...core import extension
from ...core.errors import CompileError, Error
from ...core.report import collect
from ..call import Call
from ..capture.captured_program import CapturedProgram
from ..pytree.result import Result
from ..state import State
from ..weights import find_weight

if TYPE_CHECKING:
    # A program from the cache needs neither capture nor lowering.
    from ..partition.program import PartitionedProgram


class Refused(Exception):
    """A call is outside of what was compiled; ``error`` says why."""

    def __init__(self, error: Error):
        super().__init__(str(error))
        self.error = error


class Entry:
    """Serves one form of call."""

    #: Who captured the module: "disc", "export", "dynamo" or "none".
    captured_by = "none"
    compiles = 0
    #: Modes that the module was compiled in.
    training: bool
    autocast: tuple

    def run(self, args: tuple, kwargs: dict) -> Any:
        """The result of a call; raises Refused if it does not serve it."""
        raise NotImplementedError

    def weights(self) -> list[tuple[str, torch.Tensor]]:
        """The weights that compiled code reads in place."""
        return []

    def addresses(self) -> list[int]:
        """Addresses of the storages that compiled code reads."""
        return [t.untyped_storage().data_ptr() for _, t in self.weights()]

    def changed(self) -> list[str]:
        """The parameters and buffers that calls change."""
        return []

    def use(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        """Reads these weights from here on."""

    def report_values(self) -> dict[str, Any]:
        """The values of the report that this entry knows."""
        raise NotImplementedError

    def fallbacks(self) -> list[dict[str, Any]]:
        """Describes what torch runs in a call."""
        return []


class CompiledEntry(Entry):
    """A module compiled whole."""

    def __init__(self, request, call: Call, captured: CapturedProgram, executable, report: dict):
        self.call = call
        self.executable = executable
        #: None for a module whose calls change nothing.
        self.state = State.of(request.original, captured.program, captured.arguments.tensor_names)
        self._weights = [(name, t.detach()) for name, t in captured.program.weights]
        self._result = Result(captured.program.outputs, captured.out_spec)
        self._operations = captured.program.operations
        self._bytes = sum(t.numel() * t.element_size() for _, t in self._weights)
        self._stages, self._cache = report["stages"], report["cache"]
        self.captured_by = report["captured_by"]
        self.compiles = 1
        self._addresses = super().addresses()
        if request.options.release_weights:
            self._weights = []

    def run(self, args: tuple, kwargs: dict):
        try:
            tensors = self.call.tensors(args, kwargs)
        except Error as error:
            raise Refused(error) from None
        held = self._held(tensors) if self.state is not None else None
        try:
            outputs = self.executable.run(tensors if held is None else held.given)
        except Exception as error:
            # The native check is quick; the Python one says it in torch's words. It raises unless
            # the inputs are right.
            self._explain(tensors)
            if isinstance(error, Error):
                raise
            raise CompileError(f"the compiled module failed: {error}") from error
        if held is not None:
            self.state.store(held, outputs)
            tensors = held.tensors
        return self._result.build(outputs, tensors)

    def _held(self, tensors: list):
        try:
            return self.state.take(tensors)
        except Error as error:
            raise Refused(error) from None

    def _explain(self, tensors: list) -> None:
        try:
            self.call.explain(tensors)
        except Error as error:
            raise Refused(error) from None

    def weights(self) -> list[tuple[str, torch.Tensor]]:
        return self._weights

    def addresses(self) -> list[int]:
        return self._addresses

    def changed(self) -> list[str]:
        return self.state.changed if self.state is not None else []

    def use(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        self.executable.set_weights(weights)
        self._weights = weights
        self._addresses = super().addresses()

    def report_values(self) -> dict[str, Any]:
        return collect(
            self.executable,
            self.call.signature,
            stages=self._stages,
            capture_cache=self._cache,
            operations=self._operations,
            weight_bytes=self._bytes,
        )


class PartitionedEntry(Entry):
    """A module of which torch runs some ops, between clusters that disc compiled."""

    def __init__(self, call: Call, captured: CapturedProgram, parts: PartitionedProgram, report: dict):
        self.call = call
        self.parts = parts
        self._make = Result([], captured.out_spec).make
        self._check = _entry_check(call)
        self._stages, self._cache = report["stages"], report["cache"]
        self.captured_by = report["captured_by"]
        self.compiles = len(parts.clusters)
        self.calls = 0

    def run(self, args: tuple, kwargs: dict):
        try:
            tensors = self.call.tensors(args, kwargs)
            if not self._check(tensors):
                self.call.explain(tensors)
        except Error as error:
            raise Refused(error) from None
        self.calls += 1
        if torch._C._is_any_autocast_enabled():
            # Its casts are ops of the graph.
            with torch.autocast("cpu", enabled=False):
                return self._make(self.parts.run(tensors))
        return self._make(self.parts.run(tensors))

    def weights(self) -> list[tuple[str, torch.Tensor]]:
        held: dict[str, torch.Tensor] = {}
        for cluster in self.parts.clusters:
            held |= dict(cluster.program.program.weights)
        for name, variable in self.parts.weights.items():
            held[name] = self.parts.run.__globals__[variable]
        return [(name, t.detach()) for name, t in held.items()]

    def use(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        held = dict(weights)
        for cluster in self.parts.clusters:
            names = [name for name, _ in cluster.program.program.weights]
            cluster.executable.set_weights([(name, held[name]) for name in names])
            cluster.program.program.weights[:] = [(name, held[name]) for name in names]
        self.parts.use(held)

    def changed(self) -> list[str]:
        return self.parts.changed

    def report_values(self) -> dict[str, Any]:
        return _joined(self)

    def fallbacks(self) -> list[dict[str, Any]]:
        return [
            {"op": left.op, "reason": left.reason, "source": left.source, "calls": self.calls}
            for left in self.parts.left
            if left.computes
        ]


class EagerEntry(Entry):
    """A module that torch runs."""

    def __init__(self, original: Callable[[], torch.nn.Module], error: Error):
        self._original = original
        self.error = error
        self.calls = 0

    def run(self, args: tuple, kwargs: dict):
        self.calls += 1
        return self._original()(*args, **kwargs)

    def fallbacks(self) -> list[dict[str, Any]]:
        reason = str(self.error.message).strip() or self.error.code
        return [
            {
                "op": self.error.op or "module",
                "reason": reason,
                "source": None,
                "calls": self.calls,
                "code": self.error.code,
            }
        ]


def _entry_check(call: Call) -> Callable[[list], bool]:
    """A quick check of the tensors of a call: types, ranks, sizes and facts."""
    dims, dtypes = call.signature.dims, call.dtypes
    facts = [(f, sorted(f.symbols())) for f in map(extension.fact, call.signature.facts)]
    first: dict[str, tuple[int, int]] = {}
    fixed, equal = [], []
    for i, row in enumerate(dims):
        for axis, dim in enumerate(row):
            if dim.isdigit():
                fixed.append((i, axis, int(dim)))
            elif first.setdefault(dim, (i, axis)) != (i, axis):
                equal.append((i, axis, *first[dim]))
    asked = [(f, {s: first[s] for s in names}) for f, names in facts if all(s in first for s in names)]
    kinds = [(dtype, len(row)) for dtype, row in zip(dtypes, dims, strict=True)]

    def holds(tensors: list) -> bool:
        grad = torch.is_grad_enabled()
        for t, (dtype, rank) in zip(tensors, kinds, strict=True):
            if t.dtype is not dtype or t.dim() != rank or t.is_conj() or t.device.type != "cpu":
                return False
            if t.layout is not torch.strided or (grad and t.requires_grad):
                return False
        if any(tensors[i].size(axis) != size for i, axis, size in fixed):
            return False
        if any(tensors[i].size(a) != tensors[j].size(b) for i, a, j, b in equal):
            return False
        sizes = ({s: tensors[i].size(axis) for s, (i, axis) in places.items()} for _, places in asked)
        return all(f.holds(values) is not False for (f, _), values in zip(asked, sizes, strict=True))

    return holds


def refreshed(entry: Entry, module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """The weights of ``module`` that an entry reads, as they are now."""
    fresh = []
    for name, old in entry.weights():
        now = find_weight(module, name).detach()
        if now.shape != old.shape or now.dtype != old.dtype:
            raise Error(
                f"weight {name} changed from {list(old.shape)} {old.dtype} to {list(now.shape)} {now.dtype}",
                help="optimize the changed module",
            )
        fresh.append((name, now))
    return fresh


def _joined(entry: PartitionedEntry) -> dict[str, Any]:
    """The report of several clusters as one."""
    parts, signature = entry.parts, entry.call.signature
    rows = [
        collect(
            made.executable, signature, stages={}, capture_cache=entry._cache, operations=made.operations,
            weight_bytes=sum(t.numel() * t.element_size() for _, t in made.program.program.weights),
        )
        for made in parts.clusters
    ]  # fmt: skip
    joined = dict(rows[0])
    for row in rows[1:]:
        for name in _SUMMED:
            if name in row:
                joined[name] = joined.get(name, 0) + row[name]
        for name in ("kernels_by_kind", "stages_ms"):
            held = dict(joined.get(name, {}))
            for key, value in row.get(name, {}).items():
                held[key] = round(held.get(key, 0) + value, 3)
            joined[name] = held
        joined["peak_arena_bytes"] = max(joined.get("peak_arena_bytes", 0), row.get("peak_arena_bytes", 0))
    stages = {**entry._stages, **{k: v for k, v in joined["stages_ms"].items() if k != "total"}}
    joined["stages_ms"] = {**stages, "total": round(sum(stages.values()), 3)}
    computed = sum(left.computes for left in parts.left)
    operations = sum(made.operations for made in parts.clusters)
    joined["clusters"] = len(rows)
    joined["operations"] = operations + computed
    joined["coverage"] = round(operations / max(operations + computed, 1), 4)
    joined["calls"] = entry.calls
    joined["parts"] = [
        {
            "operations": made.operations,
            "kernels": row.get("kernels"),
            "inputs": len(made.cluster.taken),
            "outputs": len(made.cluster.given),
        }
        for made, row in zip(parts.clusters, rows, strict=True)
    ]
    return joined


_SUMMED = (
    "compiles", "cache_hits", "kernels", "versions", "weight_bytes", "prepared_weight_bytes", "held_weight_bytes",
    "unreleased_weight_bytes",
)  # fmt: skip
