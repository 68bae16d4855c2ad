"""``Options``: what a user may choose about compiling and running. One dataclass; also a context manager, nested, per thread."""

from __future__ import annotations

import difflib
import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from .errors import Error

_CHOICES = {
    "fallback": ("error", "framework"),
    "weights": ("exact", "bf16", "int8", "int4"),
}

_FLAGS = ("allow_tracing", "winograd", "release_weights", "pin_threads", "progress")

#: What these ask for exists in plug-in mode only: a value that changes nothing is accepted.
_PLUG_IN = ("min_cluster_size", "allow_ops", "block_ops", "allow_tracing", "fallback")

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
    #: True: versions for sizes that come often, kept where a trial finds them faster; "always": for all sizes that come twice.
    specialize: bool | str | None = None
    #: "code": prepared weights are not kept.
    cache: bool | str | None = None
    winograd: bool | None = None
    weights: str | None = None
    release_weights: bool | None = None
    pin_threads: bool | None = None
    #: Who computes products of matrices: "off" (generated kernels), "auto" (what was measured to be faster), "onednn" or
    #: "onednn:PATH".
    library: str | None = None
    progress: bool | None = None

    def __post_init__(self):
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value is not None and value not in allowed:
                raise Error(f"Options.{name} = {value!r}: expected one of {', '.join(map(repr, allowed))}")
        for name in _FLAGS:
            if not isinstance(getattr(self, name), (bool, type(None))):
                raise Error(f"Options.{name} = {getattr(self, name)!r}: expected True or False")
        for name in ("threads", "min_cluster_size"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise Error(f"Options.{name} = {value!r}: expected a positive int")
        if not isinstance(self.specialize, (bool, type(None))) and self.specialize != "always":
            raise Error(f'Options.specialize = {self.specialize!r}: expected True, False or "always"')
        if not isinstance(self.cache, (bool, type(None))) and self.cache != "code":
            raise Error(f'Options.cache = {self.cache!r}: expected True, False or "code"')
        if self.library is not None and not _is_library(self.library):
            expected = "expected 'off', 'auto', 'onednn' or 'onednn:' with the path of the library"
            raise Error(f"Options.library = {self.library!r}: {expected}")
        if not isinstance(self.target, (str, type(None))):
            raise Error(f"Options.target = {self.target!r}: expected a name such as 'x86-64-v3'")
        for name in ("allow_ops", "block_ops"):
            value = getattr(self, name)
            if isinstance(value, str) or (value is not None and not all(isinstance(op, str) for op in value)):
                raise Error(f"Options.{name} = {value!r}: expected names such as ['aten.gelu.default']")

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


def _is_library(value) -> bool:
    name, colon, path = value.partition(":") if isinstance(value, str) else (None, "", "")
    return name in ("off", "auto", "onednn") and (not colon or (name == "onednn" and path != ""))


def _refuse_unknown(init):
    names = [f.name for f in fields(Options)]

    @functools.wraps(init)
    def checked(self, *args, **given):
        for name in given.keys() - set(names):
            near = difflib.get_close_matches(name, names, 1)
            raise Error(
                f"there is no option {name!r}",
                help=f"is {near[0]!r} meant?" if near else f"the options are {', '.join(names)}",
            )
        init(self, *args, **given)

    return checked


Options.__init__ = _refuse_unknown(Options.__init__)

DEFAULTS = Options(
    min_cluster_size=1,
    allow_ops=(),
    block_ops=(),
    allow_tracing=False,
    fallback="error",
    specialize=True,
    cache=True,
    winograd=True,
    weights="exact",
    release_weights=False,
    pin_threads=False,
    library="off",
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


def refuse_plug_in(options: Options) -> None:
    """Raises for an option that has no meaning before plug-in mode exists."""
    for name in _PLUG_IN:
        value, default = getattr(options, name), getattr(DEFAULTS, name)
        changed = tuple(value) != tuple(default) if isinstance(default, tuple) else value != default
        if changed:
            raise Error(
                f"Options.{name} = {value!r} is not available yet: it belongs to plug-in mode",
                code="E0801",
                help=f"leave it out, or use {default!r}",
            )
