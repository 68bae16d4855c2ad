"""Keeps what the thread at hand logs out of some loggers."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator

from .registry import is_active, overridden


class _Silence(logging.Filter):
    """Drops what the thread logs."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not is_active("quiet")


@contextlib.contextmanager
def silenced(names: Iterable[str]) -> Iterator[None]:
    """Within it loggers, but not those below them, drop what this thread logs."""
    loggers = [logging.getLogger(name) for name in names]
    silence = _Silence()
    for logger in loggers:
        logger.addFilter(silence)
    try:
        with overridden("quiet"):
            yield
    finally:
        for logger in loggers:
            logger.removeFilter(silence)
