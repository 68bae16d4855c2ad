"""``Options``: what a user may choose about compiling and running. One dataclass; also a context manager, nested, per thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from ._errors import Error

_CHOICES = {
    "fallback": ("error", "framework"),
    "weights": ("exact", "bf16", "int8", "int4"),
    "library": ("auto", "off"),
}

_active = threading.local()


@dataclass(frozen=True)
class Options:
    """Options of a compilation. A field that is None (or left out) takes the value of the enclosing ``with``, then the default.

    >>> with Options(threads=1):
    ...     with Options(cache=False):
    ...         current().threads, current().cache
    (1, False)
    """

    target: str | None = None
    threads: int | None = None
    min_cluster_size: int | None = None
    allow_ops: Sequence[str] | None = None
    block_ops: Sequence[str] | None = None
    allow_tracing: bool | None = None
    fallback: str | None = None
    specialize: bool | None = None
    cache: bool | None = None
    winograd: bool | None = None
    weights: str | None = None
    release_weights: bool | None = None
    pin_threads: bool | None = None
    library: str | None = None
    progress: bool | None = None

    def __post_init__(self):
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value is not None and value not in allowed:
                raise Error(f"Options.{name} = {value!r}: expected one of {', '.join(map(repr, allowed))}")
        if self.threads is not None and (not isinstance(self.threads, int) or self.threads < 1):
            raise Error(f"Options.threads = {self.threads!r}: expected a positive int")

    def over(self, outer: Options) -> Options:
        """These options, with what they leave open taken from ``outer``."""
        mine = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        return replace(outer, **mine)

    def __enter__(self) -> Options:
        stack = _stack()
        stack.append(self.over(stack[-1]))
        return stack[-1]

    def __exit__(self, *exc) -> None:
        _stack().pop()


DEFAULTS = Options(
    min_cluster_size=1,
    allow_ops=(),
    block_ops=(),
    allow_tracing=False,
    fallback="error",
    specialize=True,
    cache=True,
    winograd=False,
    weights="exact",
    release_weights=False,
    pin_threads=False,
    library="auto",
    progress=True,
)


def _stack() -> list[Options]:
    if not hasattr(_active, "stack"):
        _active.stack = [DEFAULTS]
    return _active.stack


def current() -> Options:
    """The options in force in this thread."""
    return _stack()[-1]


def effective(options: Options | None) -> Options:
    """``options`` over those in force in this thread."""
    if options is not None and not isinstance(options, Options):
        raise Error(f"options: expected disc.Options or None, got {type(options).__name__}")
    return options.over(current()) if options is not None else current()
