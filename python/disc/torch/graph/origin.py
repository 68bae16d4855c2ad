"""Finds the line of the model that led to a node of a graph."""

from __future__ import annotations

import functools
import itertools
import os
import re
import sys
from types import FrameType

from ..symbolic.source_lines import DISC, TORCH

#: Frames of these are not the model's: torch, disc, and code that torch made.
_FRAMEWORK = (TORCH, DISC, "<eval_with_key>")
#: Frames outside of these are those of whoever compiles the model.
_CAPTURE = os.path.join(DISC, "torch", "capture", "")

#: A file, a line of it, and the function that the line is in.
Line = tuple[str, int, str]


def source_line(node) -> str | None:
    """The innermost line of the model that made the node, as ``file:line``."""
    lines = _lines(node)
    own = [line for line in lines if _is_own(line[0])] or lines
    return f"{os.path.basename(own[-1][0])}:{own[-1][1]}" if own else None


def model_line(node) -> Line | None:
    """The innermost line of the model that made the node; None if it is not known."""
    line = node.meta.get("line")
    return line if line is not None else _innermost(node.meta.get("stack_trace"))


def running_line() -> Line | None:
    """The innermost line of the model that runs now."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_capture(frame.f_code.co_filename):
        code = frame.f_code
        if _is_own(code.co_filename):
            return code.co_filename, frame.f_lineno, code.co_name
        frame = frame.f_back
    return None


@functools.lru_cache(maxsize=4096)
def _is_own(filename: str) -> bool:
    return not filename.startswith(_FRAMEWORK)


@functools.lru_cache(maxsize=4096)
def _is_capture(filename: str) -> bool:
    return filename.startswith(_CAPTURE)


@functools.lru_cache(maxsize=4096)
def _innermost(stack_trace: str | None) -> Line | None:
    lines = itertools.takewhile(lambda line: not _is_capture(line[0]), reversed(_read(stack_trace or "")))
    return next((line for line in lines if _is_own(line[0])), None)


def _lines(node) -> list[Line]:
    """Each frame that led to the node, the innermost last."""
    if (trace := node.meta.get("trace")) is not None:
        return [(frame.filename, frame.lineno, frame.name) for frame in trace.summary()]
    return _read(node.meta.get("stack_trace") or "")


def _read(stack_trace: str) -> list[Line]:
    found = re.finditer(r'^\s*File "(.*)", line (\d+)(?:, in (.*))?', stack_trace, re.MULTILINE)
    return [(m[1], int(m[2]), m[3] or "") for m in found]
