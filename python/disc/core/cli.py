"""The scripts ``disc`` and ``disc-opt`` that the wheel installs.

They are the binaries of the same names, as functions of the extension module: a second and a third
copy of LLVM in the wheel would triple its size.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from .. import _disc


def disc() -> int:
    """Run ``disc`` with the arguments of this process; the result is the exit status."""
    return _run(_disc.main_disc)


def disc_opt() -> int:
    """Run ``disc-opt`` with the arguments of this process; the result is the exit status."""
    return _run(_disc.main_disc_opt)


def _run(main: Callable[[list[str]], int]) -> int:
    # As in the binaries, Ctrl-C ends the program at once: Python would wait until the Rust code
    # returns.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Models of torch are compiled by this interpreter, unless the user names another.
    os.environ.setdefault("DISC_PYTHON", sys.executable)
    return main(sys.argv)
