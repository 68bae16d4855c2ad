"""Prints a record: as text for a terminal, and as Markdown for docs/performance."""

from __future__ import annotations

import math

OURS = "disc"


def geomean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def kernels_of(row: dict, name: str) -> float | None:
    """Kernels of a call, by the profiler of torch, or by disc's own where that counted none."""
    found = row.get("kernels", {})
    if name == OURS and (own := found.get("disc_profile", {}).get("launches")):
        return own
    return found.get(name, {}).get("kernels")


def floor_of(contents: dict, row: dict, at: dict) -> dict:
    """The floor of one size of a case."""
    from .roofline import floor

    return floor(contents["ceilings"] or {}, row["dtype"], at["bytes"], at["flops"], kernels_of(row, OURS))


def us(at: dict, name: str) -> float | None:
    return at["times"].get(name, {}).get("us")


def ratios(results: list[dict], name: str) -> list[float]:
    """Times of a contestant over those of disc, each size by itself."""
    found = []
    for row in results:
        for at in row.get("rows", []):
            ours, theirs = us(at, OURS), us(at, name)
            if ours and theirs:
                found.append(theirs / ours)
    return found


def against_best(results: list[dict]) -> list[float]:
    """Times of the best of the others over those of disc."""
    found = []
    for row in results:
        for at in row.get("rows", []):
            others = [t["us"] for name, t in at["times"].items() if name != OURS]
            if (ours := us(at, OURS)) and others:
                found.append(min(others) / ours)
    return found


def names_of(contents: dict) -> list[str]:
    """The contestants beside disc, in the order in which they appear."""
    seen: dict[str, None] = {}
    for row in contents["results"]:
        for at in row.get("rows", []):
            seen.update(dict.fromkeys(at["times"]))
        seen.update(dict.fromkeys(row.get("skipped", {})))
    return [name for name in seen if name != OURS]


def cells(contents: dict) -> tuple[list[str], list[list[str]]]:
    """The titles and the rows of the table of sizes."""
    names = names_of(contents)
    titles = [
        "case",
        "type",
        "size",
        "disc us",
        "host us",
        "kernels",
        "floor us",
        "of floor",
        "of copy",
        *names,
    ]
    found = []
    for row in contents["results"]:
        for at in row.get("rows", []):
            ours, least = us(at, OURS), floor_of(contents, row, at)
            host = at["times"].get(OURS, {}).get("host_us")
            count = kernels_of(row, OURS)
            line = [row["case"], row["dtype"], "x".join(map(str, at["size"])), _number(ours), _number(host)]
            line.append("-" if count is None else f"{count:g}")
            line.append(f"{_number(least['us'])} {least['bound']}" if least["bound"] else "-")
            line.append(f"{least['us'] / ours:.0%}" if ours and least["us"] else "-")
            line.append(f"{at['copy_us'] / ours:.0%}" if ours and at.get("copy_us") else "-")
            line += [f"{t / ours:.2f}" if ours and (t := us(at, name)) else "-" for name in names]
            found.append(line)
    return titles, found


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"


#: Sizes of the memory suite, by their place in a case.
SIZES = ("all graphs at the smaller size", "all graphs at the larger size")


def groups(contents: dict) -> dict[str, list[dict]]:
    """Rows by the workload that they are summed up for: models each by itself, the graphs of the
    memory suite all together, but each of their two sizes.
    """
    found: dict[str, list[dict]] = {}
    for row in contents["results"]:
        if contents["kind"] != "memory":
            found.setdefault(f"{row['case']}, {row['dtype']}", []).append(row)
            continue
        for name, at in zip(SIZES, row.get("rows", []), strict=False):
            found.setdefault(f"{name}, {row['dtype']}", []).append({**row, "rows": [at]})
    return found


def summary(contents: dict) -> list[str]:
    """Geometric means for each workload, in sentences."""
    names, lines = names_of(contents), []
    for title, rows in groups(contents).items():
        parts = [f"{name} {_spread(r)}" for name in names if (r := ratios(rows, name))]
        if best := against_best(rows):
            parts.append(f"the best of them {_spread(best)}")
        if shares := _of_floor(contents, rows):
            parts.append(f"share of the floor {geomean(shares):.0%}")
        if shares := _of_copy(rows):
            parts.append(f"of the rate of a copy {geomean(shares):.0%}")
        if parts:
            lines.append(f"{title}: {', '.join(parts)}")
        if contents["kind"] != "memory":
            lines += [line for row in rows for line in _streams(row, title)]
    return lines


def _spread(values: list[float]) -> str:
    return f"{geomean(values):.2f} (least {min(values):.2f})"


def _of_copy(rows: list[dict]) -> list[float]:
    pairs = [(us(at, OURS), at.get("copy_us")) for row in rows for at in row.get("rows", [])]
    return [copy / ours for ours, copy in pairs if ours and copy]


def _of_floor(contents: dict, rows: list[dict]) -> list[float]:
    found = []
    for row in rows:
        for at in row.get("rows", []):
            ours, least = us(at, OURS), floor_of(contents, row, at)["us"]
            if ours and least:
                found.append(least / ours)
    return found


def _streams(row: dict, title: str) -> list[str]:
    """The times of a pass over all sizes: of the first one, with compilation, and of later ones."""
    stream, lines = row.get("stream_us", {}), []
    if OURS in stream:
        parts = [f"{name} {t / stream[OURS]:.2f}" for name, t in stream.items() if name != OURS]
        lines.append(f"{title}, all sizes in turn: disc {stream[OURS]:.0f} us, {', '.join(parts)}")
    if row.get("cold_s"):
        parts = [f"{name} {seconds:.1f} s" for name, seconds in row["cold_s"].items()]
        lines.append(f"{title}, first calls of all sizes: {', '.join(parts)}")
    return lines


def left_out(contents: dict) -> list[str]:
    """Sentences about contestants that were skipped, errors, and what there was no time for."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in contents["results"]:
        for name, reason in row.get("skipped", {}).items():
            reasons.setdefault((name, reason), []).append(row["case"])
    lines = [
        f"skipped {name} on {len(cases)} of {len(contents['results'])} cases ({', '.join(cases[:3])}): {reason}"
        for (name, reason), cases in reasons.items()
    ]
    lines += [
        f"error in {row['case']} {row['dtype']}: {row['error']}"
        for row in contents["results"]
        if "error" in row
    ]
    if contents["left"]:
        lines.append(f"no time for: {', '.join(contents['left'])}")
    return lines


def head(contents: dict) -> list[str]:
    """The command, the device and its ceilings."""
    device, ceilings = contents["device"] or {}, contents["ceilings"] or {}
    lines = [contents["command"], f"{contents['time']}, {contents['state']}"]
    lines.append(f"{device.get('card', 'no device')}; {contents['machine']['cpu']}")
    lines.append(", ".join(f"{name} {version}" for name, version in device.get("packages", {}).items()))
    lines += [f"not quiet: {reason}" for reason in contents["not_quiet"]]
    if rate := ceilings.get("copy_gbs"):
        lines.append(f"copy {rate:.0f} GB/s, read and written")
    if rates := ceilings.get("products"):
        lines.append(
            "matmuls " + ", ".join(f"{name} {rate:.3g}" for name, rate in rates.items()) + " TFLOP/s"
        )
    if launches := ceilings.get("launches"):
        lines.append(
            "launches, us: " + ", ".join(f"{n[:-3]} {t}" for n, t in launches.items() if t is not None)
        )
    lines += [f"not measured: {name}: {reason}" for name, reason in ceilings.get("errors", {}).items()]
    if "error" in ceilings:
        lines.append(f"not measured: ceilings: {ceilings['error']}")
    return lines


def parts(contents: dict) -> list[str]:
    """A line for each part of the record that is no case."""
    rate = (contents["ceilings"] or {}).get("copy_gbs")
    return [f"{name}: {_part(found, rate)}" for name, found in contents["parts"].items()]


def _part(found: dict, rate: float | None) -> str:
    if "error" in found:
        return found["error"]
    if "passed" in found:
        return f"{found['passed']} passed, {found['failed']} failed, {found['skipped']} skipped"
    if "summary" in found:
        return (
            "; ".join(found["summary"])
            or f"status {found['status']}, no summary: {found.get('said', '')[-200:]}"
        )
    if found.get("kernels"):
        return "; ".join(_kernel(kernel, rate) for kernel in found["kernels"])
    return f"status {found.get('status')}: {found.get('said', '').strip()[-200:]}"


def _kernel(kernel: dict, rate: float | None) -> str:
    """A kernel with its rate, and the share of that of a copy."""
    share = f" ({kernel['gbs'] / rate:.0%} of a copy)" if rate and kernel["gbs"] else ""
    return f"{kernel.get('graph', '')} {kernel['name']} {kernel['gbs']} GB/s{share}".strip()


def line(row: dict) -> str:
    """One line for a case that has just been measured."""
    totals: dict[str, float] = {}
    for at in row.get("rows", []):
        for name, times in at["times"].items():
            totals[name] = totals.get(name, 0.0) + times["us"]
    said = ", ".join(f"{name} {total:.0f} us" for name, total in totals.items())
    return f"{row['case']} {row['dtype']}: {said or row.get('error') or 'nobody was timed'}"


def text(contents: dict) -> str:
    titles, rows = cells(contents)
    lines = [*head(contents), *parts(contents)]
    if rows:
        wide = [max(len(row[i]) for row in (titles, *rows)) for i in range(len(titles))]
        lines.append("")
        for row in (titles, *rows):
            lines.append(
                "  ".join(
                    c.ljust(w) if i < 3 else c.rjust(w)
                    for i, (c, w) in enumerate(zip(row, wide, strict=True))
                ).rstrip()
            )
        lines += ["", "Columns of others: their time over that of disc; above 1 disc is faster."]
    return "\n".join([*lines, *summary(contents), *left_out(contents)])


def markdown(contents: dict) -> str:
    device = contents["device"] or {}
    day = f"{contents['time'][:4]}-{contents['time'][4:6]}-{contents['time'][6:8]}"
    lines = [f"{device.get('card', 'No device')}, {day}, `{contents['command']}`, {contents['state']}.", ""]
    titles, rows = cells(contents)
    if rows:
        lines += [f"| {' | '.join(titles)} |", "|---|---|---|" + "---:|" * (len(titles) - 3)]
        lines += [f"| {' | '.join(row)} |" for row in rows]
        lines.append("")
    told = [*head(contents)[4:], *parts(contents), *summary(contents), *left_out(contents)]
    return "\n".join([*lines, *(f"- {line}" for line in told)])
