"""Reads skips.txt: which tests are about the insides of Inductor, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

FILE = Path(__file__).with_name("skips.txt")


@dataclass(frozen=True)
class Skips:
    """Patterns of test names and of the source of tests, each with its reason."""

    names: tuple[tuple[str, str], ...]
    sources: tuple[tuple[re.Pattern, str], ...]

    @staticmethod
    def read() -> Skips:
        names, sources = [], []
        for line in FILE.read_text().splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            rule, reason = (part.strip() for part in line.split(" -- ", 1))
            kind, pattern = rule.split(None, 1)
            if kind == "test":
                names.append((pattern, reason))
            elif kind == "source":
                sources.append((re.compile(pattern), reason))
            else:
                raise ValueError(f"{FILE.name}: a rule begins with `test` or `source`, not {kind!r}")
        return Skips(tuple(names), tuple(sources))

    def reason(self, name: str, source: str) -> str | None:
        """Why a test is skipped, or None."""
        for pattern, reason in self.names:
            if fnmatch(name, pattern):
                return reason
        for pattern, reason in self.sources:
            if pattern.search(source):
                return reason
        return None
