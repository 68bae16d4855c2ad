"""Shows the stage of ``disc.optimize`` on one line of a terminal, which goes away when it is done.

Nothing is written where standard error is no terminal, with ``Options(progress=False)`` or with
``DISC_PROGRESS=0``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from . import environment
from .options import Options


class Progress:
    """The stages of one compilation:
    ``with Progress(options, name) as stage: stage("capture")``.
    """

    def __init__(self, options: Options, name: str):
        self._name = name
        self._line = None
        terminal = getattr(sys.stderr, "isatty", lambda: False)()
        if options.progress and terminal and environment.switch("DISC_PROGRESS"):
            self._line = _line()

    def __enter__(self) -> Callable[[str], None]:
        if self._line is None:
            return lambda text: None
        self._line.start()
        task = self._line.add_task(f"disc: {self._name}")
        return lambda text: self._line.update(task, description=f"disc: {self._name}: {text}", refresh=True)

    def __exit__(self, *exc) -> None:
        if self._line is not None:
            self._line.stop()


def _line():
    """A line of Rich; None without it."""
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        return None
    columns = (
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        progress.TimeElapsedColumn(),
    )
    # The streams of the process stay as they are.
    return progress.Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
