"""Writes the record of a command after each part of it, so that nothing is lost with the rest."""

from __future__ import annotations

import datetime
import json
import os
import re
import shlex
from pathlib import Path

import machine

from . import tables

SUFFIXES = (".json", ".txt")


class Ledger:
    """A record that grows: JSON for programs, and the same as a table for readers."""

    def __init__(self, command: str, arguments: list[str], folder: Path):
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d-%H%M%S")
        self._stem, self._stamp, self._folder = f"gpu-{command}", stamp, folder
        self._saved: Path | None = None
        self.contents: dict = {
            "command": shlex.join(["benches/gpu/run.py", *arguments]),
            "kind": command,
            "time": stamp,
            "state": "running",
            "machine": machine.describe(),
            "not_quiet": machine.noise(),
            "device": None,
            "ceilings": None,
            "parts": {},
            "results": [],
            "left": [],
        }

    @property
    def path(self) -> Path:
        """The files without their suffixes; the name of the card is in it once that is known."""
        device = self.contents["device"] or {}
        card = re.sub(r"[^a-z0-9]+", "-", device.get("card", "").split(":")[0].lower()).strip("-")
        return self._folder / "-".join(filter(None, (self._stem, card, self._stamp)))

    def save(self) -> None:
        """Writes the record; a reader never sees half of it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._saved is not None and self._saved != self.path:
            for suffix in SUFFIXES:
                self._saved.with_name(self._saved.name + suffix).unlink(missing_ok=True)
        self._saved = self.path
        text = json.dumps(self.contents, indent=1) + "\n"
        for suffix, written in zip(SUFFIXES, (text, tables.text(self.contents) + "\n"), strict=True):
            path = self.path.with_name(self.path.name + suffix)
            new = path.with_name(path.name + ".new")
            new.write_text(written, encoding="utf-8")
            os.replace(new, path)

    def add(self, row: dict) -> None:
        self.contents["results"].append(row)
        self.save()

    def part(self, name: str, contents: dict) -> None:
        self.contents["parts"][name] = contents
        self.save()

    def end(self) -> None:
        """Marks the record as one that nothing more is written to."""
        state = "out of time" if self.contents["left"] else "complete"
        self.contents["state"] = state if self.contents["device"] else "no device"
        self.save()
