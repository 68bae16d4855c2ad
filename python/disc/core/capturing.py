"""Writes calls of compiled code to files, to be run again anywhere: ``disc.capture``.

``DISC_CAPTURE=DIR`` writes each call that fails. ``disc replay`` runs such a file and compares the
results with those of the interpreter, ``disc reduce`` makes it small.

Not here: what a call consists of; each front end hands it over. A call of a module may run several
programs, which go to a file each.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .errors import Error
from .report import contains

_LOG = logging.getLogger("disc.runtime")
_NUMBERS = itertools.count(1)


class Recording:
    """The calls of one ``disc.capture``."""

    def __init__(self, module: Any, path: Path):
        self.module = module
        self.thread = threading.get_ident()
        self.path = path
        self.calls = 0
        #: Calls of the module that are in progress.
        self.depth = 0

    def next_path(self) -> Path:
        """A file for the next call: ``path``, then ``path`` with a number."""
        self.calls += 1
        if self.calls == 1:
            return self.path
        return self.path.with_name(f"{self.path.stem}-{self.calls}{self.path.suffix}")


#: The recordings of all threads; calls look further only if there is one.
active: list[Recording] = []


@contextlib.contextmanager
def capture(module: Any, path: str | os.PathLike[str]) -> Iterator[Recording]:
    """Writes the calls made inside to files, each with its program, weights, inputs and results.

    Only calls of this thread are written. A call that fails is written too.

    Args:
        module: The result of ``disc.optimize``, or of ``torch.compile`` with this backend.
        path: The file of the first call; a second one goes to ``path`` with ``-2`` after its stem,
            and so on, as do the parts of a module that disc compiles in parts.

    Yields:
        The recording; ``calls`` counts what it wrote.

    Raises:
        disc.Error: No call of compiled code was made in this thread, or there is no such folder.
    """
    recording = Recording(module, Path(path))
    if not recording.path.absolute().parent.is_dir():
        raise Error(f"there is no folder {recording.path.parent}", code="E0700")
    active.append(recording)
    try:
        yield recording
    finally:
        active.remove(recording)
    if not recording.calls:
        raise Error(
            f"no compiled code of this {type(module).__name__} ran in this thread inside of disc.capture",
            code="E0700",
            help="call what disc.optimize or torch.compile returned; each thread has captures of its own",
        )


@contextlib.contextmanager
def call_of(code: Any) -> Iterator[None]:
    """Marks what runs inside as a part of a call of ``code``: the original of a module, or a graph
    that a framework passed on.
    """
    mine = [recording for recording in active if recording.thread == threading.get_ident()]
    held = [r for r in mine if getattr(r.module, "original", None) is code or contains(r.module, code)]
    for recording in held:
        recording.depth += 1
    try:
        yield
    finally:
        for recording in held:
            recording.depth -= 1


def recordings() -> list[Recording]:
    """The recordings that want the compiled code which this thread is about to run."""
    return [r for r in active if r.depth and r.thread == threading.get_ident()]


def write_failed(write: Callable[[Path], None]) -> None:
    """Writes a call that failed, if ``DISC_CAPTURE`` names a folder; ``write`` gets the file.

    A failure to write is logged: it must not hide that of the call.
    """
    folder = os.environ.get("DISC_CAPTURE")
    if not folder:
        return
    path = Path(folder) / f"call-{os.getpid()}-{next(_NUMBERS)}.discap"
    if _is_written(path, write):
        _LOG.warning("the failing call was written to %s", path)


def record_failed(write: Callable[[Path], None]) -> None:
    """Writes a call that failed for those who record it; ``write`` gets each file."""
    for recording in recordings():
        _is_written(recording.next_path(), write)


def _is_written(path: Path, write: Callable[[Path], None]) -> bool:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
    except Exception as error:
        _LOG.warning("the failing call could not be captured: %s", error)
        return False
    return True
