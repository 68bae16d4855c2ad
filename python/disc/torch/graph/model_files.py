"""Names the files of the model in programs, and finds lines again in files that were edited."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

#: The model's source line of an op, in the text of a program.
_LOCATION = re.compile(r' loc\("((?:[^"\\]|\\.)*)":(\d+)( "(?:[^"\\]|\\.)*")?\)$', re.MULTILINE)
_PACKAGES = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class _Text:
    """The text of a line, and its place among the lines of its file that have this text."""

    text: str
    place: int
    count: int


@dataclass(frozen=True)
class _Kept:
    """A file when a program was stored: its state, and the lines that the program has."""

    path: str
    state: tuple[int, int] | None
    lines: dict[int, _Text]


@dataclass
class Files:
    """The files of the model whose lines a program has: full paths by shown ones."""

    paths: dict[str, str] = field(default_factory=dict)
    _shown: dict[str, str] = field(default_factory=dict)

    def shown(self, path: str) -> str:
        """The path of a file within the working directory, or its last two parts."""
        if (known := self._shown.get(path)) is None:
            known = self._shown[path] = _short(path)
            self.paths.setdefault(known, path)
        return known

    def kept(self, text: str) -> dict[str, _Kept]:
        """The form that is stored with the text of a program."""
        numbers: dict[str, set[int]] = {}
        for shown, number, _ in _LOCATION.findall(text):
            numbers.setdefault(shown, set()).add(int(number))
        return {
            shown: _keep(self.paths[shown], found) for shown, found in numbers.items() if shown in self.paths
        }


def without_lines(text: str) -> str:
    """The text of a program without lines of the model."""
    return _LOCATION.sub("", text)


def moved(text: str, files: dict[str, _Kept]) -> str:
    """The text of a stored program with the lines where they are now: an edit may have moved them.

    A line that is not found again is left out. The code of the op is the same: the key of a stored
    program covers that.
    """
    changed = {
        shown: kept for shown, kept in files.items() if kept.state is None or kept.state != _state(kept.path)
    }
    if not changed:
        return text
    now = {shown: _numbers(kept) for shown, kept in changed.items()}

    def place(match: re.Match[str]) -> str:
        shown, number, function = match.groups()
        if shown not in now:
            return match[0]
        found = now[shown].get(int(number))
        return f' loc("{shown}":{found}{function or ""})' if found is not None else ""

    return _LOCATION.sub(place, text)


def _short(path: str) -> str:
    parts = Path(path).parts
    if not parts or not os.path.isabs(path):
        return path
    inside = os.path.relpath(path)
    if not inside.startswith(os.pardir) and not any(part in _PACKAGES for part in parts):
        return inside
    return os.path.join(*parts[-2:]) if len(parts) > 2 else parts[-1]


def _keep(path: str, numbers: set[int]) -> _Kept:
    state, lines = _state(path), _read(path)
    found = {}
    for number in sorted(numbers):
        if 0 < number <= len(lines):
            text = lines[number - 1]
            found[number] = _Text(text, lines[: number - 1].count(text), lines.count(text))
    return _Kept(path, state, found)


def _numbers(kept: _Kept) -> dict[int, int]:
    """The present numbers of the lines of a file by those that they had."""
    places: dict[str, list[int]] = {}
    for number, text in enumerate(_read(kept.path), 1):
        places.setdefault(text, []).append(number)
    found = ((number, line, places.get(line.text, [])) for number, line in kept.lines.items())
    return {number: all_[line.place] for number, line, all_ in found if len(all_) == line.count}


def _state(path: str) -> tuple[int, int] | None:
    """Time and size of a file; None if there is none, such as for a cell of a notebook."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _read(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return [line.strip() for line in file]
    except OSError:
        return []
