"""The runtime on AArch64, under qemu: picks the code of a package by what the CPU has, and runs it.

Only with ``DISC_AARCH64=all``: `make test-aarch64`. The C API is built by a Rust compiler with the
library for AArch64 (``scripts/arm64.sh rustc``).
"""

from __future__ import annotations

import os
import shutil
import subprocess

import disc
import numpy as np
import pytest
import torch
from deployment import ROOT, Affine
from torch import nn

TRIPLE = "aarch64-unknown-linux-gnu"

#: CPUs in qemu's words, and the best code that each runs of a package with all of it: those of
#: crates/disc/tests/aarch64/target.rs. A CPU runs the code of those before it as well.
CPUS = {
    "cortex-a57": "aarch64-v8",
    "neoverse-n1": "aarch64-v8+dotprod+fp16",
    "max,sve-max-vq=1": "aarch64-v8+bf16+dotprod+fp16+i8mm+sve",
    "max,sve-max-vq=2": "aarch64-v8+bf16+dotprod+fp16+i8mm+sve+sve256",
    "max,sve-max-vq=4": "aarch64-v8+bf16+dotprod+fp16+i8mm+sve+sve256+sve512",
}
HERE = "x86-64-v2"

pytestmark = pytest.mark.skipif(
    os.environ.get("DISC_AARCH64") != "all", reason="part of make test-aarch64 alone"
)


@pytest.fixture(scope="module")
def environment():
    rustc = subprocess.run(
        [ROOT / "scripts/arm64.sh", "rustc"], check=True, capture_output=True, text=True
    ).stdout
    return os.environ | {
        "RUSTC": rustc.strip(),
        "CARGO_INCREMENTAL": "0",
        "CC": "aarch64-linux-gnu-gcc",
        "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER": "aarch64-linux-gnu-gcc",
        # What is built here is small: it needs no lld, which has another name in Debian.
        "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS": "-Clink-arg=-fuse-ld=bfd",
        "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER": "qemu-aarch64 -L /usr/aarch64-linux-gnu",
    }


@pytest.fixture(scope="module")
def programs(tmp_path_factory, environment):
    """The folder of a check and of an example of the C API."""
    folder = tmp_path_factory.mktemp("aarch64")
    subprocess.run(
        ["cargo", "build", "--quiet", "--package", "disc-capi", "--target", TRIPLE],
        cwd=ROOT,
        env=environment,
        check=True,
    )
    built = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / TRIPLE / "debug/libdisc_capi.so"
    shutil.copy(built, folder / "libdisc.so")
    for source in ("tests/packages/capi/check.c", "examples/c/run_package.c"):
        program = folder / source.split("/")[-1].removesuffix(".c")
        link = [f"-L{folder}", "-ldisc", f"-Wl,-rpath,{folder}"]
        header = f"-I{ROOT}/crates/disc-capi/include"
        subprocess.run(
            ["aarch64-linux-gnu-gcc", "-std=c11", header, ROOT / source, "-o", program, *link], check=True
        )
    return folder


def run(cpu, *command, **env):
    command = ["qemu-aarch64", "-cpu", cpu, "-L", "/usr/aarch64-linux-gnu", *map(str, command)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | env)


class Net(nn.Module):
    """Rows of 64 through layers of f32 and of bf16."""

    def __init__(self):
        super().__init__()
        self.wide, self.norm = nn.Linear(64, 96), nn.LayerNorm(96)
        self.narrow, self.last = nn.Linear(96, 80).bfloat16(), nn.Linear(80, 5)

    def forward(self, x):
        y = self.norm(nn.functional.gelu(self.wide(torch.sin(x))))
        return self.last(self.narrow(y.bfloat16()).float()).softmax(-1)


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    folder, dims = tmp_path_factory.mktemp("packages"), {0: {0: "B"}}
    torch.manual_seed(0)
    targets = [HERE, *CPUS.values()]
    disc.export(Affine().eval(), (torch.randn(3, 8),), folder / "affine.discpkg", target=targets)
    disc.export(Net().eval(), (torch.randn(3, 64),), folder / "net.discpkg", dims=dims, target=targets)
    sve = [HERE, CPUS["max,sve-max-vq=1"]]
    disc.export(Affine().eval(), (torch.randn(3, 8),), folder / "sve.discpkg", target=sve)
    return folder


@pytest.mark.parametrize("cpu", CPUS)
def test_calls_and_failures(programs, packages, cpu):
    done = run(cpu, programs / "check", packages / "affine.discpkg")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


@pytest.mark.parametrize("rows", [0, 1, 3, 130])
@pytest.mark.parametrize("cpu", CPUS)
def test_a_model_gives_what_it_gives_here(programs, packages, cpu, rows):
    x = np.arange(rows * 64, dtype=np.float32).reshape(rows, 64)
    expected = disc.load(packages / "net.discpkg")(x)
    done = run(cpu, programs / "run_package", packages / "net.discpkg", rows, 64, 1)
    assert done.returncode == 0, done.stderr
    sizes, _, values = done.stdout.partition("]")
    assert sizes == f"[{rows}, 5"
    np.testing.assert_allclose(np.array(values.split(), np.float32).reshape(rows, 5), expected, atol=2e-3)


@pytest.mark.parametrize("cpu", CPUS)
def test_a_cpu_runs_code_that_needs_no_more_than_it_has(programs, packages, cpu):
    arguments = programs / "run_package", packages / "net.discpkg", 9, 64, 1
    targets, best = list(CPUS.values()), list(CPUS).index(cpu)
    for target in targets[: best + 1]:
        asked = run(cpu, *arguments, DISC_TARGET=target)
        assert asked.returncode == 0, asked.stderr
    # The last one is the best: without a name its code is picked, which gives the same bits.
    assert run(cpu, *arguments).stdout == asked.stdout
    for target in targets[best + 1 :]:
        refused = run(cpu, *arguments, DISC_TARGET=target)
        assert "error[E0903]" in refused.stderr, refused.stderr
        assert target in refused.stderr


def test_a_cpu_without_code_says_what_it_lacks(programs, packages):
    done = run("cortex-a57", programs / "run_package", packages / "sve.discpkg", 2, 8, 1)
    assert done.returncode == 1
    for part in ("error[E0903]", "this processor is aarch64", "bf16, dotprod, fp16, i8mm, sve", HERE):
        assert part in done.stderr, done.stderr


def test_the_tests_of_the_runtime(environment):
    """Forked children are left out: qemu-user does not fork a program of several threads. So are
    examples of the documentation: Debian's compiler comes without rustdoc."""
    packages = ["--package", "disc-abi", "--package", "disc-ral", "--lib", "--tests"]
    done = subprocess.run(
        ["cargo", "test", "--quiet", *packages, "--target", TRIPLE, "--", "--skip", "fork::"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
