"""Notes what a key has of the process beside the module: a key that is made after a capture has to
be that of the moment before it.

What the module reads is watched (``watch.module_watch``), and contents of caches of functions are
noted by who captures (``capture.function_caches``). The rest is here.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from .doubts import SETTINGS, variables
from .fingerprint import environment


@dataclass(frozen=True)
class Surroundings:
    """Settings of the process that code may read, at one moment; two are compared."""

    environment: tuple
    settings: tuple
    variables: dict[str, str]
    arguments: tuple[Any, ...]

    @classmethod
    def now(cls) -> Surroundings:
        settings = tuple(ask() for ask in SETTINGS.values())
        return cls(environment(), settings, variables(), tuple(sys.argv))
