"""Finds the line of the model that led to a node of a graph."""

from __future__ import annotations

import os
import re

from ..symbolic.source_lines import DISC, TORCH

#: Frames of these are not the model's: torch, disc, and code that torch made.
_FRAMEWORK = (TORCH, DISC, "<eval_with_key>")


def source_line(node) -> str | None:
    """The innermost line of the model that made the node, as ``file:line``."""
    places = _places(node)
    own = [p for p in places if not p[0].startswith(_FRAMEWORK)] or places
    return f"{os.path.basename(own[-1][0])}:{own[-1][1]}" if own else None


def _places(node) -> list[tuple[str, int]]:
    """File and line of each frame that led to the node, the innermost last."""
    if (trace := node.meta.get("trace")) is not None:
        return [(frame.filename, frame.lineno) for frame in trace.summary()]
    text = node.meta.get("stack_trace") or ""
    return [(m[1], int(m[2])) for m in re.finditer(r'^\s*File "(.*)", line (\d+)', text, re.MULTILINE)]
