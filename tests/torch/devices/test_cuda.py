"""Calls on the device ``cuda``, with a driver that runs kernels on simulated GPUs.

Each case is a process of its own: there the driver is the one of the machine.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]
CASES = (
    "devices",
    "arrays_of_the_host",
    "arrays_of_the_device",
    "arrays_elsewhere",
    "modules",
    "late_errors",
    "memory_of_torch",
)


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """A folder with the driver, as the loader finds it."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug"
    # The Rust tests have built it.
    built = [
        path
        for path in (target / "libdisc_fake_cuda.so", target / "deps" / "libdisc_fake_cuda.so")
        if path.exists()
    ]
    if not built:
        if shutil.which("cargo") is None:
            pytest.skip("the driver of these tests is built by cargo")
        subprocess.run(["cargo", "build", "--quiet", "--package", "disc-fake-cuda"], cwd=ROOT, check=True)
        built = [target / "libdisc_fake_cuda.so"]
    library = max(built, key=lambda path: path.stat().st_mtime)
    folder = tmp_path_factory.mktemp("driver")
    (folder / "libcuda.so.1").symlink_to(library)
    return folder


@pytest.mark.parametrize("case", CASES)
def test_calls_on_a_gpu(driver, case):
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver), "DISC_CACHE": "0"}
    child = [sys.executable, str(pathlib.Path(__file__).with_name("cuda_child.py")), case]
    done = subprocess.run(child, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
