"""The door to the compiled extension: everything that the Python side asks of it goes through here.

The extension gives ``Builder`` (ops, inputs, weights, facts, outputs), ``compile`` and executables; it knows no torch graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._errors import Error
from ._options import Options


def _extension():
    try:
        from . import _disc
    except ImportError as error:
        raise Error(
            f"the compiled extension of disc cannot be loaded: {error}",
            code="E0802",
            help="install the wheel, or run `make develop` in a checkout",
        ) from error
    if not hasattr(_disc, "Builder"):
        raise Error(
            "the compiled extension of disc has no compiler", code="E0802", help="run `make develop` again"
        )
    return _disc


def builder():
    """A new, empty function to build."""
    return _extension().Builder()


def dim(name: str):
    """A size by its name."""
    return _extension().Dim(name)


def compile_function(built, options: Options, threads: int | None):
    """Compiles what a builder holds; ``load`` makes the result callable. Without ``threads`` the runtime decides."""
    if options.weights != "exact":
        raise Error(
            f'Options.weights = "{options.weights}" is not available yet', code="E0801", help='use "exact"'
        )
    chosen = {
        "target": options.target,
        "threads": threads,
        "release_weights": options.release_weights,
        "pin_threads": options.pin_threads,
        "specialize": {True: "auto", False: "off", None: None}.get(options.specialize, options.specialize),
        "winograd": options.winograd,
    }
    return _extension().compile(built, chosen)


def load(artifact, weights: Sequence[tuple[str, Any]]):
    """Prepares the weights for the compiled code, and makes it callable.

    ``weights`` are named tensors. They are used where they lie: a change in place may be seen.
    """
    return artifact.load(list(weights), outputs="torch")
