"""Runs work in a forked process under a limit, for scripts that must outlive what they try."""

from __future__ import annotations

import functools
import gc
import importlib
import json
import multiprocessing
import os
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Callable

import torch
import transformers


def run(work: Callable[[], dict], limit: float) -> dict:
    """The row that ``work`` gives in a process that is ended after ``limit`` seconds of CPU time; a
    row with an error, if it gives none.
    """
    _import_ahead()
    context = multiprocessing.get_context("fork")
    theirs, ours = context.Pipe()
    child = context.Process(target=_child, args=(work, int(limit), ours))
    start = time.perf_counter()
    child.start()
    ours.close()
    try:
        row = theirs.recv() if theirs.poll(10 * limit) else None
    except EOFError:
        row = None
    child.join(10)
    if child.is_alive():
        child.kill()
        child.join()
    if row is None:
        row = {"kind": "error", "note": _end(child.exitcode, limit)}
    return {**row, "seconds": round(time.perf_counter() - start, 1)}


def _end(code: int, limit: float) -> str:
    """The words for a process that ended without a row."""
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"no end after {limit:.0f} s"
    return f"it died of {signal.Signals(-code).name}" if code < 0 else f"it ended with {code}"


def noted(row: dict, path: str | None) -> dict:
    """Prints a row as a line of JSON, and adds it to a file."""
    line = json.dumps(row)
    print(line, flush=True)
    if path is not None:
        with open(path, "a") as out:
            out.write(line + "\n")
    return row


def words(error: Exception) -> str:
    """An error in one line, with the place that raised it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return f"{text} ({os.path.basename(place.filename)}:{place.lineno})"


@functools.cache
def _import_ahead() -> None:
    """Imports what all models need before the first process is forked."""
    for name in ("export", "_dynamo", "_inductor.config"):
        importlib.import_module(f"torch.{name}")
    for name in (
        "capture.capture",
        "capture.by_export",
        "lowering.graph",
        "tracer.tracer",
        "partition.program",
        "compile.backend",
        "compile.inference",
    ):
        importlib.import_module(f"disc.torch.{name}")
    _ = transformers.BertModel, transformers.ViTModel, transformers.LlamaModel
    # Dynamo imports more when it is used first.
    with torch.no_grad():
        torch.compile(torch.nn.Linear(2, 2), backend="eager", dynamic=True)(torch.ones(3, 2))
    torch._dynamo.reset()
    gc.freeze()


def _child(work: Callable[[], dict], limit: int, pipe) -> None:
    used = int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + limit, used + 2 * limit))
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    # Capture makes many small objects that live.
    gc.set_threshold(50_000)
    try:
        row = work()
    except Exception as error:
        row = {"kind": "error", "note": words(error)}
    pipe.send(row)
