"""Changes what torch and Python do while a module is traced: one table of overrides,
active only in the tracing thread.

An override is put in place when the first capture of the process begins and taken out when the last
one ends. What is in place asks whether this thread is within the override's scope, and else calls
what it replaces: threads beside a capture get torch's and Python's own answers.

Scopes: ``capture`` is all of a capture; ``trace`` the run of the module in the quick tracer;
``export`` that in ``torch.export``; ``sizes_from_0`` where sizes may be 0; ``assigning`` where
assignments of attributes are noted; ``quiet`` where torch logs nothing.

Not here: the functions (their files declare them), and torch's modes, which are a thread's own
already. Invariant: after the last scope everything is what it was, whatever was raised.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Override:
    """One function that another one takes the place of.

    ``owner`` is a module, a class, a dict, or a function of Python whose body is replaced, for
    those who hold it by another name.
    """

    owner: Any
    name: Any
    function: Any
    why: str
    scope: str = "capture"
    #: The versions of what is replaced that have it: False leaves the override out.
    when: bool = True
    #: The function itself is put in place: it looks at the frame that calls it, and asks
    #: ``is_active`` itself.
    is_direct: bool = False


class _Thread(threading.local):
    def __init__(self):
        self.scopes = Counter()


_thread = _Thread()
_lock = threading.Lock()
_registered: list[Override] = []
#: The number of threads in a scope, of all and of each.
_inside: Counter[str] = Counter()
#: Puts back what was replaced, while any thread is in a scope.
_undo: list[Callable[[], None]] = []


def register(overrides: Iterable[Override]) -> None:
    """Adds overrides to the table: once, when the file that declares them is imported."""
    with _lock:
        new = [override for override in overrides if override.when]
        _registered.extend(new)
        if _inside.total():
            _undo.extend(map(_put_in_place, new))


def table() -> tuple[Override, ...]:
    """Every override."""
    return tuple(_registered)


def is_active(scope: str = "capture") -> bool:
    """Returns true if this thread is within the scope."""
    return _thread.scopes[scope] > 0


def is_active_elsewhere(scope: str) -> bool:
    """Returns true if another thread is within the scope, and this one is not."""
    return _inside[scope] > 0 and not is_active(scope)


@contextlib.contextmanager
def overridden(scope: str) -> Iterator[None]:
    """Within it the overrides of the scope hold in this thread."""
    with _lock:
        if not _inside.total():
            try:
                _undo.extend(map(_put_in_place, _registered))
            except BaseException:
                _put_back()
                raise
        _inside[scope] += 1
    _thread.scopes[scope] += 1
    try:
        yield
    finally:
        _thread.scopes[scope] -= 1
        with _lock:
            _inside[scope] -= 1
            if not _inside.total():
                _put_back()


def _put_back() -> None:
    """Restores everything, the last first: one may have replaced what another put in place."""
    while _undo:
        _undo.pop()()


def _put_in_place(override: Override) -> Callable[[], None]:
    """Replaces one function; returns what puts it back."""
    owner, name = override.owner, override.name
    if isinstance(owner, types.FunctionType):
        code, owner.__code__ = owner.__code__, override.function.__code__
        return functools.partial(setattr, owner, "__code__", code)
    if isinstance(owner, dict):
        if name not in owner and override.is_direct:
            owner[name] = override.function
            return functools.partial(owner.pop, name, None)
        replaced = owner[name]
        owner[name] = _switched(override, replaced)
        return functools.partial(owner.__setitem__, name, replaced)
    if not hasattr(owner, name) and override.is_direct:
        setattr(owner, name, override.function)
        return functools.partial(delattr, owner, name)
    replaced = getattr(owner, name)
    is_own = name in vars(owner)
    kept = vars(owner).get(name)
    setattr(owner, name, _switched(override, replaced))
    return (
        functools.partial(setattr, owner, name, kept) if is_own else functools.partial(delattr, owner, name)
    )


def _switched(override: Override, replaced):
    """A function that is the override in its scope, and what it replaces elsewhere."""
    function, scope = override.function, override.scope
    if override.is_direct or not callable(function):
        return function

    def call(*args, **kwargs):
        return (function if _thread.scopes[scope] > 0 else replaced)(*args, **kwargs)

    with contextlib.suppress(AttributeError, TypeError):
        functools.update_wrapper(call, replaced)
    return call
