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
from ..capture import side_effects
from .reach import Reach

_MISSING = object()


class Outside:
    """Notes what was reached from a module and is not its own."""

    def __init__(self, reach: Reach):
        own = {id(held) for m in reach.modules for held in (m.__dict__, *m.__dict__.values())}
        self._holders: list[tuple[Any, Any, str]] = [
            (holder, holder.copy(), place)
            for holder, place in (*reach.dicts, *reach.lists, *reach.others)
            if id(holder) not in own
        ]
        spaces = [(space, {*space}, place) for space, place in reach.spaces if id(space) not in own]
        spaces += [(space, names, place) for space, place, names in reach.globals.values()]
        self._spaces = [
            (space, {name: space[name] for name in names if name in space}, place)
            for space, names, place in spaces
        ]
        self._classes = reach.classes
        self._cells = [(cell, _content(cell), place) for cell, place in reach.cells]
        self._tensors = [
            (t, t._version, t.detach().clone(), place) for t, place in reach.tensors if _is_small(t)
        ]

    def put_back(self) -> list[str]:
        """Restores all that was changed since, and names it."""
        return list(dict.fromkeys(self._put_back()))

    def _put_back(self) -> Iterator[str]:
        for holder, then, place in self._holders:
            if side_effects.is_other(holder, then):
                _refill(holder, then)
                yield place
        for space, then, place in self._spaces:
            for name, value in then.items():
                if space.get(name, _MISSING) is not value:
                    if (kind := self._classes.get(id(space))) is not None:
                        type.__setattr__(kind, name, value)
                    else:
                        space[name] = value
                    yield f"{place}.{name}"
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
            kept = between.put_back()
    except Exception:
        # Errors on the example are reported by the capture.
        kept = written
    finally:
        before.put_back()
    if kept:
        raise Error(
            f"{type(module).__name__} writes to what lives outside of it in every call: {', '.join(kept[:4])}",
            code="E0405",
            help="return it as a result: calls of compiled code would not write it",
        )


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
