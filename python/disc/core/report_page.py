"""Draws a report: as a page or a part of one by Jinja2, and in a terminal by Rich."""

from __future__ import annotations

from importlib import resources
from typing import Any

from .errors import Error
from .report_rows import rows


def page(values: dict[str, Any]) -> str:
    """A page of its own; it needs nothing of a network."""
    return _rendered("report_page.html", values)


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


def _rendered(name: str, values: dict[str, Any]) -> str:
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
    return environment.get_template(name).render(values=values, rows=rows(values), **_figures(values))


def _figures(values: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the page: shares of the kernels and of the time of compilation, in percent."""
    kinds = dict(sorted(values.get("kernels_by_kind", {}).items(), key=lambda pair: -pair[1]))
    stages = {name: ms for name, ms in values["stages_ms"].items() if name != "total"}
    return {
        "kinds": _shares(kinds),
        "stages": _shares(stages),
        "left": values["fallbacks"],
        "breaks": values.get("graph_breaks", []),
        "facts": [(text, values["asked_at"].get(text)) for text in (*values["facts"], *values["fixed"])],
    }


def _shares(numbers: dict[str, float]) -> list[tuple[str, float, float]]:
    most = max(numbers.values(), default=0) or 1
    return [(name, number, 100 * number / most) for name, number in numbers.items()]
