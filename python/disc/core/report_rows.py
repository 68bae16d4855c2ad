"""Words the values of a report: rows of a title and a text, which every form of it shows."""

from __future__ import annotations

from typing import Any

from .fact_words import in_words

#: So many rows of a kind are shown.
MOST_ROWS = 8


def rows(values: dict[str, Any]) -> list[tuple[str, str]]:
    """The report as titles and texts."""
    if (nothing := of_nothing(values)) is not None:
        return [("compiled", nothing), *_left(values)]
    return [*_compiled(values), *_held(values), *_left(values)]


def of_nothing(values: dict[str, Any]) -> str | None:
    """The text that stands for numbers of compiled code where there is none; None if there is."""
    if values["clusters"]:
        return None
    if not values.get("signatures"):
        return "nothing yet: no call was made, and the first one of each form compiles it"
    return "nothing: the framework runs every call"


def _compiled(v: dict[str, Any]) -> list[tuple[str, str]]:
    inputs = "; ".join(f"{name} [{', '.join(row)}]" for name, row in v["dims"].items())
    found = [("inputs", inputs)]
    found += [(name, _with_lines(v, name)) for name in ("facts", "fixed") if v[name]]
    compiles = f"{v['compiles']} (cache hits {v['cache_hits']})"
    found.append(("compiles", f"{compiles}, coverage {v['coverage']:.0%} of {v['operations']} operations"))
    found.append(("runs on", f"{v['device']}, code for {v['target']}"))
    if "kernels" in v:
        kinds = ", ".join(f"{n} {kind}" for kind, n in v.get("kernels_by_kind", {}).items())
        found.append(("kernels", f"{v['kernels']}{f' ({kinds})' if kinds else ''}"))
        if syncs := v.get("syncs"):
            found.append(("syncs", f"{syncs} a call: reads of the device's memory that the host waits for"))
        if lines := [f"{group} {text[0]}{_others(text)}" for group, text in kernel_lines(v)]:
            rest = f"; and {len(lines) - MOST_ROWS} more, see to_dict()" if len(lines) > MOST_ROWS else ""
            found.append(("lines", "; ".join(lines[:MOST_ROWS]) + rest))
        found += [("plan", f"{plan['kernels']} where {plan['when']}") for plan in v.get("plans", [])]
    found.append(("stages, ms", ", ".join(f"{name} {ms:.0f}" for name, ms in v["stages_ms"].items())))
    special = v.get("specialized", {})
    if versions := special.get("versions"):
        made = ", ".join(f"({one['dims']}) {one['hits']} calls" for one in versions)
        size = f"{special['code_bytes'] / 1024:.0f} KiB"
        found.append(("specialised", f"{made}; {size}, compiled in {special['compile_ms']:.0f} ms"))
    library = v.get("library", {})
    if library.get("name"):
        ways = f"{library['by_library']} products, kernels {library['by_kernel']}"
        choices = f"{len(library['choices'])} choices"
        found.append(("library", f"{library['name']} ({library['policy']}): {ways}, {choices}"))
    return found


def kernel_lines(values: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """The model's source lines of each group of kernels, in the order of the groups."""
    return sorted(values.get("lines", {}).items(), key=lambda pair: int(pair[0][1:]))


def _others(lines: list[str]) -> str:
    return f" (+{len(lines) - 1})" if len(lines) > 1 else ""


def _held(v: dict[str, Any]) -> list[tuple[str, str]]:
    asked = ["capture", "code"] + ["weights"] * (v["cache"]["weights"] != "off")
    held, unreleased = v["held_weight_bytes"] / 2**20, v["unreleased_weight_bytes"] / 2**20
    return [
        ("cache", ", ".join(f"{name} {v['cache'][name]}" for name in asked)),
        ("weights", f"{held:.1f} MiB held ({unreleased:.1f} MiB without release_weights)"),
        ("calls", str(v["calls"])),
    ]


def _left(values: dict[str, Any]) -> list[tuple[str, str]]:
    """Rows about what the framework runs, and about the graphs of ``torch.compile``."""
    graphs = [
        (
            f"graph {graph['id']}",
            f"{graph['operations']} operations, {graph['kernels']} kernels, "
            f"coverage {graph['coverage']:.0%}, {graph['calls']} calls",
        )
        for graph in values.get("graphs", [])[:MOST_ROWS]
    ]
    graphs += [
        (
            "encoder",
            f"{one['name']}: {one['operations']} operations, {one['kernels']} kernels, "
            f"coverage {one['coverage']:.0%}, {one['calls']} calls",
        )
        for one in values.get("encoders", [])
    ]
    left = [("torch runs", f"{row['op']}: {row['reason']}", row["source"]) for row in values["fallbacks"]]
    left += [("break", row["reason"], row["source"]) for row in values.get("graph_breaks", [])]
    left += [("recompiled", f"{row['id']}: {row['reason']}", None) for row in values.get("recompiles", [])]
    found = [
        (name, text.splitlines()[0] + (f" ({source})" if source else ""))
        for name, text, source in left[:MOST_ROWS]
    ]
    if len(left) > MOST_ROWS:
        found.append(("", f"and {len(left) - MOST_ROWS} more, see to_dict()"))
    return [*graphs, *found]


def _with_lines(values: dict[str, Any], what: str) -> str:
    """Facts or fixed sizes, with the lines of the model that ask for them."""
    lines = values["asked_at"]
    texts = [(text, in_words(text, values["facts"]) if what == "facts" else text) for text in values[what]]
    return "; ".join(f"{words} ({lines[text]})" if text in lines else words for text, words in texts)
