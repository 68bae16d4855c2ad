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
        # A function may return one result twice: the package has it once.
        named = {result: name for name, result in zip(frozen.names, frozen.outputs, strict=True)}
        super().__init__(name, frozen.graph, {name: result for result, name in named.items()}, dims)
        self._frozen = frozen
        self._positions = [list(named).index(result) for result in frozen.outputs]
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
        distinct = results if isinstance(results, tuple) else (results,)
        flat = [distinct[position] for position in self._positions]
        if any(tf.is_tensor(leaf) for leaf in leaves):
            flat = [tf.convert_to_tensor(array) for array in flat]
        return self._frozen.pack(flat)

    def __repr__(self) -> str:
        return f"<disc.tensorflow.Program {self.name}>"
