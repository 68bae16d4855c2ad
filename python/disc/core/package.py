"""Packages, which do not exist yet (each function says so, and does nothing else),
and the cache on disk.
"""

from __future__ import annotations

from .errors import Error


def _missing(what: str) -> Error:
    return Error(f"{what} is not available in this version", code="E0801", help="see ROADMAP.md")


def export(*args, **kwargs):
    """Will write a package that runs without Python. Not available yet: raises disc.Error."""
    raise _missing("disc.export")


def load(path):
    """Will open a package. Not available yet: raises disc.Error."""
    raise _missing("disc.load")


def save(module, path):
    """Will save a compiled module. Not available yet: raises disc.Error."""
    raise _missing("disc.save")


def clear_cache() -> int:
    """Removes what earlier compilations left on disk (in ``DISC_CACHE_DIR``),
    and returns how many entries went.
    """
    from . import environment, extension

    environment.check()
    directory = extension.cache_directory()
    return 0 if directory is None else extension.cache_clear(directory)
