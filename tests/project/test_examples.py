"""Runs the examples: each program asserts that its results are eager's.

The ones that need no further package run in this process; ``--examples all`` (``make examples``)
runs each as a user does, in a process of its own, and the notebooks.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.fallback

FOLDER = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(path.stem for path in (FOLDER / "notebooks").glob("*.ipynb"))
#: `make demo` runs it.
DEMO = "demo"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != DEMO)
#: They need no package beside those of requirements/test.txt, and take seconds.
QUICK = (
    "lstm_tagger",
    "packages",
    "pipeline",
    "recommender",
    "resnet_any_size",
    "sentence_embeddings",
    "small_weights",
    "training",
)
LONGEST = 60


@pytest.fixture
def in_all(request):
    if request.config.getoption("--examples") != "all":
        pytest.skip("runs in `make examples`")


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_example_runs(name, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_runs_alone(name, in_all, tmp_path):
    home = {"HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(FOLDER.parent / "python")}
    # A network that answers nothing: an example that downloads fails.
    closed = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    ran = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py"],
        env={**os.environ, **home, **closed},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) >= 3


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name, in_all, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    import nbformat

    monkeypatch.setenv("PYTHONPATH", str(FOLDER.parent / "python"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(FOLDER / "notebooks" / f"{name}.ipynb", as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=200, kernel_name="python3", resources=resources).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count is not None for cell in code)
    assert any(cell.outputs for cell in code)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_has_no_outputs(name):
    """Outputs go stale, and show the machine of whoever ran them."""
    import json

    notebook = json.loads((FOLDER / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_examples_are_short_and_listed():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert set(QUICK) <= set(PROGRAMS)
    for name in PROGRAMS:
        assert len((FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()) < LONGEST, name
        assert f"({name}.py)" in page, name
    for name in NOTEBOOKS:
        assert f"(notebooks/{name}.ipynb)" in page, name
