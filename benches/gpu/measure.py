"""Measures one case: builds the contestants, checks them, then lets them take turns at each size.

A case is a task of a worker (``worker.py``). What is known so far is said after each size, so that
a process that dies or runs out of time leaves a part of a result.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable

import torch
from peers import Skipped

from . import ceilings, checks, contestants, launches, roofline
from .cases import GpuCase, Size
from .clock import Clock, Turn, TurnFailed, interleaved, passes
from .contestants import Built, Setting
from .dtypes import DTYPES, apply_tf32, cast

#: Bytes of results that are kept at most, so that results are not written to the same memory each
#: time.
HELD_BYTES = 1 << 30
#: Share of the time of a case after which no other contestant is compiled.
BUILDS = 0.6


class Dead(Exception):
    """The device is lost to this process; ``who`` worked on it."""

    def __init__(self, who: str, reason: str):
        super().__init__(reason)
        self.who, self.reason = who, reason


class Measuring:
    """One case in one type of elements on one device."""

    def __init__(self, case: GpuCase, task: dict, say: Callable[[dict], None]):
        self.case, self.task, self.say = case, task, say
        self.clock = Clock(task["device"])
        self.setting = Setting(self.clock.device, task["dtype"])
        self.ends = time.monotonic() + task["seconds"]
        self.build_ends = time.monotonic() + BUILDS * task["seconds"]
        self.row: dict = {
            "case": case.name, "dtype": task["dtype"], "skipped": dict(task["without"]), "first_s": {}, "cold_s": {},
            "errors": {}, "about": {}, "rows": [], "left": [],
        }  # fmt: skip

    def run(self) -> dict:
        """The row of the case; an error that ends it leaves what was measured before."""
        try:
            self.measure()
        except Dead:
            raise
        except Exception as error:
            self.row["error"] = said(error)
        return self.row

    def measure(self) -> None:
        torch.manual_seed(0)
        apply_tf32(self.task["dtype"])
        contestants.reset()
        module = self.case.build(self.task["small"]).eval()
        self.module = module.to(self.clock.device, DTYPES[self.task["dtype"]][0])
        self.sizes = self.case.sizes_of(self.task["small"])
        self.examples = [self.inputs(size) for size in self.sizes]
        built = self.build()
        if "time" in self.task["phases"] and not self.task["warm"]:
            self.check(built)
            self.time(built)
        for phase, work in (("profile", self.profile), ("kernels", self.kernels)):
            if phase in self.task["phases"] and not self.task["warm"] and time.monotonic() < self.ends:
                work(built)

    def inputs(self, size: Size) -> tuple[torch.Tensor, ...]:
        return cast(self.case.inputs(size, self.task["small"], self.clock.device), self.task["dtype"])

    # Building and checking.

    def build(self) -> dict[str, Built]:
        """The contestants that can run the case, after a call of each at every size."""
        built = {}
        for name in self.task["contestants"]:
            if name in self.row["skipped"]:
                continue
            if (reason := contestants.missing(name, self.setting)) is not None:
                self.row["skipped"][name] = reason
                continue
            if time.monotonic() > self.build_ends:
                self.row["skipped"][name] = "no time to compile it"
                continue
            self.say({"at": name})
            if (found := self.attempt(name, lambda name=name: self.build_one(name))) is not None:
                built[name] = found
        self.say({"at": None})
        return built

    def build_one(self, name: str) -> Built:
        start = time.perf_counter()
        built = contestants.CONTESTANTS[name](self.module, self.examples, self.setting)
        spent = []
        for inputs in self.examples:
            built(built.convert(inputs))
            built.wait()
            self.clock.synchronize()
            spent.append(time.perf_counter() - start)
        # Versions that are made for a size that comes again, graphs among them, are made by now.
        for _ in range(3):
            for inputs in self.examples:
                built(built.convert(inputs))
        built.settle()
        built.wait()
        self.clock.synchronize()
        if built.about:
            self.row["about"][name] = built.about
        self.row["first_s"][name], self.row["cold_s"][name] = round(spent[0], 3), round(spent[-1], 3)
        return built

    def attempt(self, name: str, work: Callable):
        """The result of ``work``; an exception is the reason why the contestant is skipped."""
        try:
            return work()
        except Exception as error:
            reason = said(error)
            self.row["skipped"][name] = reason
            if not self.clock.is_alive():
                raise Dead(name, reason) from error
            return None

    def check(self, built: dict[str, Built]) -> None:
        """Takes those out of ``built`` whose results differ from the computation in f64."""
        reference = checks.Reference(self.module)
        wanted = [reference.results(inputs) for inputs in self.examples]
        self.row["reference"] = reference.name
        eager = contestants.eager(self.module, self.examples, self.setting)
        allowed = checks.limit(self.task["dtype"], self.error(eager, wanted))
        self.row["allowed_error"] = allowed
        for name, one in list(built.items()):
            self.say({"at": name})
            error = self.attempt(name, lambda one=one: self.error(one, wanted))
            if error is not None:
                self.row["errors"][name] = error if math.isfinite(error) else None
                if error <= allowed:
                    continue
                self.row["skipped"][name] = f"differs from {reference.name} by {error:.1e}"
            del built[name]
        self.say({"at": None})

    def error(self, built: Built, wanted: list) -> float:
        def call(inputs):
            found = built(built.convert(inputs))
            built.wait()
            return [t.clone() for t in built.results(found)]

        return checks.largest_error(call, self.examples, wanted, self.case.ties)

    # Timing.

    def time(self, built: dict[str, Built]) -> None:
        for size, inputs in zip(self.sizes, self.examples, strict=True):
            if time.monotonic() > self.ends:
                self.row["left"].append(size)
                continue
            row = self.at_size(built, size, inputs)
            self.row["rows"].append(row)
            self.say({"partial": self.row})
        if built and not self.row["left"] and len(self.sizes) > 2 and time.monotonic() < self.ends:
            self.row["stream_us"] = self.stream(built)

    def at_size(self, built: dict[str, Built], size: Size, inputs: tuple[torch.Tensor, ...]) -> dict:
        outputs = checks.tensors(self.module(*inputs))
        flops, weights = roofline.work(self.module, inputs)
        operands = roofline.tensor_bytes(inputs) + roofline.tensor_bytes(outputs)
        moved = operands + weights
        sets = self.rotated(inputs, operands)
        held = max(1, min(len(sets), HELD_BYTES // max(1, roofline.tensor_bytes(outputs))))
        del outputs
        times = self.turns(
            built,
            lambda one: self.turn(one, sets, held),
            lambda turns: interleaved(self.clock, turns, self.task["rounds"]),
        )
        copy = ceilings.copy_us(self.task["ceilings"], moved)
        return {
            "size": size,
            "bytes": moved,
            "flops": flops,
            "copy_us": round(copy, 2) if copy else None,
            "times": {name: t.to_dict() for name, t in times.items()},
        }

    def rotated(self, inputs: tuple, operands: int) -> list[tuple]:
        """Sets of equal inputs that are together larger than the cache, ``inputs`` among them."""
        count = ceilings.buffers(operands, ceilings.l2_bytes(self.clock))
        return [inputs, *(tuple(t.clone() for t in inputs) for _ in range(count - 1))]

    def turn(self, built: Built, sets: list[tuple], held: int) -> Turn:
        converted = [built.convert(inputs) for inputs in sets]
        results: list = [None] * held
        place = 0

        def call() -> None:
            nonlocal place
            place += 1
            found = built(converted[place % len(converted)])
            if built.keeps:
                results[place % held] = found

        def wait() -> None:
            built.wait()
            self.clock.synchronize()

        return Turn(call, wait, built.by_events)

    def stream(self, built: dict[str, Built]) -> dict[str, float]:
        """Microseconds of a pass over all sizes, one call each, in an order that mixes them."""
        order = list(range(len(self.sizes)))
        random.Random(0).shuffle(order)

        def one_pass(one: Built):
            converted = [one.convert(self.examples[i]) for i in order]

            def run() -> None:
                for inputs in converted:
                    one(inputs)

            def wait() -> None:
                one.wait()
                self.clock.synchronize()

            return run, wait

        found = self.turns(built, one_pass, lambda turns: passes(turns, self.task["rounds"]))
        return {name: round(s * 1e6, 2) for name, s in found.items()}

    def turns(self, built: dict[str, Built], make: Callable, run: Callable) -> dict:
        """The times of all contestants by name. One that raises in its turn leaves ``built``, and
        the others take their turns once more.
        """
        while True:
            names = list(built)
            try:
                return dict(zip(names, run([make(built[name]) for name in names]), strict=True))
            except TurnFailed as failed:
                name = names[failed.index]
                self.row["skipped"][name] = said(failed.__cause__ or failed)
                if not self.clock.is_alive():
                    raise Dead(name, self.row["skipped"][name]) from failed
                del built[name]

    # Kernels: at the last size, which is that of the largest tensors.

    def profile(self, built: dict[str, Built]) -> None:
        """The kernels of disc by its own profile, and what its report says."""
        if "disc" in built:
            converted = built["disc"].convert(self.examples[-1])
            self.say({"at": "disc"})
            found = self.part(lambda: self.of_disc(built["disc"], converted))
            self.counted()["disc_profile"] = self.rated(found)
            self.say({"at": None})

    def rated(self, found: dict) -> dict:
        """Adds the rate at which the kernels together move the bytes that have to be moved; of one
        kernel alone it is the kernel's own.
        """
        at = next((row for row in self.row["rows"] if row["size"] == self.sizes[-1]), None)
        us = sum(kernel["us"] * kernel["launches"] for kernel in found.get("list", ()))
        if at is None or not us:
            return found
        return {**found, "bytes": at["bytes"], "gbs": round(at["bytes"] / us / 1e3, 1)}

    def kernels(self, built: dict[str, Built]) -> None:
        """The kernels of a call of each contestant, by torch's profiler."""
        for name, one in built.items():
            converted = one.convert(self.examples[-1])
            self.say({"at": name})
            self.counted()[name] = self.part(
                lambda one=one, converted=converted: launches.of_call(
                    self.clock, lambda: one(converted), one.wait
                )
            )
        self.say({"at": None})

    def counted(self) -> dict:
        return self.row.setdefault("kernels", {"size": self.sizes[-1]})

    def of_disc(self, one: Built, converted) -> dict:
        import disc

        report = disc.report(one.module).to_dict()
        names = (
            "kernels",
            "kernels_by_kind",
            "coverage",
            "syncs",
            "compiles",
            "target",
            "notes",
            "fallbacks",
        )
        self.row["report"] = {name: report[name] for name in names if name in report}
        self.row["report"]["stages_ms"] = report["stages_ms"]
        return launches.of_disc(one.module, lambda: one(converted), times=5)

    def part(self, work: Callable[[], dict]) -> dict:
        """The result of a part that the rest of the case can do without."""
        try:
            return work()
        except Exception as error:
            return {"error": said(error)}


def said(error: BaseException) -> str:
    """The type and the first line of an error; of a contestant that does not run, the reason."""
    text = str(error).strip()
    if isinstance(error, Skipped):
        return text
    return f"{type(error).__name__}: {text.splitlines()[0][:300]}" if text else type(error).__name__
