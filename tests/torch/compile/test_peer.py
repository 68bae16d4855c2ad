"""The harness of PyTorch's suites, on a small suite of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from peer.workers import Worker

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

SUITE = """
import sys, unittest
import torch
from torch._dynamo import a_name_of_another_version

class CpuTests(unittest.TestCase):
    def test_right(self):
        self.assertEqual(torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2)).sum(), 4)

    def test_only_disc_fails(self):
        self.assertNotIn("disc.torch.compile.backend", sys.modules)

    def test_fails_everywhere(self):
        self.fail()

    def test_of_code(self):
        run_and_get_code()

    def test_of_another_version(self):
        a_name_of_another_version(1, 2)
"""

#: Answers each test, but for two.
CHILD = """
import json, os, sys, time
for line in sys.stdin:
    name = line.strip().partition(":")[2]
    if name == "ends":
        os.abort()
    if name == "hangs":
        time.sleep(60)
    print(json.dumps(["right", ""] if name else {}), flush=True)
"""


def _peer(*arguments: str) -> subprocess.CompletedProcess:
    path = os.pathsep.join([str(HERE), str(ROOT / "python")])
    return subprocess.run(
        [sys.executable, "-m", "peer.run", *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


def test_only_what_fails_with_disc_and_not_with_torch_is_a_finding(tmp_path):
    suite = tmp_path / "test" / "dynamo" / "test_misc.py"
    suite.parent.mkdir(parents=True)
    suite.write_text(SUITE)
    results = tmp_path / "results.json"
    ran = _peer("--tests", str(tmp_path / "test"), "--results", str(results))
    assert "1 fail with torch's own too" in ran.stdout
    assert ran.stdout.endswith("1 right, 1 failed, 2 skipped\n")
    assert ran.returncode == 1
    rows = {name.rpartition(".")[2]: row for name, row in json.loads(results.read_text()).items()}
    assert rows["test_only_disc_fails"]["aot_eager"][0] == "right"
    assert "a_name_of_another_version" in rows["test_of_another_version"]["text"]


def test_a_suite_that_imports_another_loads(tmp_path):
    folder = tmp_path / "test" / "inductor"
    folder.mkdir(parents=True)
    (folder / "test_torchinductor.py").write_text(SUITE)
    suite = "from inductor.test_torchinductor import CpuTests\nclass DynamicTests(CpuTests): pass\n"
    (folder / "test_torchinductor_dynamic_shapes.py").write_text(suite)
    chosen = ["--suite", "inductor.test_torchinductor_dynamic_shapes", "--match", "DynamicTests.test_right"]
    ran = _peer("--tests", str(tmp_path / "test"), "--results", str(tmp_path / "results.json"), *chosen)
    assert ran.stdout.endswith("1 right, 0 failed, 0 skipped\n")


def test_a_test_that_ends_or_hangs_its_process_costs_only_itself(tmp_path):
    worker = Worker([sys.executable, "-c", CHILD], tmp_path / "log")
    outcomes = [worker.run(f"suite:{name}", 5) for name in ("a", "ends", "b", "hangs", "c")]
    worker.stop()
    right, ends, hangs = ("right", ""), "ends the process (SIGABRT)", "takes longer than 5 s"
    assert outcomes == [right, ("failed", ends), right, ("failed", hangs), right]


def test_without_the_files_the_suites_are_skipped():
    ran = _peer("--tests", "")
    assert ran.returncode == 0
    assert ran.stdout.startswith("skipped")
