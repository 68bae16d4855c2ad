"""Shows the stage of ``disc.optimize`` on one line of a terminal, which goes away when it is done.

Nothing is written where standard error is no terminal, with ``Options(progress=False)`` or with
``DISC_PROGRESS=0``.
"""

from __future__ import annotations

import sys
import time

from . import environment
from .options import Options


class Progress:
    """The stages of one compilation:
    ``with Progress(options, name) as stage: stage("capture")``.
    """

    def __init__(self, options: Options, name: str):
        self._stream = sys.stderr
        self._name = name
        terminal = getattr(self._stream, "isatty", lambda: False)()
        self._shown = bool(options.progress) and terminal and environment.switch("DISC_PROGRESS")
        self._start = time.perf_counter()

    def __enter__(self):
        return self._stage

    def _stage(self, text: str) -> None:
        if self._shown:
            self._stream.write(
                f"\r\x1b[Kdisc: {self._name}: {text} ({time.perf_counter() - self._start:.1f} s)"
            )
            self._stream.flush()

    def __exit__(self, *exc) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
