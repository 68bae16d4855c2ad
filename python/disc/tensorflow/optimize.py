"""``disc.tensorflow.optimize`` and ``disc.tensorflow.load``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from ..core.errors import Error
from ..core.options import Options
from . import freeze
from .program import Program


def optimize(
    function: Callable, *example: Any, dims: Mapping[Any, Any] | None = None, options: Options | None = None
) -> Program:
    """Compiles a function, a ``tf.function`` or a Keras model for inputs of any size.

    Variables are frozen as they are now: later changes of them are not seen.

    Args:
        function: What to compile. A Keras model is called for inference.
        example: Its arguments: tensors, arrays, ``tf.TensorSpec``, or structures of them. Sizes of
            a spec that are None are open, and so are all sizes of a tensor that the function can
            be traced without. Other values are constants of the compilation. A Keras model that
            knows its inputs needs no example; one that is not built yet is built by it.
        dims: Names of sizes, by the input's name: ``{"x": {0: "B"}}``.
        options: As for ``disc.optimize``.

    Raises:
        disc.Error: Ops that disc does not have, all of them (E1003), or sizes that are computed
            from elements of a tensor (E1006).
    """
    concrete = freeze.concrete(function, example)
    return Program(freeze.frozen(concrete), _name(function), dims, options)


def load(
    saved_model: str | os.PathLike[str],
    *,
    signature: str | None = None,
    dims: Mapping[Any, Any] | None = None,
    options: Options | None = None,
) -> Program:
    """Compiles a signature of a SavedModel: ``serving_default``, or the only one.

    Raises:
        disc.Error: There is no such signature; or as ``optimize``.
    """
    tf = freeze.tensorflow()
    path = os.fspath(saved_model)
    loaded = tf.saved_model.load(path)
    signatures = dict(loaded.signatures)
    if signature is None:
        signature = next(iter(signatures)) if len(signatures) == 1 else "serving_default"
    if signature not in signatures:
        have = ", ".join(f"`{name}`" for name in signatures) or "none"
        raise Error(f"{path} has no signature `{signature}`; it has: {have}", code="E1001")
    frozen = freeze.frozen(signatures[signature])
    return Program(frozen, os.path.basename(path.rstrip(os.sep)) or "model", dims, options)


def _name(function: Callable) -> str:
    return getattr(function, "name", None) or getattr(function, "__name__", None) or type(function).__name__
