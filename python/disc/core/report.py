"""``disc.report``: what was compiled, into how many kernels, and how long each stage took."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import extension, profiling
from .errors import Error
from .report_rows import rows
from .signature import Signature


class Compiled:
    """Base of what a front end returns from compiling: it says for ``report`` what was compiled."""

    def report_values(self) -> dict[str, Any]:
        """The values of the report, as ``collect`` makes them."""
        raise NotImplementedError

    def contains(self, code: Any) -> bool:
        """Returns true if ``code`` is a graph of what was compiled."""
        return False

    def executables(self) -> list[Any]:
        """The executables that serve calls now."""
        raise NotImplementedError


#: Front ends find here what they compiled for an object that is not theirs.
FINDERS: list[Callable[[Any], Compiled | None]] = []


def report(module: Any) -> Report:
    """Reports what was compiled, what the framework runs, and why.

    Args:
        module: The result of ``disc.optimize``, or of ``torch.compile`` with this backend, which
            has a report from the first call on.

    Returns:
        The facts; ``print`` shows them.

    Raises:
        disc.Error: Nothing of the module is compiled by disc.
    """
    if (found := find(module)) is not None:
        return Report(found.report_values())
    raise Error(
        f"report: nothing of this {type(module).__name__} is compiled by disc",
        help='pass what disc.optimize returned, or torch.compile(.., backend="disc") after its first call',
    )


def find(module) -> Compiled | None:
    """Finds what was compiled for an object; None if nothing was."""
    if isinstance(module, Compiled):
        return module
    return next((found for finder in FINDERS if (found := finder(module)) is not None), None)


def contains(module, code: Any) -> bool:
    """Returns true if ``code`` is a graph of what a framework compiled for ``module`` by disc."""
    found = find(module)
    return found is not None and found.contains(code)


def collect(
    executable,
    signature: Signature,
    *,
    stages: dict[str, float],
    capture_cache: str,
    operations: int,
    weight_bytes: int,
    is_carried: bool = False,
) -> dict[str, Any]:
    """The values of a report.

    ``stages`` are the milliseconds that the front end took, ``weight_bytes`` are the model's. Code
    that ``is_carried`` came with the module that this one is a copy of.
    """
    native = dict(executable.report())
    # Of code that came from the cache, nothing was compiled.
    ours = {"passes": 0.0, "codegen": 0.0, "link": 0.0}
    spent = native.pop("stages_ms", {})
    stages = {**stages, **ours, **({} if is_carried else spent)}
    stages.pop("total", None)
    stages["pack"] = stages.pop("pack", 0.0)  # the last one: the order is that of time
    stages["total"] = sum(stages.values())
    cache = {
        "capture": capture_cache,
        "code": "carried" if is_carried else native.get("code_cache", "off"),
        "weights": native.pop("weights_cache", "off"),
    }
    native.pop("code_cache", None)
    from_disk = cache["code"] == "hit"
    return {
        "compiles": 0 if from_disk or is_carried else 1,
        "cache_hits": 1 if from_disk else 0,
        "cache": {**cache, "counts": extension.cache_counts()},
        "specializations": 0,
        "clusters": 1,
        "coverage": 1.0,
        "fallbacks": [],
        **native,
        "device": executable.device,
        "stages_ms": {name: round(ms, 3) for name, ms in stages.items()},
        "dims": signature.rows(),
        "facts": [*signature.facts, *(check.text for check in signature.checks)],
        "fixed": list(signature.fixed),
        "asked_at": dict(signature.asked_at),
        "operations": operations,
        **_weights(weight_bytes, native),
        "calls": executable.calls,
    }


def nothing() -> dict[str, Any]:
    """The values of the report of a module of which nothing is compiled."""
    cache = {"capture": "off", "code": "off", "weights": "off", "counts": extension.cache_counts()}
    return {
        **dict.fromkeys(_SUMMED, 0),
        **{name: {} for name in _JOINED},
        "cache": cache, "specializations": 0, "coverage": 0.0, "fallbacks": [], "dims": {}, "facts": [], "fixed": [],
        "asked_at": {}, "peak_arena_bytes": 0, "calls": 0, "target": None, "device": None,
    }  # fmt: skip


def summed(rows: list[dict[str, Any]], left: int, calls: int) -> dict[str, Any]:
    """The values of one report for parts of a module that are compiled apart;
    the framework runs ``left`` operations between them.
    """
    report = nothing()
    for row in rows:
        for name in _SUMMED:
            report[name] += row.get(name, 0)
        for name in _JOINED:
            for key, value in row.get(name, {}).items():
                report[name][key] = round(report[name].get(key, 0) + value, 3)
        for name in ("target", "device"):
            report[name] = row[name] or report[name]
        report["peak_arena_bytes"] = max(report["peak_arena_bytes"], row["peak_arena_bytes"])
    compiled = sum(row["operations"] * row["coverage"] for row in rows)
    report["operations"] += left
    report["coverage"] = round(compiled / report["operations"], 4) if report["operations"] else 0.0
    report["calls"] = calls
    return report


#: Numbers of a report that add up over parts, and tables whose numbers do.
_SUMMED = (
    "compiles", "cache_hits", "clusters", "operations", "kernels", "syncs", "versions", "deferred", "weight_bytes",
    "prepared_weight_bytes", "held_weight_bytes", "unreleased_weight_bytes",
)  # fmt: skip
_JOINED = ("kernels_by_kind", "stages_ms")


def of_served(coverage: float, served: int, refused: int) -> float:
    """``coverage`` of compiled code as a share of all calls, of which the framework ran those that
    the code ``refused``.
    """
    return round(coverage * served / (served + refused), 4) if refused else coverage


def _weights(plain: int, native: dict[str, Any]) -> dict[str, int]:
    """Bytes of the model's weights, of those in a prepared form,
    and what is held with and without ``release_weights``.
    """
    kept, prepared = native.get("weight_bytes", 0), native["prepared_weight_bytes"]
    return {
        "weight_bytes": plain,
        "prepared_weight_bytes": prepared,
        "held_weight_bytes": kept + prepared,
        "unreleased_weight_bytes": plain + prepared,
    }


class Report:
    """Facts about one compiled module; ``str`` gives them for people."""

    def __init__(self, values: dict[str, Any]):
        self._values = values

    def to_dict(self) -> dict[str, Any]:
        """The facts by name, in values of JSON."""
        return json.loads(json.dumps(self._values))

    def to_json(self) -> str:
        """The facts as text of JSON."""
        return json.dumps(self._values, indent=2)

    def to_html(self, path, *, profile: profiling.Profile | None = None) -> None:
        """Writes one page with the facts to the file ``path``; it needs the package jinja2.

        Args:
            path: The file.
            profile: The result of ``disc.profile``: the page has the times of its kernels, too.
        """
        from .report_page import page

        Path(path).write_text(page(self._values, profile), encoding="utf-8")

    def __str__(self) -> str:
        return "\n".join(f"{title:<12}{text}" for title, text in rows(self._values))

    def __rich__(self):
        from .report_page import table

        return table(self._values)

    def _repr_html_(self) -> str | None:
        from .report_page import fragment

        try:
            return fragment(self._values)
        except Error:
            # A notebook shows the text then.
            return None

    def __repr__(self) -> str:
        return f"Report(compiles={self._values['compiles']}, coverage={self._values['coverage']})"


def _executables(module) -> list[Any] | None:
    found = find(module)
    return None if found is None else found.executables()


profiling.EXECUTABLES.append(_executables)
