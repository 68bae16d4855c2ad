"""Draws a report: as a page or a part of one by Jinja2, and in a terminal by Rich."""

from __future__ import annotations

from importlib import resources
from typing import Any

from .errors import Error
from .profiling import Profile
from .report_rows import kernel_lines, of_nothing, rows

#: So many kernels are shown.
_MOST_KERNELS = 40


def page(values: dict[str, Any], profile: Profile | None = None) -> str:
    """A page of its own; it needs nothing of a network."""
    return _rendered("report_page.html", values, profile)


def fragment(values: dict[str, Any]) -> str:
    """A part of a page, as notebooks show it."""
    return _rendered("report.html", values)


def table(values: dict[str, Any]):
    """A table of Rich."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE, show_header=False, title="disc", title_justify="left")
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    warned = ("torch runs", "break", "recompiled")
    for title, text in rows(values):
        made.add_row(title, Text(text, style="yellow" if title in warned else ""))
    return made


def _rendered(name: str, values: dict[str, Any], profile: Profile | None = None) -> str:
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
    except ImportError:
        raise Error("a report as HTML needs the package jinja2", help="pip install jinja2") from None
    folder = resources.files(__package__).joinpath("templates")
    environment = Environment(
        loader=FunctionLoader(lambda name: folder.joinpath(name).read_text(encoding="utf-8")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template(name).render(
        values=values, rows=rows(values), nothing=of_nothing(values), **_figures(values, profile)
    )


def _figures(values: dict[str, Any], profile: Profile | None) -> dict[str, Any]:
    """Numbers of the page: shares of the kernels and of the time of compilation, in percent."""
    kinds = dict(sorted(values.get("kernels_by_kind", {}).items(), key=lambda pair: -pair[1]))
    stages = {name: ms for name, ms in values["stages_ms"].items() if name != "total"}
    return {
        "kinds": _shares(kinds),
        "stages": _shares(stages),
        "kernels": _timed(profile) if profile is not None else [],
        "lines": kernel_lines(values),
        "left": values["fallbacks"],
        "breaks": values.get("graph_breaks", []),
        "facts": [(text, values["asked_at"].get(text)) for text in (*values["facts"], *values["fixed"])],
    }


def _timed(profile: Profile) -> list[dict[str, Any]]:
    kernels = profile.kernels
    whole = sum(kernel.ns for kernel in kernels) or 1
    return [
        {
            "name": kernel.name,
            "us": kernel.ns / 1e3,
            "count": kernel.count,
            "share": 100 * kernel.ns / whole,
            "layers": ", ".join(kernel.layers),
            "lines": ", ".join(kernel.lines),
        }
        for kernel in kernels[:_MOST_KERNELS]
    ]


def _shares(numbers: dict[str, float]) -> list[tuple[str, float, float]]:
    most = max(numbers.values(), default=0) or 1
    return [(name, number, 100 * number / most) for name, number in numbers.items()]
