"""Times the stages of a compilation as a tree, which the logger ``disc.compile`` has at its debug
level.

Each stage has its wall time and the processor time of its thread; LLVM's threads are in the wall
time of the stage that waits for them. A stage that is entered again adds to the first one.

Invariant: without a tree that is being made, a stage costs one look.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

_HELD = threading.local()


@dataclass
class Stage:
    """A stage with its parts, in seconds."""

    name: str
    wall: float = 0.0
    processor: float = 0.0
    times: int = 0
    parts: dict[str, Stage] = field(default_factory=dict)

    def part(self, name: str) -> Stage:
        """The part of this name, made if it is not there."""
        return self.parts.setdefault(name, Stage(name))

    def lines(self, depth: int = 0) -> Iterator[str]:
        """This stage and its parts, a line each: milliseconds of wall and processor time."""
        name = "  " * depth + self.name + (f" ({self.times} times)" if self.times > 1 else "")
        processor = f"{self.processor * 1e3:9.1f}" if self.processor else ""
        yield f"{name:<44}{self.wall * 1e3:9.1f}{processor}"
        for part in self.parts.values():
            yield from part.lines(depth + 1)

    def __str__(self) -> str:
        return "\n".join((f"{'stage':<44}{'wall, ms':>9}{'cpu, ms':>9}", *self.lines()))


@contextlib.contextmanager
def tree(name: str) -> Iterator[Stage]:
    """Makes a tree of the stages that this thread enters within."""
    outer, root = getattr(_HELD, "stage", None), Stage(name)
    _HELD.stage = root
    try:
        with _timed(root):
            yield root
    finally:
        _HELD.stage = outer


@contextlib.contextmanager
def stage(name: str) -> Iterator[None]:
    """Times a stage of the tree that is being made, if there is one; also decorates functions."""
    outer = getattr(_HELD, "stage", None)
    if outer is None:
        yield
        return
    _HELD.stage = inner = outer.part(name)
    try:
        with _timed(inner):
            yield
    finally:
        _HELD.stage = outer


def note(*names: str, milliseconds: float) -> None:
    """Adds to a part of the present stage, or to a part of a part, what somebody else has timed."""
    one = getattr(_HELD, "stage", None)
    if one is None:
        return
    for name in names:
        one = one.part(name)
    one.wall += milliseconds / 1e3
    one.times += 1


@contextlib.contextmanager
def _timed(one: Stage) -> Iterator[None]:
    wall, processor = time.perf_counter(), time.thread_time()
    try:
        yield
    finally:
        one.wall += time.perf_counter() - wall
        one.processor += time.thread_time() - processor
        one.times += 1
