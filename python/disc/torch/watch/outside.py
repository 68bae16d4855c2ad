"""Keeps what lives outside of a module as it was while the module is captured: dicts and lists of
the user's, objects, globals, variables that functions enclose.

A hook or a ``forward`` that writes there would leave what a trace computes, and calls of compiled
code would write nothing. What is made once and kept (a table by its size) is left out of calls;
what every call writes keeps a module from being captured whole.

Not here: attributes of modules and containers in them (``capture.side_effects``).
Invariant: after ``put_back`` everything that was reached holds what it held.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ...core.errors import Error
from ..cache.doubts import is_installed
from ..capture import side_effects
from ..overrides.reached import is_left
from ..symbolic.expressions import SYMBOLIC
from .reach import Reach

_MISSING = object()


class Outside:
    """Notes what was reached from a module and is not its own."""

    def __init__(self, reach: Reach):
        own = {id(held) for m in reach.modules for held in (m.__dict__, *m.__dict__.values())}
        # What installed packages keep is their own business.
        own |= reach.foreign
        own |= {id(space) for space, _, _ in reach.globals.values() if is_installed(space)}
        own |= {id(space) for space, name, _ in reach.globals.values() if is_left(name)}
        own |= {space for space, kind in reach.classes.items() if is_left(kind.__module__)}
        self._holders: list[tuple[Any, Any, str]] = [
            (holder, holder.copy(), place)
            for holder, place in (*reach.dicts, *reach.lists, *reach.others)
            if id(holder) not in own
        ]
        spaces = [(space, {*space}, place) for space, place in reach.spaces if id(space) not in own]
        spaces += [
            (space, names, place) for space, place, names in reach.globals.values() if id(space) not in own
        ]
        self._spaces = [
            (space, {name: space[name] for name in names if name in space}, frozenset(space), place)
            for space, names, place in spaces
        ]
        self._classes = reach.classes
        self._cells = [(cell, _content(cell), place) for cell, place in reach.cells]
        self._tensors = [
            (t, t._version, t.detach().clone(), place) for t, place in reach.tensors if _is_small(t)
        ]

    def put_back(self, is_trial: bool = False) -> list[str]:
        """Restores all that was changed since, and names it. New names go where a trace has made
        them, or a trial of the module.
        """
        return list(dict.fromkeys(self._put_back(is_trial)))

    def take_out_fakes(self) -> list[str]:
        """Takes out what a trace computed, and names where: other threads may have written too."""
        found = []
        for holder, then, place in self._holders:
            if side_effects.is_other(holder, then) and any(map(_is_fake, _values(holder))):
                _refill(holder, _without_fakes(holder, then))
                found.append(place)
        for space, then, known, place in self._spaces:
            for name, value in then.items():
                if _is_fake(space.get(name)):
                    self._restore(space, name, value)
                    found.append(f"{place}.{name}")
            found += self._take_out_new(space, known, place)
        for cell, then, place in self._cells:
            if _is_fake(_content(cell)):
                cell.cell_contents = then
                found.append(place)
        return found

    def _take_out_new(
        self, space: dict, known: frozenset, place: str, is_trial: bool = False
    ) -> Iterator[str]:
        """Takes out names that a trace has added, or all that were added."""
        new = [name for name in space if name not in known and (is_trial or _holds_fakes(space[name]))]
        for name in new:
            if (kind := self._classes.get(id(space))) is not None:
                type.__delattr__(kind, name)
            else:
                del space[name]
            yield f"{place}.{name}"

    def _restore(self, space: dict, name: str, value: Any) -> None:
        if (kind := self._classes.get(id(space))) is not None:
            type.__setattr__(kind, name, value)
        else:
            space[name] = value

    def _put_back(self, is_trial: bool) -> Iterator[str]:
        for holder, then, place in self._holders:
            if side_effects.is_other(holder, then):
                _refill(holder, then)
                yield place
        for space, then, known, place in self._spaces:
            for name, value in then.items():
                if space.get(name, _MISSING) is not value:
                    self._restore(space, name, value)
                    yield f"{place}.{name}"
            yield from self._take_out_new(space, known, place, is_trial)
        for cell, then, place in self._cells:
            if _content(cell) is not then:
                if then is _MISSING:
                    del cell.cell_contents
                else:
                    cell.cell_contents = then
                yield place
        for t, version, then, place in self._tensors:
            if t._version != version:
                with torch.no_grad():
                    t.copy_(then)
                yield place


def refuse_written(
    module: torch.nn.Module, make: Callable[[], Outside], run: Callable[[], Any], written: list[str]
) -> None:
    """Refuses a module whose every call writes to what lives outside of it; ``written`` is what a
    trace wrote. ``run`` calls the module on the example, and ``make`` notes what is outside.
    """
    before = make()
    try:
        with side_effects.as_it_was(module):
            side_effects.copied(module, [name for name, _ in module.named_buffers()])
            run()
            between = make()
            run()
            kept = between.put_back(is_trial=True)
    except Exception:
        # Errors on the example are reported by the capture.
        kept = written
    finally:
        before.put_back(is_trial=True)
    if kept:
        raise refusal(module, kept)


def refusal(module: torch.nn.Module, written: list[str]) -> Error:
    """The error for a module that writes to what lives outside of it."""
    return Error(
        f"{type(module).__name__} writes to what lives outside of it in every call: {', '.join(written[:4])}",
        code="E0405",
        help="return it as a result: calls of compiled code would not write it",
    )


def _is_fake(value: Any) -> bool:
    return isinstance(value, (torch._subclasses.FakeTensor, *SYMBOLIC))


def _holds_fakes(value: Any) -> bool:
    return _is_fake(value) or (isinstance(value, (list, tuple)) and any(map(_is_fake, value)))


def _values(holder: Any) -> list[Any]:
    return list(holder.values() if isinstance(holder, dict) else holder)


def _without_fakes(holder: Any, then: Any) -> Any:
    """The contents of a container besides fakes; a dict has again what it had under their keys."""
    if not isinstance(holder, dict):
        return type(then)(x for x in holder if not _is_fake(x))
    kept = {key: value for key, value in holder.items() if not _is_fake(value)}
    return {**{key: then[key] for key in holder if key in then}, **kept}


def _refill(holder: Any, then: Any) -> None:
    if isinstance(holder, list):
        holder[:] = then
        return
    holder.clear()
    (holder.extend if isinstance(holder, collections.deque) else holder.update)(then)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _is_small(t: torch.Tensor) -> bool:
    return not t.is_inference() and t.layout is torch.strided and t.numel() <= 1 << 20
