"""``Program``: what ``disc.tensorflow.optimize`` and ``load`` return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.errors import Error
from ..core.importing import Imported
from ..core.loaded import Package, load
from ..core.options import Options
from .freeze import Frozen, tensorflow


class Program(Imported):
    """A compiled function of TensorFlow, called as the function is.

    Tensors give tensors, NumPy arrays give arrays. ``disc.export(program, path)`` writes a package
    that runs without TensorFlow.
    """

    def __init__(self, frozen: Frozen, name: str, dims: Mapping[Any, Any] | None, options: Options | None):
        super().__init__(name, frozen.graph, _distinct(frozen.outputs), dims)
        self._frozen = frozen
        #: The compiled package.
        self.package: Package = load(self.export(options=options))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tf = tensorflow()
        leaves = self._frozen.flatten(args, kwargs)
        names = self._frozen.inputs
        if len(leaves) != len(names):
            raise Error(f"{self.name}: expected {len(names)} tensors, got {len(leaves)}", code="E0601")
        arrays = {name: np.asarray(leaf) for name, leaf in zip(names, leaves, strict=True)}
        results = self.package(**arrays)
        by_name = dict(zip(self._outputs, results if isinstance(results, tuple) else (results,), strict=True))
        flat = [by_name[name] for name in self._frozen.outputs]
        if any(tf.is_tensor(leaf) for leaf in leaves):
            flat = [tf.convert_to_tensor(array) for array in flat]
        return self._frozen.pack(flat)

    def __repr__(self) -> str:
        return f"<disc.tensorflow.Program {self.name}>"


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names without repetitions: a function may return one result twice."""
    return tuple(dict.fromkeys(names))
