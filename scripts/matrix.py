"""Keeps docs/guide/matrix.md: on which systems and versions tests ran, with what result.

usage: python scripts/matrix.py [PYTHON RESULTS.xml]

With arguments it adds a row to tests/matrix.json: the results that pytest wrote for the interpreter
PYTHON (--junitxml), in place of an older row of the same system. It writes the table from the rows.
"""

from __future__ import annotations

import datetime
import json
import platform
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent
ROWS = ROOT / "tests" / "matrix.json"
PAGE = ROOT / "docs" / "guide" / "matrix.md"
BEGIN, END = "<!-- generated: matrix -->", "<!-- end of matrix -->"
#: Rows of one system replace each other.
KEY = ("os", "python", "torch", "cpu")


def row(interpreter: str, results: Path) -> dict:
    """Describes a run: the system, the versions of an environment, the counts of its tests."""
    ask = "import platform, torch; print(platform.python_version(), torch.__version__.split('+')[0])"
    answer = subprocess.run([interpreter, "-c", ask], capture_output=True, text=True, check=True).stdout
    python, torch = answer.split()
    suite = ElementTree.parse(results).getroot().find("testsuite")
    count = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    failed = count["failures"] + count["errors"]
    about = platform.freedesktop_os_release()
    return {
        "os": f"{about['NAME']} {about.get('VERSION_ID', '')}".strip(),
        "python": ".".join(python.split(".")[:2]),
        "torch": torch,
        "cpu": cpu(Path("/proc/cpuinfo").read_text(encoding="utf-8")),
        "day": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "suites": sorted({_suite(case.get("classname", "")) for case in suite.iter("testcase")}),
        "passed": count["tests"] - failed - count["skipped"],
        "failed": failed,
    }


def _suite(classname: str) -> str:
    """The name of a file of tests: `slices` for `tests.torch.symbolic.test_slices.TestOf`."""
    found = re.search(r"\btest_(\w+)", classname)
    return found[1] if found else "docstrings"


def cpu(info: str) -> str:
    """The maker's name of the processor, its family and model."""
    fields = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", info.split("\n\n")[0], re.MULTILINE))
    name = re.sub(r"\((R|TM)\)| Processor| CPU|@.*", "", fields.get("model name", "unknown")).strip()
    return f"{name} {fields.get('cpu family', '?')}/{fields.get('model', '?')}"


def table(rows: list[dict]) -> str:
    lines = [
        "| system | Python | torch | CPU (family/model) | day | passed | failed | suites |",
        "|---|---|---|---|---|---:|---:|---|",
    ]
    for one in sorted(rows, key=lambda one: [_version(one["torch"]), _version(one["python"]), one["os"]]):
        suites = (
            ", ".join(f"`{name}`" for name in one["suites"])
            if len(one["suites"]) <= 8
            else f"{len(one['suites'])} files"
        )
        cells = [one["os"], one["python"], one["torch"], one["cpu"] or "not noted", one["day"]]
        lines.append(f"| {' | '.join(cells)} | {one['passed']:,} | {one['failed']:,} | {suites} |")
    return "\n".join(lines)


def _version(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)]


def page(text: str, rows: list[dict]) -> str:
    """The page with the table of the rows in its place."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table(rows)}\n{END}{rest.split(END)[1]}"


def main(arguments: list[str]) -> None:
    rows = json.loads(ROWS.read_text(encoding="utf-8"))
    if arguments:
        made = row(arguments[0], Path(arguments[1]))
        rows = [one for one in rows if any(one[name] != made[name] for name in KEY)] + [made]
        ROWS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
