"""The environment variables that are switches; a value that is none of theirs is an error."""

from __future__ import annotations

import os

from ._errors import Error

#: Read by ``switch``; the others of docs/guide/settings.md are read where they count.
SWITCHES = ("DISC_PROGRESS", "DISC_SPECIALIZE")


def switch(name: str) -> bool:
    """Whether the variable is not ``0``."""
    value = os.environ.get(name, "")
    if value not in ("", "0", "1"):
        raise Error(f"{name} is {value!r}, expected 0 or 1")
    return value != "0"


def check() -> None:
    """Raises for a switch that has a value of its own."""
    for name in SWITCHES:
        switch(name)
