"""Runs tasks in a process of its own, one after the other, as lines of JSON say on its input.

Answers are lines of JSON: ``{"at": contestant}`` before a contestant works, ``{"partial": row}``
with what is known so far, and ``{"row": row}`` or ``{"dead": who, "reason": text}`` at the end.
Whatever libraries print goes to standard error.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable

import torch

from .measure import Dead, Measuring, said


def serve() -> int:
    """Answers tasks until the input ends, or the device is lost."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(message: dict) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    for line in sys.stdin:
        task = json.loads(line)
        try:
            with torch.no_grad():
                say({"row": RUNS[task["run"]](task, say)})
        except Dead as dead:
            say({"dead": dead.who, "reason": dead.reason})
            return 1
        except Exception as error:
            say({"row": {**_of(task), "error": said(error)}})
        if not _has_device():
            return 1
        # The next case finds the memory of the device free.
        gc.collect()
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
    return 0


def _end_with(parent: int) -> None:
    """Ends this process when its parent is gone: nobody would read the answer."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _has_device() -> bool:
    """Returns false after an error that leaves this process without its GPU."""
    if not torch.cuda.is_initialized():
        return True
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


def _of(task: dict) -> dict:
    return {name: task[name] for name in ("case", "dtype") if name in task}


def _measure(task: dict, say: Callable[[dict], None]) -> dict:
    from . import memory_cases, model_cases

    suite = {"memory": memory_cases, "models": model_cases}[task["suite"]]
    (case,) = [case for case in suite.cases() if case.name == task["case"]]
    return Measuring(case, task, say).run()


def _card(task: dict, _: Callable[[dict], None]) -> dict:
    from . import card
    from .clock import Clock

    return card.describe(Clock(task["device"]))


def _ceilings(task: dict, _: Callable[[dict], None]) -> dict:
    from . import ceilings
    from .clock import Clock

    return ceilings.measure(Clock(task["device"]))


#: Tasks by the name under ``run``.
RUNS: dict[str, Callable[[dict, Callable], dict]] = {
    "measure": _measure,
    "ceilings": _ceilings,
    "card": _card,
}
