"""Asks the device for what only it can say: if the corpus is right on it, and if compute-sanitizer
finds anything in kernels of the corpus.

Each part is a process with a limit of its own. The corpus is run by the `disc` of the wheel.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = ROOT / "filetests"
#: Folders of textual tests, those that exist; the first one compares single ops with simt.
FOLDERS = ("conformance", "run")
#: Files whose kernels compute-sanitizer looks at, and the files that a test of the command runs.
SANITIZED, FEW = 40, 2
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
#: Failures that a record quotes.
QUOTED = 20


def disc(*arguments: str) -> list[str]:
    """The command line of `disc`, for a wheel that was unpacked into a folder as well."""
    code = "import sys; from disc.core.cli import disc; sys.exit(disc())"
    return [sys.executable, "-c", code, *arguments]


def run(command: list[str], limit: float) -> dict:
    """Runs a command; the result has its status, its output's end and its seconds."""
    start = time.monotonic()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=max(limit, 1.0)
        )
    except subprocess.TimeoutExpired:
        return {"status": None, "error": f"no result within {limit:.0f} s", "seconds": round(limit, 1)}
    except OSError as error:
        return {"status": None, "error": str(error), "seconds": 0.0}
    return {
        "status": done.returncode,
        "seconds": round(time.monotonic() - start, 1),
        "stdout": done.stdout,
        "said": (done.stderr or done.stdout)[-1500:],
    }


def corpus(folder: Path, on: str, limit: float) -> dict:
    """Returns what `disc test` says of a folder on a device."""
    found = run(disc("test", str(folder), "--on", on, "--json"), limit)
    try:
        told = json.loads(found.pop("stdout", "") or "{}")
    except ValueError:
        told = {}
    if "passed" in told:
        failures = told.get("failures", [])
        found |= {"passed": told["passed"], "failed": told["failed"], "skipped": told.get("skipped"),
                  "failures": failures[:QUOTED]}  # fmt: skip
        found.pop("said", None)
    return found


def picked(count: int, into: Path) -> Path:
    """Copies ``count`` files of the corpus, spread over their names, into a folder."""
    files = sorted((CORPUS / "run").glob("*.disc"))
    for i in range(min(count, len(files))):
        shutil.copy(files[i * len(files) // min(count, len(files))], into)
    return into


def sanitized(tool: str, on: str, limit: float, count: int) -> dict:
    """Returns what a tool of compute-sanitizer says of kernels of the corpus."""
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(sanitizer).exists():
        return {"error": "not installed: compute-sanitizer"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sanitizer, "--tool", tool, "--target-processes", "all", "--print-limit", "20"]
        command += disc("test", str(picked(count, Path(folder))), "--on", on, "--json")
        found = run(command, limit)
    text = found.pop("stdout", "")
    summary = [line.strip("= ") for line in text.splitlines() if "SUMMARY" in line]
    errors = [
        line.strip("= ") for line in text.splitlines() if line.startswith("========= ") and "rror" in line
    ]
    return found | {"summary": summary, "errors": errors[:QUOTED]}


def tests(on: str, limit: float) -> dict:
    """The tests of tests/gpu by pytest, if there are any."""
    folder = ROOT / "tests" / "gpu"
    if not folder.is_dir():
        return {"error": "there is no tests/gpu"}
    found = run([sys.executable, "-m", "pytest", "-q", "-x", "--maxfail", "20", str(folder)], limit)
    found["said"] = (found.pop("stdout", "") or found.get("said", ""))[-3000:]
    return found
