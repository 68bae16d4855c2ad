"""``disc.profile``: the kernels that calls of compiled code ran, and how long each took."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import extension
from .errors import Error

_LOG = logging.getLogger("disc.runtime")

#: Front ends find here the executables that serve an object of theirs; None for one that is not.
EXECUTABLES: list[Callable[[Any], Iterable[Any] | None]] = []

#: ``k3_reduction_split`` is a group of ops, the kind of the group, and the version that was chosen.
_NAME = re.compile(r"(k\d+)_(variant_)?([a-z]+)_?(\S*)( .*)?")


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel; times are nanoseconds, ``start`` that since the profile began.

    ``address`` is that of its code: kernels of two programs may have one name.
    """

    kernel: str
    address: int
    units: int
    threads: int
    start: int
    ns: int
    estimated_ns: int


@dataclass(frozen=True)
class ProfiledCall:
    """One call of compiled code: the model, the sizes of its dims, and its launches in order."""

    module: str
    sizes: dict[str, int]
    thread: int
    start: int
    ns: int
    launches: tuple[Launch, ...]


@dataclass
class Kernel:
    """A kernel, summed over the calls of a profile.

    ``kind`` and ``version`` are parts of its name: the kind of the group of ops, and the version
    that guards chose for the sizes, which is empty for the general one. ``layers`` are the modules
    of the model whose weights it reads: ``encoder.*.query`` for layers that share the kernel.
    ``lines`` are the lines of the model that it computes, as ``model.py:42 forward``: the first of
    them in the order of the program.
    """

    module: str
    name: str
    kind: str
    version: str
    layers: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    count: int = 0
    units: int = 0
    ns: int = 0
    threads: int = 0

    @classmethod
    def of(cls, module: str, name: str, layers: Iterable[str] = (), lines: Iterable[str] = ()) -> Kernel:
        """A kernel that did not run yet.

        >>> kernel = Kernel.of("Net", "k3_reduction_split")
        >>> kernel.kind, kernel.version
        ('reduction', 'split')
        """
        found = _NAME.fullmatch(name)
        kind, version = (found[3], found[4]) if found is not None else ("", "")
        return cls(module, name, kind, version, tuple(layers), tuple(lines))

    def add(self, launch: Launch) -> None:
        self.count += 1
        self.units += launch.units
        self.ns += launch.ns
        self.threads = max(self.threads, launch.threads)


class Profile:
    """The calls made between ``start`` and ``stop``, or inside of ``with``.

    Each kernel is awaited and timed, which makes calls a little slower.
    """

    def __init__(self, module: Any = None, *, all_threads: bool = True):
        self._module = module
        self._all_threads = all_threads
        self._native: Any = None
        self._numbers: set[int] = set()
        self._rows: list[dict[str, Any]] | None = None
        self._sources: dict[int, list[str]] = {}
        self._lines: dict[int, list[str]] = {}
        #: Calls that came when there were launches enough.
        self.left_out = 0
        if module is not None:
            executables_of(module)

    def start(self) -> Profile:
        if self._native is not None:
            raise Error("this profile has begun already", help="make a new one with disc.profile")
        self._note_executables()
        self._native = extension.profiler(self._all_threads)
        return self

    def stop(self) -> None:
        """Ends the profile; calls after it are not seen."""
        if self._native is None or self._rows is not None:
            return
        self._native.stop()
        self._rows, self.left_out = self._seen(), self._native.left_out

    def __enter__(self) -> Profile:
        return self.start()

    def __exit__(self, *exc) -> None:
        self.stop()

    def _note_executables(self) -> None:
        """Code may be compiled, and given up, while the profile runs."""
        if self._module is not None:
            self._numbers |= {executable.number for executable in executables_of(self._module)}

    def _seen(self) -> list[dict[str, Any]]:
        if self._rows is not None or self._native is None:
            return self._rows or []
        self._note_executables()
        self._sources, self._lines = self._native.sources(), self._native.lines()
        rows = self._native.calls()
        return [row for row in rows if self._module is None or row["executable"] in self._numbers]

    @property
    def calls(self) -> list[ProfiledCall]:
        """The calls so far, in the order of their ends."""
        return [_call(row) for row in self._seen()]

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels of the calls so far; those that took longest come first."""
        made: dict[tuple[str, str, int], Kernel] = {}
        for call in self.calls:
            for launch in call.launches:
                key = (call.module, launch.kernel, launch.address)
                if key not in made:
                    of = self._sources.get(launch.address, ()), self._lines.get(launch.address, ())
                    made[key] = Kernel.of(*key[:2], *of)
                made[key].add(launch)
        return sorted(made.values(), key=lambda kernel: -kernel.ns)

    def to_dict(self) -> dict[str, Any]:
        """Calls and kernels as plain data."""
        calls, kernels = self.calls, self.kernels
        return {
            "calls": [asdict(call) for call in calls],
            "kernels": [asdict(kernel) for kernel in kernels],
            "left_out": self.left_out,
        }

    def to_chrome(self, path) -> None:
        """Writes a trace that Perfetto (ui.perfetto.dev) and ``chrome://tracing`` show."""
        events: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": os.getpid(), "tid": 0, "args": {"name": "disc"}}
        ]
        for call in self.calls:
            events.append(_event(f"disc::{call.module}", "call", call, call, call.sizes))
            for launch in call.launches:
                args: dict[str, Any] = {
                    "units": launch.units,
                    "threads": launch.threads,
                    "estimated_ns": launch.estimated_ns,
                }
                if lines := self._lines.get(launch.address):
                    args["lines"] = ", ".join(lines)
                events.append(_event(launch.kernel, "kernel", call, launch, args))
        text = json.dumps({"displayTimeUnit": "ns", "traceEvents": events})
        Path(path).write_text(text + "\n", encoding="utf-8")

    def __str__(self) -> str:
        """A table of the kernels that took longest."""
        return self.table()

    def table(self, most: int = 30) -> str:
        """The kernels that took longest, with their share of the time of the calls."""
        calls, kernels = self.calls, self.kernels
        whole, spent = sum(call.ns for call in calls), sum(kernel.ns for kernel in kernels)
        share = 100 * spent / whole if whole else 0.0
        lines = [f"{len(calls)} calls, {whole / 1e6:.3f} ms, {share:.0f}% of it in {len(kernels)} kernels"]
        several = len({kernel.module for kernel in kernels}) > 1
        shown = [(f"{k.module}/{k.name}" if several else k.name, k) for k in kernels[:most]]
        wide = max((len(name) for name, _ in shown), default=0)
        deep = max((len(_listed(kernel.layers)) for _, kernel in shown), default=0)
        deep = max(deep, len("layers"))
        if shown:
            lines.append(
                f"{'kernel':<{wide}}  {'us':>12}  {'share':>5}  {'launches':>8}  {'units':>12}  threads"
                f"  {'layers':<{deep}}  lines".rstrip()
            )
        for name, kernel in shown:
            part = 100 * kernel.ns / whole if whole else 0.0
            lines.append(
                f"{name:<{wide}}  {kernel.ns / 1e3:>12.1f}  {part:>4.0f}%  {kernel.count:>8}  {kernel.units:>12}"
                f"  {kernel.threads:>7}  {_listed(kernel.layers):<{deep}}  {_listed(kernel.lines)}".rstrip()
            )
        if len(kernels) > most:
            lines.append(f"and {len(kernels) - most} more, see .kernels")
        if self.left_out:
            lines.append(f"{self.left_out} calls more were not kept: the profile was full")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Profile({len(self._seen())} calls)"


def profile(module: Any = None) -> Profile:
    """Times the kernels of the calls made inside of ``with disc.profile(module) as p:``.

    ``module`` is what ``disc.optimize``, ``torch.compile(.., backend="disc")`` or ``disc.load``
    returned; without it all compiled code of the process is watched. Calls of every thread count.
    ``p.kernels`` and ``p.calls`` are what was found, ``print(p)`` a table, ``p.to_chrome(path)``
    writes a trace for Perfetto.
    """
    return Profile(module)


class Tracing:
    """Writes what the calls of this thread ran to a file: ``with disc.Options(profile=path)``."""

    def __init__(self, path: str):
        self._path = path
        self._profile = Profile(all_threads=False).start()

    def finish(self) -> None:
        self._profile.stop()
        self._profile.to_chrome(self._path)
        if not self._profile.calls:
            _LOG.warning("no compiled code ran inside of Options(profile=%r)", self._path)


def executables_of(module: Any) -> list[Any]:
    """The executables that serve a compiled object now; raises disc.Error for another object."""
    for find in EXECUTABLES:
        if (found := find(module)) is not None:
            return list(found)
    raise Error(
        f"profile: nothing of this {type(module).__name__} is compiled by disc",
        help='pass what disc.optimize, disc.load or torch.compile(.., backend="disc") returned, or nothing',
    )


def _call(row: dict[str, Any]) -> ProfiledCall:
    launches = []
    for kernel in row["kernels"]:
        numbers = {key: kernel[key] for key in ("units", "threads", "start", "ns", "estimated_ns")}
        launches.append(Launch(kernel["name"], kernel["kernel"], **numbers))
    sizes = dict(row["sizes"])
    return ProfiledCall(row["name"], sizes, row["thread"], row["start"], row["ns"], tuple(launches))


def _listed(names: tuple[str, ...]) -> str:
    """Layers or lines in one line.

    >>> _listed(("a", "b", "c"))
    'a, b, ...'
    """
    return ", ".join((*names[:2], "...") if len(names) > 2 else names)


def _event(name: str, category: str, call: ProfiledCall, timed: ProfiledCall | Launch, args: dict) -> dict:
    times = {"ts": timed.start / 1e3, "dur": timed.ns / 1e3}
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "pid": os.getpid(),
        "tid": call.thread,
        **times,
        "args": args,
    }
