"""docs/guide/matrix.md has the rows of tests/matrix.json, which scripts/matrix.py adds."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("matrix", ROOT / "scripts" / "matrix.py")
assert _SPEC is not None
assert _SPEC.loader is not None
matrix = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(matrix)


def test_the_page_has_the_rows():
    text = matrix.PAGE.read_text(encoding="utf-8")
    assert matrix.page(text, json.loads(matrix.ROWS.read_text(encoding="utf-8"))) == text


def test_a_row_counts_what_pytest_wrote(tmp_path):
    tests = tmp_path / "test_some.py"
    tests.write_text(
        "import pytest\n\ndef test_a():\n    pass\n\ndef test_b():\n    assert 0\n\n@pytest.mark.skip\ndef test_c():\n    pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider"]
    subprocess.run([*command, "--junitxml", tmp_path / "out.xml", tests], capture_output=True)
    row = matrix.row(sys.executable, tmp_path / "out.xml")
    assert (row["passed"], row["failed"], row["suites"]) == (1, 1, ["some"])
    assert "| 1 | 1 | `some` |" in matrix.table([row])


def test_a_processor_is_named_by_family_and_model():
    info = "model name\t: Intel(R) Xeon(R) Processor @ 2.5GHz\ncpu family\t: 6\nmodel\t\t: 85\n\nmodel name\t: other\n"
    assert matrix.cpu(info) == "Intel Xeon 6/85"
