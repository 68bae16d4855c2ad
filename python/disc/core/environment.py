"""The environment variables that have few values; a value that is none of theirs is an error."""

from __future__ import annotations

import os
import re

from .errors import Error

#: Read by ``switch``; the others of docs/guide/settings.md are read where they count.
SWITCHES = (
    "DISC_CACHE",
    "DISC_CACHE_WEIGHTS",
    "DISC_CUDA_GRAPHS",
    "DISC_CUDA_PDL",
    "DISC_LIBRARY_RULES",
    "DISC_PROGRESS",
    "DISC_SPECIALIZE",
)
_VERIFY = "verify"
#: A level, or levels for parts of disc; a part alone would be logged in full.
_LOG = re.compile(r"(\w+(::\w+)*=)?(off|error|warn|info|debug|trace|[0-5])", re.IGNORECASE)


def switch(name: str) -> bool:
    """Returns true unless the variable is ``0``."""
    value = os.environ.get(name, "")
    if value not in ("", "0", "1") and (name, value) != ("DISC_CACHE", _VERIFY):
        expected = "0, 1 or verify" if name == "DISC_CACHE" else "0 or 1"
        raise Error(f"{name} is {value!r}, expected {expected}")
    return value != "0"


def verifies_cache() -> bool:
    """Returns true if what the cache gives is compared with a new capture."""
    return os.environ.get("DISC_CACHE") == _VERIFY


def check() -> None:
    """Raises for a switch that has a value of its own, and for a log that has no levels."""
    for name in SWITCHES:
        switch(name)
    checks = os.environ.get("DISC_CHECK", "")
    if checks not in ("", "late", "sync"):
        raise Error(f"DISC_CHECK is {checks!r}, expected late or sync")
    log = os.environ.get("DISC_LOG", "")
    if log and not all(_LOG.fullmatch(part.strip()) for part in log.split(",")):
        raise Error(
            f"DISC_LOG is {log!r}, expected a level such as debug, or levels such as disc_passes=debug"
        )
