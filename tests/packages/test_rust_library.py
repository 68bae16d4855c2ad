"""The runtime as a library of Rust programs: its example, and a crate outside of the workspace."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

from deployment import ROOT, affine, cargo_build, needs_cargo

pytestmark = needs_cargo


def test_the_example_runs_a_package(tmp_path):
    (program,) = cargo_build("--package", "disc-ral", "--example", "run_package")
    done = subprocess.run([program, affine(tmp_path), "2"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "f32 [2, 8] [1.0, 1.0" in done.stdout
    done = subprocess.run([program, tmp_path / "none.discpkg", "2"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "error: E0901" in done.stderr


def test_a_crate_that_depends_on_the_runtime_alone_serves(tmp_path):
    folder = ROOT / "examples" / "rust-server"
    # The workspace's folder, so that nothing is built twice.
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    (program,) = cargo_build("--target-dir", str(target), cwd=folder)
    server = subprocess.Popen([program, affine(tmp_path), "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    try:
        host, port = server.stdout.readline().split()[-1].split(":")
        with socket.create_connection((host, int(port)), timeout=30) as client:
            client.sendall(b"0 1 2 3 4 5 6 7\n1 2\n1 x\n")
            client.shutdown(socket.SHUT_WR)
            lines = client.makefile().read().splitlines()
    finally:
        server.kill()
        server.wait()
    assert lines[0] == "1 3 5 7 9 11 13 15"
    assert lines[1].startswith("error: E0")
    assert lines[2].startswith("error: invalid float")


def test_the_runtime_knows_no_compiler():
    tree = subprocess.run(
        ["cargo", "tree", "--package", "disc-ral", "--prefix", "none"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    ours = {line.split()[0] for line in tree.stdout.splitlines() if line.startswith("disc-")}
    assert ours == {"disc-ral", "disc-abi"}
