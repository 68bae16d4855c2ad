"""Times the first result of a model that ``torch.export.save`` wrote, for ``disc bench --start``.

``python -m disc.torch.files.first_result FILE`` prints one line of JSON: the tree of stages as
text, and the milliseconds of ``optimize``, of two calls and of an eager call.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Iterator
from typing import Any

from .worker import answer, require_torch


def first_result(path: str) -> dict[str, Any]:
    """Compiles the model in a file without the cache, and calls it; raises ``disc.Error``."""
    require_torch(path, sys.executable)
    import torch

    from ...core.options import Options
    from ..module.optimize import optimize
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


@contextlib.contextmanager
def _timed(name: str, into: dict[str, float]) -> Iterator[None]:
    """Notes the milliseconds of a block under a name."""
    start = time.perf_counter()
    yield
    into[name] = (time.perf_counter() - start) * 1e3


if __name__ == "__main__":
    sys.exit(answer(lambda: first_result(sys.argv[1])))
