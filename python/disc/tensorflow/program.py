"""``Program``: what ``disc.tensorflow.optimize`` and ``load`` return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core import extension
from ..core.importing import Imported
from ..core.loaded import Package, load
from ..core.options import Options
from ..core.report import Compiled, nothing
from .freeze import Frozen, tensorflow


class Program(Imported, Compiled):
    """A compiled function of TensorFlow, called as the function is.

    Tensors give tensors, NumPy arrays give arrays. ``disc.export(program, path)`` writes a package
    that runs without TensorFlow.
    """

    def __init__(self, frozen: Frozen, name: str, dims: Mapping[Any, Any] | None, options: Options | None):
        # A function may return one result twice: the package has it once.
        named = {result: name for name, result in zip(frozen.names, frozen.outputs, strict=True)}
        super().__init__(name, frozen.graph, {name: result for result, name in named.items()}, dims)
        self._frozen = frozen
        self._positions = [list(named).index(result) for result in frozen.outputs]
        hits = _code_hits()
        #: The compiled package.
        self.package: Package = load(self.export(options=options))
        self._is_from_cache = _code_hits() > hits

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tf = tensorflow()
        leaves = self._frozen.form.flatten(args, kwargs)
        arrays = {name: np.asarray(leaf) for name, leaf in zip(self._frozen.inputs, leaves, strict=True)}
        results = self.package(**arrays)
        distinct = results if isinstance(results, tuple) else (results,)
        flat = [distinct[position] for position in self._positions]
        if any(tf.is_tensor(leaf) for leaf in leaves):
            flat = [tf.convert_to_tensor(array) for array in flat]
        return self._frozen.pack(flat)

    def report_values(self) -> dict[str, Any]:
        """The values of the report."""
        entry = self.package["main"]
        executable = entry.load()
        native = dict(executable.report())
        plain, prepared = native["weight_bytes"], native["prepared_weight_bytes"]
        return {
            **nothing(),
            "captured_by": "tensorflow",
            "compiles": 0 if self._is_from_cache else 1,
            "cache_hits": 1 if self._is_from_cache else 0,
            "clusters": 1,
            "coverage": 1.0,
            "kernels": len(native["lines"]),
            "operations": len({line for lines in native["lines"].values() for line in lines}),
            "target": self.package.target,
            "device": executable.device,
            "dims": {port.name: [str(dim) for dim in port.dims] for port in entry.inputs},
            "facts": list(entry.facts),
            "calls": executable.calls,
            "peak_arena_bytes": executable.peak_arena_bytes,
            "weight_bytes": plain,
            "prepared_weight_bytes": prepared,
            "held_weight_bytes": plain + prepared,
            "unreleased_weight_bytes": plain + prepared,
        }

    def executables(self) -> list[Any]:
        """The executable that serves calls."""
        return [self.package["main"].load()]

    def __repr__(self) -> str:
        return f"<disc.tensorflow.Program {self.name}>"


def _code_hits() -> int:
    """The number of programs whose code this process had from the cache."""
    return extension.cache_counts()["code"]["hits"]
