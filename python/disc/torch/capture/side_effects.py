"""State that a module keeps from call to call: attributes that ``forward`` assigns,
and containers in them that it changes.

A trace must leave no side effects, and what it read of such state is fixed. A call of the module
itself shows whether that matters: a table that is made once and kept, or a note that nobody reads,
changes no result, and a counter that is added does.

Not here: writes in place to tensors (``lowering.functionalize``), and state of other objects.
Invariant: after ``as_it_was`` and ``refuse_kept`` each attribute of each module is what it was
before, whatever was raised; but for new flags, which say what was prepared.
"""

from __future__ import annotations

import collections
import contextlib
import enum
import inspect
import re
import sys
import threading
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from ...core.errors import Error
from ..graph.changes import Change
from ..graph.weight_names import PLAIN
from ..overrides.registry import Override, is_active, overridden, register
from ..pytree import kv_caches
from ..symbolic.source_lines import Place, written
from .read_attributes import read_attributes

_MISSING = object()
#: Containers whose contents are state too.
_HOLDERS = (list, dict, set, collections.deque)
#: Attributes of a module before anything is assigned: hooks, the tables of parameters, buffers and
#: submodules.
_OWN = frozenset(torch.nn.Module().__dict__)


@dataclass
class _Before:
    """Keeps what one module held."""

    path: str
    module: torch.nn.Module
    attributes: dict[str, Any] = field(default_factory=dict)
    held: list[dict[str, Any]] = field(default_factory=list)
    #: Attribute, container and what was in it.
    contents: list[tuple[str, Any, Any]] = field(default_factory=list)
    #: Parameters and buffers, with aliases of their memory: ``weight.data = other`` gives them
    #: other memory.
    memory: list[tuple[str, torch.Tensor, torch.Tensor]] = field(default_factory=list)


#: Types of flags, names and numbers.
_SWITCHES = (bool, int, float, str, bytes, type(None), torch.dtype, enum.Enum)
_KINDS = ("parameter", "buffer", "submodule")


def _tables(m: torch.nn.Module) -> tuple[dict, ...]:
    return m._parameters, m._buffers, m._modules


@contextlib.contextmanager
def as_it_was(module: torch.nn.Module):
    """Puts back what is assigned within; the value says at the end what that was."""
    with _disable_current_modes():
        before = [_note(path, m) for path, m in module.named_modules()]
    places: dict[tuple[int, str], Place] = {}
    changes: list[Change] = []
    try:
        with _noting_places(places):
            yield changes
    finally:
        with _disable_current_modes():
            for noted in before:
                changes += _put_back(noted, places)


def _note(path: str, m: torch.nn.Module) -> _Before:
    noted = _Before(path, m, dict(m.__dict__), [dict(table) for table in _tables(m)])
    for name, t in (*m._parameters.items(), *m._buffers.items()):
        if type(t) in PLAIN and t.layout is torch.strided:
            noted.memory.append((name, t, t.detach()))
    for name, value in m.__dict__.items():
        if isinstance(value, _HOLDERS) and name not in _OWN:
            noted.contents += [(name, *pair) for pair in _contents(value)]
    return noted


def _contents(holder):
    """A container and a copy of it, and those of the containers in it."""
    yield holder, holder.copy()
    for value in holder.values() if isinstance(holder, dict) else holder:
        if isinstance(value, _HOLDERS):
            yield from _contents(value)


@contextlib.contextmanager
def _noting_places(places: dict):
    """Notes the line that assigned an attribute last."""
    before, _noting.places = getattr(_noting, "places", None), places
    try:
        with overridden("assigning"):
            yield
    finally:
        _noting.places = before


def _setattr(self, name, value):
    if is_active("assigning"):
        frame = sys._getframe(1)
        _noting.places[id(self), name] = frame.f_code.co_filename, frame.f_lineno
    _assign(self, name, value)


_noting = threading.local()
_assign = torch.nn.Module.__setattr__
register(
    [
        Override(
            torch.nn.Module,
            "__setattr__",
            _setattr,
            "a message names the line that changes an attribute",
            scope="assigning",
            is_direct=True,
        )
    ]
)


def _put_back(noted: _Before, places: dict):
    m, changed = noted.module, {}
    for kind, now, then in zip(_KINDS, _tables(m), noted.held, strict=True):
        if names := _differing(now, then):
            changed |= {name: (kind, then.get(name), now.get(name)) for name in names}
            now.clear()
            now.update(then)
    for name, t, alias in noted.memory:
        if t.device != alias.device or t.data_ptr() != alias.data_ptr():
            t.data = alias
            changed[name] = "buffer" if name in m._buffers else "parameter", t, t
    for name in _differing(m.__dict__, noted.attributes):
        then, now = noted.attributes.get(name, _MISSING), m.__dict__.get(name, _MISSING)
        if then is _MISSING and isinstance(now, bool):
            # The first call of all has prepared something (transformers: hooks), and says so.
            continue
        changed[name] = "attribute", then, now
        if then is _MISSING:
            del m.__dict__[name]
        else:
            m.__dict__[name] = then
    for name, holder, then in noted.contents:
        if is_other(holder, then):
            changed.setdefault(name, ("attribute", then, holder.copy()))
            holder.clear()
            (holder.extend if isinstance(holder, (list, collections.deque)) else holder.update)(then)
    dot = f"{noted.path}." if noted.path else ""
    for name, what in changed.items():
        yield Change(m, dot + name, name, *what, places.get((id(m), name)))


def _differing(now: dict, then: dict) -> list[str]:
    """The entries that differ; equal numbers do not."""
    names = [name for name in {**now, **then} if now.get(name, _MISSING) is not then.get(name, _MISSING)]
    return [n for n in names if not _same_number(now.get(n, _MISSING), then.get(n, _MISSING))]


def _same_number(a, b) -> bool:
    return type(a) is type(b) and isinstance(a, (int, float, str, tuple, torch.dtype)) and _equal(a, b)


def is_other(holder, then) -> bool:
    """Returns true if a container holds other things than its copy."""
    if len(holder) != len(then):
        return True
    if isinstance(holder, set):
        return holder != then
    if isinstance(holder, dict):
        return any(k not in then or then[k] is not v for k, v in holder.items())
    return any(x is not y for x, y in zip(holder, then, strict=True))


def is_assigned(change: Change) -> bool:
    """Returns true for a buffer that a call assigns another tensor, which calls of compiled code
    assign too.
    """
    tensors = isinstance(change.then, torch.Tensor) and isinstance(change.now, FakeTensor)
    return change.kind == "buffer" and tensors


def refuse_kept(
    module: torch.nn.Module,
    arguments,
    tensors,
    changes: list[Change],
    written: list[str],
    assigned: list[str],
) -> set[str]:
    """Refuses a module whose next result, or whose buffers, depend on the call before,
    apart from the weights ``written`` in place and the buffers ``assigned``, which are kept.

    ``changes`` are those of a trace; a second call with the same arguments tells. Returns the
    buffers of which a call makes others. Runs on copies of the weights that are written.
    """
    refuse_switches(module, arguments, tensors, changes)
    copies = [t.detach().clone() for t in tensors]
    with as_it_was(module):
        held = copied(module, written)
        try:
            first = results(module, arguments, copies)
        except Exception:
            # Errors on the example are reported by the capture.
            return set(assigned)
        now = dict(module.named_buffers(remove_duplicate=False))
        differ = {n for n, t in held.items() if n in now and not _equal(now[n], t)}
        for name in {*written, *assigned} & held.keys():
            _put(module, name, held[name])
        copied(module, written)
        try:
            second = results(module, arguments, copies)
        except Exception:
            second = None
    differ -= set(written)
    if kept := [c for c in changes if c.name in differ - set(assigned)]:
        raise _refusal(module, kept, "and it is no buffer that compiled code can assign anew")
    others = [c for c in changes if c.name not in assigned]
    if others and (second is None or not _same_results(first, second)):
        raise _refusal(module, others, "and its next result depends on it")
    return differ


class Switched(Error):
    """A call changes a flag, a name or a submodule that later calls may read."""

    default_code = "E0405"
    #: A second call changes nothing more.
    settles = False


def refuse_switches(module: torch.nn.Module, arguments, tensors, changes: list[Change]) -> None:
    """Refuses a call that leaves another flag, name or submodule, which other calls may read: what
    it changes for them is not seen in the results of two calls alike.
    """
    switches = [c for c in changes if _is_switch(c)]
    read = read_attributes(module) if switches else frozenset()
    if kept := [c for c in switches if c.kind == "submodule" or c.attribute in read]:
        error = Switched(_refused(module, kept, "and later calls may depend on it"))
        error.help = (
            "set it before disc.optimize (a call of the module may do that), or do not change it in forward"
        )
        error.settles = _settles(module, arguments, tensors, kept)
        raise error


def _settles(module: torch.nn.Module, arguments, tensors, kept: list[Change]) -> bool:
    """Returns true if a second call leaves the attributes as the first one did."""

    def now() -> list:
        owners = [module.get_submodule(c.name.rpartition(".")[0]) for c in kept]
        return [getattr(owner, c.attribute, _MISSING) for owner, c in zip(owners, kept, strict=True)]

    with as_it_was(module):
        copied(module, [name for name, _ in module.named_buffers()])
        try:
            results(module, arguments, tensors)
            first = now()
            results(module, arguments, tensors)
        except Exception:
            return False
        return all(a is b or _same_number(a, b) for a, b in zip(first, now(), strict=True))


def _is_switch(change: Change) -> bool:
    """Returns true for an attribute that had a value, and has another one that is no size."""
    then, now = change.then, change.now
    if change.kind == "submodule":
        return isinstance(then, torch.nn.Module) and now is not then
    is_plain = isinstance(then, _SWITCHES) and isinstance(now, _SWITCHES)
    return change.kind == "attribute" and is_plain and change.attribute != "training" and then != now


def copied(module: torch.nn.Module, written: list[str]) -> dict[str, torch.Tensor]:
    """Puts copies in the place of weights; returns what parameters and buffers were before."""
    held = dict(module.named_parameters(remove_duplicate=False))
    held |= module.named_buffers(remove_duplicate=False)
    copies: dict[int, torch.Tensor] = {}
    changed = {id(held[name]) for name in written if name in held}
    for m in module.modules():
        for table in (m._parameters, m._buffers):
            for name, t in table.items():
                if id(t) in changed:
                    if id(t) not in copies:
                        copy = t.detach().clone()
                        is_parameter = isinstance(t, torch.nn.Parameter)
                        copies[id(t)] = torch.nn.Parameter(copy, t.requires_grad) if is_parameter else copy
                    table[name] = copies[id(t)]
    return held


def _put(module: torch.nn.Module, name: str, t: torch.Tensor) -> None:
    """Puts a weight back in its place, under each of its names."""
    path, _, leaf = name.rpartition(".")
    owner = module.get_submodule(path)
    table = owner._buffers if leaf in owner._buffers else owner._parameters
    now = table[leaf]
    for m in module.modules():
        for table in (m._parameters, m._buffers):
            for other, held in table.items():
                if held is now and held is not None:
                    table[other] = t


def eager_failure(module: torch.nn.Module, arguments, tensors) -> Exception | None:
    """Returns the error that the module itself raises for an example, or None: it runs on copies of
    the inputs and of its buffers.
    """
    with as_it_was(module):
        copied(module, [name for name, _ in module.named_buffers()])
        try:
            results(module, arguments, tensors)
        except Exception as error:
            return error
    return None


def results(module, arguments, tensors) -> list:
    """Returns the results of the module itself, for copies of the inputs."""
    args, kwargs = arguments.rebuild([t.clone() for t in tensors])
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        leaves, _ = kv_caches.flatten(module(*args, **kwargs))
    return [x.clone() if isinstance(x, torch.Tensor) else x for x in leaves]


def _same_results(first: list, second: list) -> bool:
    return len(first) == len(second) and all(map(_equal, first, second))


def _equal(a, b) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return type(a) is type(b) and bool(a == b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.allclose(a, b, equal_nan=True) if a.is_floating_point() else torch.equal(a, b)


def _refusal(module, changes: list[Change], why: str) -> Error:
    help = "take the state as an argument of forward, and return the new one"
    return Error(_refused(module, changes, why), code="E0405", help=help)


def _refused(module, changes: list[Change], why: str) -> str:
    names = ", ".join(dict.fromkeys(f"{c.kind} {c.name}{_where(c)}" for c in changes))
    return f"{type(module).__name__} keeps state from call to call: it changes the {names}, {why}"


def _where(change: Change) -> str:
    """The line that changed an attribute, as far as it is known."""
    place = change.place or _mentioned(change.module, change.attribute)
    return f" ({written(place)})" if place is not None else ""


def _mentioned(m: torch.nn.Module, attribute: str) -> Place | None:
    """The first line of ``forward`` with the name."""
    try:
        lines, start = inspect.getsourcelines(type(m).forward)
    except (OSError, TypeError):
        return None
    named = (i for i, line in enumerate(lines) if re.search(rf"\.{re.escape(attribute)}\b", line))
    found = next(named, None)
    return None if found is None else (inspect.getsourcefile(type(m).forward), start + found)
