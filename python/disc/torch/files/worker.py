"""Answers the command line, which runs Python for what needs torch: one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ...core.errors import Error


def answer(work: Callable[[], dict[str, Any]]) -> int:
    """Prints what ``work`` returns, with ``"error": null``, or the error with its code; returns the
    status of the process.
    """
    reply: dict[str, Any] = {"error": None}
    try:
        reply |= work()
    except Error as error:
        reply["error"] = {
            "code": error.code, "message": error.message, "op": error.op, "help": error.help,
        }  # fmt: skip
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        reply["error"] = {"code": "E0906", "message": message, "op": None, "help": None}
    print(json.dumps(reply), flush=True)
    return 0 if reply["error"] is None else 1


def require_torch(path: str, python: str) -> None:
    """Raises for a model in ``path`` that an interpreter without torch is asked about."""
    try:
        import torch  # noqa: F401 - the error says what to do
    except ImportError as error:
        raise Error(
            f"{path} is a model of torch, and {python} cannot import it: {error}",
            help="pip install torch, or let DISC_PYTHON name an interpreter that has it",
        ) from error
