"""Counts the calls that compiled code refused and that torch served instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.errors import Error


@dataclass
class _Refusal:
    """The reason is that of the first call."""

    reason: str
    calls: int = 0


class Refusals:
    """Refused calls, by the fact that they broke."""

    def __init__(self):
        self._held: dict[tuple, _Refusal] = {}

    def note(self, error: Error) -> bool:
        """Counts a call that was refused with ``error``; returns true for the first of its kind."""
        # Messages have the sizes of the call: they would be as many as there are sizes.
        key = (error.code, getattr(error, "fact", None), *(error.dims or ()))
        one = self._held.setdefault(key, _Refusal(error.message))
        one.calls += 1
        return one.calls == 1

    def count(self, reason: str) -> None:
        """Counts a call that nothing of disc looked at."""
        self._held.setdefault((reason,), _Refusal(reason)).calls += 1

    def rows(self) -> list[dict[str, Any]]:
        """Rows of a report's ``fallbacks``."""
        return [
            {"op": "call", "reason": one.reason, "source": None, "calls": one.calls}
            for one in self._held.values()
        ]

    def calls(self) -> int:
        """The calls that were refused."""
        return sum(one.calls for one in self._held.values())

    def __len__(self) -> int:
        return len(self._held)
