"""Words why PyTorch runs a graph."""

from __future__ import annotations

from ...core.errors import Error


def worded(error: Exception) -> tuple[str, str | None]:
    """The reason why PyTorch runs a graph, and the op that is to blame, if it is one."""
    if not isinstance(error, Error):
        return f"{type(error).__name__}: {error}", None
    return (error.message if error.op is None else error.message.splitlines()[-1].strip()), error.op
