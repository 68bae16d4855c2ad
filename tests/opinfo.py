"""Runs the samples of torch's OpInfo database through ``disc.optimize`` and compares with eager.

``python tests/opinfo.py --dtypes f32 --out f32.jsonl`` writes a line of JSON for each sample, and
``--save`` joins such files to tests/opinfo_results.json, which docs/coverage-torch.md shows. Each
op runs in a process of its own, so that a crash costs one sample.

The tensors of a sample are inputs of the module, everything else is constant.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import itertools
import json
import os
import random
import re
import select
import signal
import sys
import time
import types
import unittest
import warnings
from collections.abc import Iterator
from pathlib import Path

# torch's table imports it for a class that no sample needs.
sys.modules.setdefault("expecttest", types.ModuleType("expecttest")).__dict__.setdefault(
    "TestCase", unittest.TestCase
)
os.environ.setdefault("DISC_CACHE", "0")
warnings.simplefilter("ignore")

import disc  # noqa: E402
import torch  # noqa: E402
from disc.torch.coverage.page import core_overloads  # noqa: E402
from opinfo_compare import difference  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

DTYPES = {
    "f32": torch.float32,
    "i64": torch.int64,
    "bool": torch.bool,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
}
#: Ops that draw random numbers: they run in PyTorch, unless an option says otherwise.
_RANDOM = re.compile(r"dropout|rrelu|fractional_max_pool|rand")
RESULTS = Path(__file__).with_name("opinfo_results.json")
#: Seconds for one sample.
PATIENCE = 300


class Sample(torch.nn.Module):
    """An op on the tensors of a sample; everything else is constant."""

    def __init__(self, op, sample):
        super().__init__()
        self.op = op
        leaves, self.spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.given = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def forward(self, *tensors):
        leaves = list(self.leaves)
        for i, tensor in zip(self.places, tensors, strict=True):
            leaves[i] = tensor
        first, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.op(first, *args, **kwargs)

    def exact(self):
        """The result in double precision; None if the op gives none."""
        twin = copy.copy(self)
        twin.leaves = [torch.float64 if leaf in (*_HALF, torch.float32) else leaf for leaf in self.leaves]
        with contextlib.suppress(Exception):
            return _run(twin, [t.double() if t.is_floating_point() else t for t in self.given])
        return None


_HALF = (torch.float16, torch.bfloat16)


def full_name(op) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def samples(op, dtype: torch.dtype, count: int) -> list[tuple[int, object]]:
    """``count`` samples of an op, evenly spaced, and their places."""
    torch.manual_seed(0)
    random.seed(0)
    every = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    total = len(every)
    chosen = range(total) if total <= count else [(2 * i + 1) * total // (2 * count) for i in range(count)]
    return [(i, every[i]) for i in chosen]


def tried(op, sample) -> dict:
    """Says what becomes of a sample: ``state``, ``reason`` and a text of the sample."""
    module = Sample(op.get_op(), sample).eval()
    text = ", ".join(map(_text, pytree.tree_leaves((sample.input, sample.args, sample.kwargs))))
    try:
        expected = _run(module, module.given)
    except Exception as error:
        expected = error
    fast = disc.optimize(module)
    for which in ("first", "second"):
        try:
            result = _run(fast, module.given)
        except Exception as error:
            if isinstance(expected, Exception):
                return {"state": "refused", "reason": "torch refuses it too", "text": text}
            reason = f"{type(error).__name__}: {error}"[:400]
            return {"state": "error", "reason": f"{which} call: {reason}", "text": text}
        if isinstance(expected, Exception):
            reason = f"{which} call: torch raises {type(expected).__name__}: {expected}"[:400]
            return {"state": "wrong", "reason": reason, "text": text}
        found = difference(op.name, result, expected, module.exact)
        if found is not None:
            where = disc.report(fast).to_dict()["captured_by"]
            return {"state": "wrong", "reason": f"{which} call ({where}): {found}", "text": text}
    return {**_state(disc.report(fast).to_dict()), "text": text}


def _run(module, tensors):
    random.seed(0)
    torch.manual_seed(0)
    with torch.no_grad():
        return module(*copy.deepcopy(tensors))


def _state(report: dict) -> dict:
    reasons = [f"{row['op']}: {row['reason']}" for row in report["fallbacks"]]
    if any(not row["reason"].strip() for row in report["fallbacks"]):
        return {"state": "error", "reason": "a fallback without a reason"}
    if not reasons and report["coverage"] == 1.0:
        return {"state": "compiled", "reason": ""}
    state = "parts" if report["clusters"] else "torch"
    if not reasons:
        return {"state": "error", "reason": f"coverage {report['coverage']} without a reason"}
    return {"state": state, "reason": "; ".join(dict.fromkeys(reasons))[:600]}


def _text(leaf) -> str:
    if isinstance(leaf, torch.Tensor):
        strides = (
            "" if leaf.layout is not torch.strided or leaf.is_contiguous() else f"/{list(leaf.stride())}"
        )
        return f"{list(leaf.shape)}{strides}:{str(leaf.dtype).removeprefix('torch.')}"
    return re.sub(r" at 0x\w+", "", repr(leaf))[:80]


# Processes.


class Worker:
    """A process that runs the samples of ops one after the other, from ``start`` on."""

    def __init__(self, tasks: list, start: tuple[int, int], chosen):
        self._reader, writer = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            os.close(self._reader)
            _work(tasks, start, chosen, writer)
        os.close(writer)
        #: The task and the sample that run now.
        self.begun: dict | None = None
        self.end = ""

    def rows(self) -> Iterator[dict]:
        """Yields the rows that the process writes, until it ends."""
        held = b""
        while True:
            ready, _, _ = select.select([self._reader], [], [], PATIENCE)
            if not ready:
                os.kill(self._child, signal.SIGKILL)
                self.end = f"no end within {PATIENCE} s"
                break
            read = os.read(self._reader, 1 << 16)
            if not read:
                break
            *lines, held = (held + read).split(b"\n")
            for row in map(json.loads, lines):
                self.begun = row if "begins" in row else None
                if self.begun is None:
                    yield row
        os.close(self._reader)
        _, code = os.waitpid(self._child, 0)
        self.end = self.end or (f"signal {os.WTERMSIG(code)}" if os.WIFSIGNALED(code) else f"exit {code}")


def rows_of(tasks: list, chosen) -> Iterator[dict]:
    """The rows of all samples; a crash costs the sample that ran."""
    start: tuple[int, int] | None = (0, 0)
    while start is not None:
        worker = Worker(tasks, start, chosen)
        yield from worker.rows()
        begun, start = worker.begun, None
        if begun is not None:
            where = {name: begun[name] for name in ("op", "dtype", "place")}
            yield {**where, "state": "crash", "reason": worker.end}
            task, number = begun["begins"]
            start = (task, number + 1)


def _work(tasks: list, start: tuple[int, int], chosen, writer: int) -> None:
    """Writes a line before and after each sample, and ends the process."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    code = 1
    with contextlib.suppress(BaseException):
        for i in range(start[0], len(tasks)):
            for row in _task_rows(i, *tasks[i], start[1] if i == start[0] else 0, chosen):
                os.write(writer, (json.dumps(row) + "\n").encode())
        code = 0
    os._exit(code)


def _task_rows(i: int, op, dtype: str, first: int, chosen) -> Iterator[dict]:
    shared = {"op": full_name(op), "dtype": dtype}
    try:
        picked = samples(op, DTYPES[dtype], chosen.samples)
    except Exception as error:
        yield {
            **shared,
            "place": 0,
            "state": "no samples",
            "reason": f"{type(error).__name__}: {error}"[:200],
        }
        return
    for number, (place, sample) in enumerate(picked):
        if number < first or (chosen.only is not None and place != chosen.only):
            continue
        shared["place"] = place
        yield {**shared, "begins": [i, number]}
        begin = time.perf_counter()
        try:
            row = tried(op, sample)
        except Exception as error:
            row = {"state": "error", "reason": f"harness: {type(error).__name__}: {error}"[:400]}
        yield {**shared, **row, "ms": round((time.perf_counter() - begin) * 1e3)}


# Results.


def joined(paths: list[str]) -> dict:
    """Sums of the rows in files: for each dtype and op the number of samples of each state, and the
    reasons why torch runs something.
    """
    rows: dict = {}
    for row in itertools.chain.from_iterable(map(_lines, paths)):
        rows[row["dtype"], row["op"], row["place"]] = row
    found: dict = {}
    for (dtype, op, _), row in sorted(rows.items()):
        if row["state"] in ("refused", "no samples"):
            continue
        entry = found.setdefault(dtype, {}).setdefault(op, {})
        entry[row["state"]] = entry.get(row["state"], 0) + 1
        if row["state"] != "compiled":
            reasons = entry.setdefault("reasons", [])
            # The line of this file says nothing.
            reason = re.sub(r" \(opinfo\.py:\d+\)", "", row["reason"])
            if len(reasons) < 3 and reason not in reasons:
                reasons.append(reason)
    numbers = {
        name: sum(dtype in op.supported_dtypes("cpu") for op in op_db) for name, dtype in DTYPES.items()
    }
    return {
        "torch": torch.__version__.partition("+")[0],
        "common": common(),
        "ops": numbers,
        "results": found,
    }


def _lines(path: str) -> Iterator[dict]:
    if Path(path).exists():
        yield from map(json.loads, Path(path).read_text(encoding="utf-8").splitlines())


def common() -> list[str]:
    """The ops of core ATen and of ``torch.nn.functional`` that draw no random numbers."""
    core = {name.split(".")[1] for name in core_overloads()}
    names = []
    for op in op_db:
        is_common = op.aten_name in core or op.name.startswith("nn.functional.")
        is_common = is_common and torch.float32 in op.supported_dtypes("cpu")
        if is_common and not _RANDOM.search(op.name):
            names.append(full_name(op))
    return sorted(names)


def save(paths: list[str]) -> None:
    """Writes the results, an op in a line."""
    made = joined(paths)
    order = [name for name in DTYPES if name in made["results"]]
    lines = [
        "{",
        *(f'"{name}": {json.dumps(made[name])},' for name in ("torch", "common", "ops")),
        '"results": {',
    ]
    for dtype in order:
        ops = made["results"][dtype]
        lines.append(f'"{dtype}": {{')
        lines += [f"{json.dumps(op)}: {json.dumps(entry)}," for op, entry in ops.items()]
        lines[-1] = lines[-1].removesuffix(",")
        lines.append("}," if dtype != order[-1] else "}")
    RESULTS.write_text("\n".join([*lines, "}", "}"]) + "\n", encoding="utf-8")


def run(chosen) -> None:
    out = open(chosen.out, "a", encoding="utf-8") if chosen.out else sys.stdout  # noqa: SIM115
    part, parts = map(int, chosen.part.split("/"))
    ops = [op for op in op_db if re.fullmatch(chosen.ops, full_name(op))][part::parts]
    tasks = [(op, name) for op in ops for name in chosen.dtypes.split(",")]
    tasks = [(op, name) for op, name in tasks if DTYPES[name] in op.supported_dtypes("cpu")]
    done = {(row["op"], row["dtype"]) for row in _lines(chosen.out)} if chosen.out else set()
    tasks = [(op, name) for op, name in tasks if (full_name(op), name) not in done]
    counts: dict[str, int] = {}
    for row in rows_of(tasks, chosen):
        counts[row["state"]] = counts.get(row["state"], 0) + 1
        if not chosen.failures or row["state"] not in ("compiled", "refused"):
            print(json.dumps(row), file=out, flush=True)
    print(counts, file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--ops", default=".*", help="a pattern of the names of ops")
    parser.add_argument("--dtypes", default="f32", help=",".join(DTYPES))
    parser.add_argument("--samples", type=int, default=4, help="of each op and dtype, evenly spaced")
    parser.add_argument("--only", type=int, help="the place of the one sample to run")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th op from the i-th on")
    parser.add_argument("--failures", action="store_true", help="print only what is not compiled whole")
    parser.add_argument("--out", help="a file that the lines are appended to; ops in it are left out")
    parser.add_argument("--save", nargs="+", metavar="FILE", help="join files to tests/opinfo_results.json")
    chosen = parser.parse_args()
    if chosen.save:
        save(chosen.save)
    else:
        run(chosen)


if __name__ == "__main__":
    main()
