"""The commands of benches/gpu/run.py: each collects a record within a budget of seconds."""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from . import contestants, tables
from .dtypes import DTYPES
from .ledger import Ledger
from .supervisor import Supervisor

RECORDS = Path(__file__).resolve().parent.parent / "records"
PEERS = {
    "memory": "eager,inductor,inductor_static,jax",
    "models": "eager,channels_last,inductor,inductor_graphs,jax",
}
#: Type of elements and seconds for one case, by command.
DTYPE, LIMIT = {"memory": "f32", "models": "bf16"}, {"memory": 60.0, "models": 200.0}
#: Share of a budget that filling the caches of Inductor may take.
WARM = 0.4


def main(text: str | None) -> int:
    options = arguments(text)
    if options.command == "worker":
        from .worker import serve

        return serve()
    if options.command == "once":
        from .counted import once

        return once(options.case, options.dtype, options.device)
    if options.command == "table":
        for path in options.records:
            contents = json.loads(path.read_text(encoding="utf-8"))
            print((tables.markdown if options.markdown else tables.text)(contents))
        return 0
    return Command(options).run()


def arguments(text: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--device", default="cuda:0", help="default: %(default)s; cpu: a test with small sizes"
    )
    common.add_argument(
        "--budget", type=float, default=480, help="seconds, after which a command ends cleanly"
    )
    common.add_argument("--out", type=Path, default=RECORDS, help="folder of the record")
    commands.add_parser("truth", parents=[common], help="versions, ceilings, corpus, compute-sanitizer")
    for name in PEERS:
        suite = commands.add_parser(name, parents=[common], help=f"the {name} suite beside peers")
        suite.add_argument("--only", default="", help="cases whose name contains one of these, by commas")
        suite.add_argument(
            "--dtype", default=DTYPE[name], help=f"of {', '.join(DTYPES)}, by commas; default: %(default)s"
        )
        suite.add_argument("--peers", default=PEERS[name], help="default: %(default)s")
        suite.add_argument("--part", default="0/1", help="I/N: each N-th case, from the I-th on")
        suite.add_argument("--rounds", type=int, default=None, help="turns of each contestant at a size")
        suite.add_argument("--limit", type=float, default=LIMIT[name], help="seconds for one case")
        suite.add_argument(
            "--ncu", type=int, default=8, help="bytes of each N-th graph of the memory suite by ncu"
        )
        suite.add_argument(
            "--warm", type=int, default=None, help="processes that fill the caches of Inductor ahead"
        )
    table = commands.add_parser("table", help="prints records as tables")
    table.add_argument("records", type=Path, nargs="+")
    table.add_argument("--markdown", action="store_true", help="for docs/performance")
    commands.add_parser("worker", help=argparse.SUPPRESS)
    once = commands.add_parser("once", help=argparse.SUPPRESS)
    once.add_argument("--case", action="append")
    once.add_argument("--dtype", default="f32")
    once.add_argument("--device", default="cuda:0")
    options = parser.parse_args()
    if options.command in PEERS:
        refuse_unknown(options, parser.error)
    return options


def refuse_unknown(options: argparse.Namespace, refuse: Callable[[str], None]) -> None:
    """Refuses names that nothing has, before the device is touched."""
    for what, names, known in (
        ("--dtype", options.dtype, DTYPES),
        ("--peers", options.peers, contestants.CONTESTANTS),
    ):
        if unknown := [name for name in names.split(",") if name and name not in known]:
            refuse(f"{what} {','.join(unknown)}: expected some of {', '.join(known)}")
    part = re.fullmatch(r"(\d+)/(\d+)", options.part)
    if part is None or int(part[1]) >= int(part[2]):
        refuse(f"--part {options.part}: expected I/N with I below N, as 0/2")


class Command:
    """A command at work: its deadline, its record, and the processes that it starts."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.deadline = time.monotonic() + options.budget
        self.is_small = options.device == "cpu"
        self.ledger = Ledger(options.command, sys.argv[1:], options.out)
        self.folder = tempfile.TemporaryDirectory(prefix="disc-gpu-")
        self.environment = {
            "DISC_PROGRESS": "0",
            "HF_HUB_OFFLINE": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(Path(self.folder.name) / "inductor"),
            # Others need memory of the card, too.
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.4",
            # A profile does not slow down the launches after it.
            "TEARDOWN_CUPTI": "1",
        }
        limit = getattr(options, "limit", 120.0)
        self.supervisor = Supervisor(self.deadline, limit, self.environment)

    def left(self) -> float:
        return self.deadline - time.monotonic()

    def run(self) -> int:
        """Fills the record; the status is 0 if every part that was begun came to an end."""
        self.ledger.save()
        try:
            if self.finds_device():
                self.truth() if self.options.command == "truth" else self.suite()
        finally:
            self.supervisor.close()
            self.ledger.end()
            self.folder.cleanup()
        contents = self.ledger.contents
        print(tables.text(contents))
        print(f"record: {self.ledger.path}.json")
        failed = [r for r in contents["results"] if "error" in r]
        is_empty = self.options.command in PEERS and not contents["results"]
        return 1 if failed or is_empty or contents["device"] is None else 0

    def finds_device(self) -> bool:
        """Describes the device and measures its ceilings; without a device the record says so."""
        about = {"device": self.options.device}
        card = self.supervisor.run({"run": "card", **about}) or {"error": "out of time"}
        if "error" in card:
            self.ledger.part("device", card)
            return False
        self.ledger.contents["device"] = card
        self.ledger.save()
        found = self.supervisor.run({"run": "ceilings", **about}) or {"error": "out of time"}
        self.ledger.contents["ceilings"] = found
        self.ledger.save()
        return True

    # The truth of a device.

    def truth(self) -> None:
        from . import truth

        on = self.options.device
        self.supervisor.close()
        for name in truth.FOLDERS:
            folder = truth.CORPUS / name
            if not folder.is_dir():
                self.ledger.part(name, {"error": f"there is no filetests/{name}"})
                continue
            with tempfile.TemporaryDirectory() as few:
                chosen = truth.picked(truth.FEW, Path(few)) if self.is_small else folder
                self.part(name, lambda seconds, chosen=chosen: truth.corpus(chosen, on, seconds), 240)
        self.part("tests/gpu", lambda seconds: truth.tests(on, seconds), 150)
        count = truth.FEW if self.is_small else truth.SANITIZED
        for tool in truth.TOOLS:
            self.part(tool, lambda seconds, tool=tool: truth.sanitized(tool, on, seconds, count), 120)

    def part(self, name: str, work, limit: float) -> None:
        """Does a part of the record, if there is time; its exception is its contents."""
        if self.left() < 5:
            self.ledger.contents["left"].append(name)
            return
        try:
            self.ledger.part(name, work(min(limit, self.left())))
        except Exception as error:
            self.ledger.part(name, {"error": f"{type(error).__name__}: {error}"[:500]})

    # Suites.

    def tasks(self) -> list[dict]:
        from . import memory_cases, model_cases

        suite = {"memory": memory_cases, "models": model_cases}[self.options.command]
        first, parts = map(int, self.options.part.split("/"))
        only = [text.lower() for text in self.options.only.split(",")]
        cases = [case for case in suite.cases() if any(text in case.name.lower() for text in only)]
        if not cases:
            self.ledger.part("cases", {"error": f"no case is called {self.options.only}"})
        peers = [name for name in self.options.peers.split(",") if name]
        common = {
            "run": "measure", "suite": self.options.command, "device": self.options.device, "small": self.is_small,
            "contestants": ["disc", *peers], "without": {}, "warm": False, "phases": ["time", "profile", "kernels"],
            "rounds": self.options.rounds or (2 if self.is_small else 11),
        }  # fmt: skip
        return [
            {**common, "case": case.name, "dtype": dtype}
            for dtype in self.options.dtype.split(",")
            for case in cases[first::parts]
        ]

    def suite(self) -> None:
        """Measures the cases, then counts kernels where a profiler would disturb times."""
        tasks = self.tasks()
        self.warm(tasks)
        ceilings = self.ledger.contents["ceilings"]
        is_memory = self.options.command == "memory"
        phases = ["time", "profile"] if is_memory else ["time", "profile", "kernels"]
        # A profiler leaves traces in its process: a model with its kernels has one of its own.
        self.supervisor.is_fresh = not is_memory and not self.is_small
        if self.supervisor.is_fresh:
            self.supervisor.close()
        for task in tasks:
            row = self.supervisor.run({**task, "ceilings": ceilings, "phases": phases})
            if row is None:
                self.ledger.contents["left"].append(f"{task['case']} {task['dtype']}")
                continue
            self.ledger.add(row)
            print(tables.line(row), flush=True)
        if is_memory:
            self.count_kernels(tasks, ceilings)
            self.count_bytes()

    def count_kernels(self, tasks: list[dict], ceilings: dict) -> None:
        """Kernels of all contestants, by torch's profiler, in another process than their times."""
        rows = {(row["case"], row["dtype"]): row for row in self.ledger.contents["results"]}
        if not self.is_small:
            self.supervisor.close()
        for task in tasks:
            row = rows.get((task["case"], task["dtype"]))
            if row is None or "error" in row:
                continue
            names = [name for name in row["rows"][0]["times"] if name != "jax"] if row["rows"] else []
            if not names:
                continue
            found = self.supervisor.run(
                {**task, "ceilings": ceilings, "phases": ["kernels"], "contestants": names}
            )
            if found is None:
                self.ledger.contents["left"].append(f"kernels of {task['case']} {task['dtype']}")
            else:
                row["kernels"] = {
                    **row.get("kernels", {}),
                    **found.get("kernels", {"error": found.get("error")}),
                }
        self.ledger.save()

    def count_bytes(self) -> None:
        """Bytes and rates of single kernels of some of the graphs, by ncu."""
        from . import counted

        measured = [row["case"] for row in self.ledger.contents["results"] if row.get("rows")]
        names = list(dict.fromkeys(measured))[:: self.options.ncu]
        dtype, device = self.options.dtype.split(",")[0], self.options.device
        self.part(
            "ncu", lambda seconds: counted.by_ncu(names, dtype, device, seconds), self.options.budget / 2
        )

    def warm(self, tasks: list[dict]) -> None:
        """Fills the caches that Inductor has on disk, by several processes: its compilations, one
        after the other, would take longer than all that is measured.
        """
        default = 0 if self.is_small else min(12, len(os.sched_getaffinity(0)))
        count = self.options.warm if self.options.warm is not None else default
        names = [name for name in tasks[0]["contestants"] if name in contestants.OF_INDUCTOR] if tasks else []
        self.ledger.contents["warmed_by"] = count if names else 0
        if not count or not names:
            return
        waiting: queue.SimpleQueue[dict] = queue.SimpleQueue()
        for task in tasks:
            waiting.put({**task, "contestants": names, "warm": True, "ceilings": {}})
        deadline = time.monotonic() + WARM * self.left()
        environment = {**self.environment, "TORCHINDUCTOR_COMPILE_THREADS": "1"}

        def work() -> None:
            supervisor = Supervisor(deadline, self.options.limit, environment)
            while supervisor.left() > 5:
                try:
                    supervisor.run(waiting.get_nowait())
                except queue.Empty:
                    break
            supervisor.close()

        threads = [threading.Thread(target=work) for _ in range(min(count, len(tasks)))]
        start = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.ledger.contents["warmed_s"] = round(time.monotonic() - start, 1)
