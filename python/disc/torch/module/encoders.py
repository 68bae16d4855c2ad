"""Compiles the encoders that a method of a compiled module gets by ``get_encoder``, as ``generate``
of transformers does, and calls by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ...core.options import Options
from ...core.report import Compiled


class Encoders:
    """The encoders of one module that were asked for; each is compiled when it is called."""

    def __init__(self, options: Options, make: Callable):
        # Nobody gives examples of their calls, which any form of call has to do without.
        self._options = replace(options, fallback="framework")
        self._make = make
        self._held: list[Any] = []

    def compiled(self, found: Any, whole: torch.nn.Module) -> Any:
        """The stand-in of an encoder; ``found`` itself where it is none, or compiled already."""
        if not isinstance(found, torch.nn.Module) or isinstance(found, Compiled) or found is whole:
            return found
        made = next((one for one in self._held if one.original is found), None)
        if made is None:
            made = self._make(found, None, self._options)
            self._held.append(made)
        elif made.training is not found.training:
            made.train(found.training)
        return made

    def refresh(self) -> None:
        for made in self._held:
            made.refresh()

    def forget(self) -> None:
        """Drops what was compiled: it is compiled anew when it is asked for."""
        self._held.clear()

    def contains(self, code: Any) -> bool:
        return any(made.original is code for made in self._held)

    def executables(self) -> list[Any]:
        return [executable for made in self._held for executable in made.executables()]

    def add_to(self, report: dict[str, Any]) -> dict[str, Any]:
        """Adds the encoders that were called to the report of the whole."""
        report["encoders"] = []
        for made in self._held:
            values = made.report_values()
            if not values["signatures"]:
                continue
            for name in ("compiles", "cache_hits"):
                report[name] += values[name]
            report["fallbacks"] += values["fallbacks"]
            shown = ("captured_by", "operations", "kernels", "coverage", "calls")
            report["encoders"].append(
                {"name": type(made.original).__name__, **{name: values.get(name, 0) for name in shown}}
            )
        return report
