"""Writes programs as text, to show that a change of lowerings leaves them as they were, and for
``cargo xtask same-code -- --programs DIR``.

    benches/programs.py now --sets suites,rows,architectures --jobs 2

Nothing is compiled: the text is the result of capture and bridge for each case, all sizes dynamic.
A case that capture refuses has the error as its text.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from disc.core import extension
from disc.torch.capture.capture import capture
from disc.torch.lowering.graph import convert
from disc.torch.lowering.table import serves

TESTS = Path(__file__).parent.parent / "tests"
#: Folders of tests that programs come from.
FOLDERS = ("support", "torch/lowering")
Case = tuple[str, torch.nn.Module, tuple, dict]


def suites() -> Iterator[Case]:
    """The cases of the suites of ``make bench``."""
    from run import SUITES

    for suite in SUITES:
        for case in importlib.import_module(suite).cases():
            yield f"{suite} {case.name}", case.module, case.inputs(case.sizes[-1]), {}


def rows() -> Iterator[Case]:
    """The rows of the table of torch ops, each in every element type."""
    from test_torch_rows import Call, tensors_of
    from torch_rows import ROWS

    for row in ROWS:
        for dtype in row.dtypes:
            tensors = tensors_of(row, row.bindings[0], dtype)
            yield f"row {row.id} {dtype}", Call(row).eval(), tuple(tensors), {}


def architectures() -> Iterator[Case]:
    """Small models of transformers."""
    from architecture_models import MODELS

    for name, made in MODELS.items():
        try:
            model, calls = made.build().eval(), made.calls()
        except Exception as error:
            print(f"{name}: not built: {error}", file=sys.stderr)
            continue
        given, named = _call(calls[0])
        yield f"model {name}", model, given, named


def _call(call) -> tuple[tuple, dict]:
    if isinstance(call, dict):
        return (), call
    return tuple(call), {}


SETS = {"suites": suites, "rows": rows, "architectures": architectures}


def text(module, inputs: tuple, named: dict) -> str:
    """The program of a module, or the error of its capture."""
    built = extension.builder()
    try:
        with torch.no_grad():
            convert(capture(module, inputs, named or None, serves=serves, may_export=False), built)
    except Exception as error:
        return f"{type(error).__name__}: {error}\n"
    return built.as_text()


def write(folder: Path, chosen: str, part: int, parts: int) -> None:
    """Writes each ``parts``-th program of a set."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for i, (name, module, inputs, named) in enumerate(SETS[chosen]()):
        if i % parts == part:
            stem = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
            (folder / f"{stem}.disc").write_text(text(module, inputs, named))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", default="suites", help=f"some of {', '.join(SETS)}")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    sys.path[:0] = [str(TESTS / folder) for folder in FOLDERS]
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    work = [
        (chosen.folder, name, job, chosen.jobs)
        for name in chosen.sets.split(",")
        for job in range(chosen.jobs)
    ]
    with multiprocessing.get_context("spawn").Pool(chosen.jobs) as pool:
        pool.starmap(write, work, chunksize=1)


if __name__ == "__main__":
    main()
