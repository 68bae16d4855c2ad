"""Writes the record of a run into ``benches/records``: JSON for programs, text for readers."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import machine

FOLDER = Path(__file__).parent / "records"


class Record:
    """The machine as it was before the run, and the moment that names the files."""

    def __init__(self, command: str):
        self.command = command
        self.machine, self.reasons = machine.describe(), machine.noise()
        self.stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d-%H%M%S")

    def head(self) -> list[str]:
        """The first lines of the text."""
        about = self.machine
        return [
            self.command,
            f"{about['cpu']} ({', '.join(about['flags'])}), {about['cores']} cores",
            ", ".join(f"{name} {version}" for name, version in about["packages"].items()),
            *(f"not quiet: {reason}" for reason in self.reasons),
        ]

    def save(self, suite: str, results: list, lines: list[str]) -> None:
        """Writes the results of a suite."""
        contents = {
            "command": self.command,
            "time": self.stamp,
            "machine": self.machine,
            "not_quiet": self.reasons,
            "results": results,
        }
        FOLDER.mkdir(exist_ok=True)
        path = FOLDER / f"{suite}-{self.stamp}"
        path.with_suffix(".json").write_text(json.dumps(contents, indent=1) + "\n", encoding="utf-8")
        path.with_suffix(".txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
