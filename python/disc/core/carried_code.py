"""Packs compiled code into bytes that another process loads without compiling.

The bytes are the files of a cache on disk that has this one entry, and whatever the cache checks of
an entry is checked: code for another processor, of another build or with damage is compiled again.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import extension
from .options import Options

#: Larger programs are compiled again.
_MOST_BYTES = 64 << 20


def pack(text: str, options: Options, threads: int | None, cache: str | None) -> dict[str, bytes]:
    """The code of a program as files; none if it has no form on disk.

    It is compiled if ``cache``, the user's cache on disk, does not have it.
    """
    if len(text) > _MOST_BYTES:
        return {}
    with tempfile.TemporaryDirectory(prefix="disc-") as folder:
        for path in _asked(text, options, threads, cache) if cache is not None else ():
            copy = Path(folder, path.relative_to(cache))
            copy.parent.mkdir(mode=0o700, exist_ok=True)
            copy.write_bytes(path.read_bytes())
            # A cache notes when an entry is used: what is not asked for here keeps this time.
            os.utime(copy, (0, 0))
        _compile(text, options, threads, folder)
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path, changed in _files(folder).items()
            if changed
        }


def unpack(text: str, options: Options, threads: int | None, files: dict[str, bytes]):
    """The artifact of a program whose code is in ``files``; compiled if that does not fit."""
    with tempfile.TemporaryDirectory(prefix="disc-") as folder:
        for name, contents in files.items():
            path = Path(folder, name)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            path.write_bytes(contents)
        return _compile(text, options, threads, folder)


def _compile(text: str, options: Options, threads: int | None, folder: str):
    # Prepared weights do not go into this folder.
    return extension.compile_function(text, dataclasses.replace(options, cache=False), threads, folder)


def _asked(text: str, options: Options, threads: int | None, cache: str) -> Iterator[Path]:
    """The entry of a program in the user's cache, and those that others used meanwhile."""
    before = _files(cache)
    _compile(text, options, threads, cache)
    for path, changed in _files(cache).items():
        if path.parent.name == "code" and before.get(path) != changed:
            yield path


def _files(folder: str) -> dict[Path, int]:
    """The entries in a folder, and when each was used."""
    found = {}
    for path in Path(folder).glob("*/*"):
        # Another process may remove it.
        try:
            found[path] = path.stat().st_mtime_ns
        except OSError:
            continue
    return found
