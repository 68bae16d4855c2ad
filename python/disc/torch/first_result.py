"""Times the first result of a model that ``torch.export.save`` wrote, for ``disc bench --start``.

``python -m disc.torch.first_result FILE`` prints one line of JSON: the tree of stages as text, and
the milliseconds of ``optimize``, of two calls and of an eager call.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
from collections.abc import Iterator
from typing import Any

from ..core.errors import Error


def first_result(path: str) -> dict[str, Any]:
    """Compiles the model in a file without the cache, and calls it; raises ``disc.Error``."""
    try:
        import torch
    except ImportError as error:
        raise Error(
            f"{path} is a model of torch, and {sys.executable} cannot import it: {error}",
            help="pip install torch, or let DISC_PYTHON name an interpreter that has it",
        ) from error
    from ..core.options import Options
    from .module.optimize import optimize
    from .saved_file import exported

    model = exported(path)
    milliseconds: dict[str, float] = {}
    with torch.no_grad():
        model.module(*model.args, **model.kwargs)
        with _timed("eager call", milliseconds):
            model.module(*model.args, **model.kwargs)
        with _trees() as trees, _timed("optimize", milliseconds):
            fast = optimize(model.module, model.args, kwargs=model.kwargs, options=Options(cache=False))
        for name in ("first call", "second call"):
            with _timed(name, milliseconds):
                fast(*model.args, **model.kwargs)
    return {"tree": "\n".join(trees), "milliseconds": milliseconds}


@contextlib.contextmanager
def _trees() -> Iterator[list[str]]:
    """Collects the trees of stages that are logged."""
    logger, found = logging.getLogger("disc.compile"), []
    handler = logging.Handler(logging.DEBUG)
    handler.addFilter(lambda record: record.getMessage().startswith("stage "))
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield found
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _timed:
    """Notes the milliseconds of a block under a name."""

    def __init__(self, name: str, into: dict[str, float]):
        self._name, self._into = name, into

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._into[self._name] = (time.perf_counter() - self._start) * 1e3


def main() -> int:
    reply: dict[str, Any] = {"error": None}
    try:
        reply |= first_result(sys.argv[1])
    except Error as error:
        reply["error"] = {
            "code": error.code, "message": error.message, "op": error.op, "help": error.help,
        }  # fmt: skip
    except Exception as error:
        reply["error"] = {
            "code": "E0906", "message": f"{type(error).__name__}: {error}", "op": None, "help": None,
        }  # fmt: skip
    print(json.dumps(reply), flush=True)
    return 0 if reply["error"] is None else 1


if __name__ == "__main__":
    sys.exit(main())
