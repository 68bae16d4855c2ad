"""Fields of ``disc.Options``.

``cargo xtask codegen`` generates them from crates/disc-options/src/table.rs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class OptionFields:
    """None (or nothing) for a field takes the value of the enclosing ``with``, then the default."""

    target: str | None = None
    device: str | None = None
    threads: int | None = None
    pin_threads: bool | None = None
    specialize: bool | str | None = None
    winograd: bool | None = None
    matmul_precision: str | None = None
    check: str | None = None
    release_weights: bool | None = None
    weights: str | None = None
    activations: str | None = None
    library: str | None = None
    cache: bool | str | None = None
    progress: bool | None = None
    min_cluster_size: int | None = None
    allow_ops: Sequence[str] | None = None
    block_ops: Sequence[str] | None = None
    fallback: str | None = None
    watch: str | None = None
    background: bool | None = None
    verify: int | None = None
    profile: str | None = None
    allow_tracing: bool | None = None


#: Kinds of values, as ``disc.core.options`` checks them, with what a message or the check needs.
KINDS = {
    "target": ("text", "a name such as 'x86-64-v3'"),
    "device": ("text", "a name such as 'cpu'"),
    "threads": ("count", None),
    "pin_threads": ("flag", None),
    "specialize": ("flag_or", "always"),
    "winograd": ("flag", None),
    "matmul_precision": ("choice", ("highest", "high", "medium")),
    "check": ("choice", ("late", "sync")),
    "release_weights": ("flag", None),
    "weights": ("choice", ("exact", "bf16", "int8", "int4")),
    "activations": ("choice", ("exact", "int8")),
    "library": ("choice_or_path", ("off", "auto", "cublaslt", "cudnn", "onednn")),
    "cache": ("flag_or", "code"),
    "progress": ("flag", None),
    "min_cluster_size": ("count", None),
    "allow_ops": ("names", "['aten.gelu.default']"),
    "block_ops": ("names", "['aten.gelu.default']"),
    "fallback": ("choice", ("framework", "error")),
    "watch": ("choice", ("auto", "off")),
    "background": ("flag", None),
    "verify": ("count", None),
    "profile": ("text", "a path such as 'trace.json'"),
    "allow_tracing": ("flag", None),
}

#: Values of options that nobody chose.
DEFAULTS = {
    "pin_threads": False,
    "specialize": True,
    "winograd": True,
    "check": "late",
    "release_weights": False,
    "weights": "exact",
    "activations": "exact",
    "library": "off",
    "cache": True,
    "progress": True,
    "allow_ops": (),
    "block_ops": (),
    "fallback": "framework",
    "watch": "auto",
    "background": False,
    "allow_tracing": False,
}

#: Handed to the compiler under their names.
COMPILER = (
    "target",
    "device",
    "threads",
    "pin_threads",
    "specialize",
    "winograd",
    "matmul_precision",
    "check",
    "release_weights",
    "weights",
    "activations",
    "library",
)

#: Not available yet.
PLANNED = ("allow_tracing",)
