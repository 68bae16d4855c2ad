"""``Options``: what a user may choose about compiling and running.

One dataclass; also a context manager, nested, per thread.

Fields, kinds and defaults are generated (``option_fields``) from the table in crates/disc-options;
this file checks values and resolves what is left open.
"""

from __future__ import annotations

import difflib
import functools
import threading
from dataclasses import dataclass, fields, replace

from .errors import Error
from .option_fields import COMPILER, KINDS, PLANNED, OptionFields
from .option_fields import DEFAULTS as _DEFAULTS

_active = threading.local()


@dataclass(frozen=True)
class Options(OptionFields):
    """Options of a compilation.

    A field that is None (or left out) takes the value of the enclosing ``with``, then the default.

    >>> with Options(threads=1):
    ...     with Options(cache=False):
    ...         current().threads, current().cache
    (1, False)
    """

    def __post_init__(self):
        for name, (kind, detail) in KINDS.items():
            value = getattr(self, name)
            if value is not None and (expected := _CHECKS[kind](value, detail)):
                raise Error(f"Options.{name} = {value!r}: expected {expected}")

    def over(self, outer: Options) -> Options:
        """These options, with what they leave open taken from ``outer``."""
        mine = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        return replace(outer, **mine)

    def for_compiler(self) -> dict[str, object]:
        """The options that the compiler reads, by name."""
        return {name: getattr(self, name) for name in COMPILER}

    def __enter__(self) -> Options:
        stack = _stack()
        tracing = None
        if self.profile is not None:
            from .profiling import Tracing

            tracing = Tracing(self.profile)
        stack.append(self.over(stack[-1]))
        _active.tracings.append(tracing)
        return stack[-1]

    def __exit__(self, *exc) -> None:
        _stack().pop()
        if (tracing := _active.tracings.pop()) is not None:
            tracing.finish()


# Checks of a value, by its kind: text of what was expected, or None.


def _flag(value, _) -> str | None:
    return None if isinstance(value, bool) else "True or False"


def _flag_or(value, word: str) -> str | None:
    return None if isinstance(value, bool) or value == word else f'True, False or "{word}"'


def _count(value, _) -> str | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return None if is_count else "a positive int"


def _text(value, example: str) -> str | None:
    return None if isinstance(value, str) else example


def _choice(value, choices: tuple[str, ...]) -> str | None:
    return None if value in choices else f"one of {', '.join(map(repr, choices))}"


def _choice_or_path(value, choices: tuple[str, ...]) -> str | None:
    name, colon, path = value.partition(":") if isinstance(value, str) else (None, "", "")
    if name in choices and (not colon or (name == choices[-1] and path != "")):
        return None
    *others, last = choices
    return f"{', '.join(map(repr, others))}, {last!r} or '{last}:' with the path of the library"


def _names(value, example: str) -> str | None:
    is_names = not isinstance(value, str) and all(isinstance(name, str) for name in value)
    return None if is_names else f"names such as {example}"


_CHECKS = {
    "flag": _flag,
    "flag_or": _flag_or,
    "count": _count,
    "text": _text,
    "choice": _choice,
    "choice_or_path": _choice_or_path,
    "names": _names,
}


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

DEFAULTS = Options(**_DEFAULTS)


def _stack() -> list[Options]:
    if not hasattr(_active, "stack"):
        _active.stack = [DEFAULTS]
        #: For each ``with``, the trace that it writes at its end; None for most.
        _active.tracings = []
    return _active.stack


def current() -> Options:
    """The options in force in this thread."""
    return _stack()[-1]


def effective(options: Options | None) -> Options:
    """``options`` over those in force in this thread."""
    if options is not None and not isinstance(options, Options):
        raise Error(f"options: expected disc.Options or None, got {type(options).__name__}")
    if options is not None and options.profile is not None:
        raise Error(
            "Options.profile belongs to a block of calls, and is no option of a module",
            help=f"call it inside of `with disc.Options(profile={options.profile!r}):`, or see disc.profile",
        )
    chosen = options.over(current()) if options is not None else current()
    # The compiler refuses it as well, but torch.compile would then leave the graph to torch.
    if chosen.activations == "int8" and chosen.weights != "int8":
        raise Error(
            "activations of int8 are multiplied by weights of int8: "
            f"expected `weights` as int8, found {chosen.weights!r}",
            help='call it with weights="int8" too; options of a `with disc.Options(..)` around hold as well',
        )
    # The block around writes the trace; a module outlives it.
    return replace(chosen, profile=None) if chosen.profile is not None else chosen


def refuse_planned(options: Options) -> None:
    """Raises for an option that has no meaning yet."""
    for name in PLANNED:
        value, default = getattr(options, name), getattr(DEFAULTS, name)
        changed = tuple(value) != tuple(default) if isinstance(default, tuple) else value != default
        if changed:
            raise Error(
                f"Options.{name} = {value!r} is not available yet",
                code="E0801",
                help=f"leave it out, or use {default!r}",
            )
