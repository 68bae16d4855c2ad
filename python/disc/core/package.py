"""The cache on disk."""

from __future__ import annotations


def clear_cache() -> int:
    """Removes what earlier compilations left on disk (in ``DISC_CACHE_DIR``).

    Returns:
        The number of entries that went.
    """
    from . import environment, extension

    environment.check()
    directory = extension.cache_directory()
    return 0 if directory is None else extension.cache_clear(directory)
