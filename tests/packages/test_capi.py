"""The C API: built by cargo, called from C and C++."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from deployment import ROOT, affine, needs_cargo

#: The system's libraries that Rust's own needs, for a static link.
SYSTEM = ["-lpthread", "-ldl", "-lm"]
WARNINGS = ["-Wall", "-Wextra", "-Werror"]

pytestmark = [needs_cargo, pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    out = tmp_path_factory.mktemp("capi")
    subprocess.run([ROOT / "scripts" / "capi.sh", out, "dev"], check=True)
    return out


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return affine(tmp_path_factory.mktemp("package"))


def _build(installed, source, program, *link):
    flags = [
        "-std=c11",
        *WARNINGS,
        f"-I{installed}/include",
        f"-L{installed}/lib",
        f"-Wl,-rpath,{installed}/lib",
    ]
    subprocess.run(["gcc", *flags, str(ROOT / source), "-o", str(program), *link], check=True)
    return program


@pytest.mark.parametrize(
    "link",
    [["-ldisc", "-fsanitize=address,undefined"], ["-l:libdisc.a", *SYSTEM]],
    ids=["shared", "static"],
)
def test_calls_and_failures(installed, package, tmp_path, link):
    program = _build(installed, "tests/packages/capi/check.c", tmp_path / "check", *link)
    done = subprocess.run([program, package], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_the_example_prints_outputs_and_errors(installed, package, tmp_path):
    program = _build(installed, "examples/c/run_package.c", tmp_path / "run_package", "-ldisc")
    done = subprocess.run([program, package, "2", "8", "1"], capture_output=True, text=True)
    values = " ".join(str(2 * i + 1) for i in range(16))
    assert (done.returncode, done.stdout) == (0, f"[2, 8] {values}\n"), done.stderr
    done = subprocess.run([program, package, "2", "7", "1"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error[E0")
    done = subprocess.run([program, tmp_path / "none.discpkg", "2", "8", "1"], capture_output=True, text=True)
    assert "error[E0901]" in done.stderr


def test_the_header_is_that_of_cpp_too(installed, tmp_path):
    source = tmp_path / "header.cpp"
    source.write_text(
        "#include <disc.h>\nint main() { disc_tensor t = {}; disc_tensor_free(&t); return t.rank != 0; }\n"
    )
    program = tmp_path / "header"
    flags = ["-std=c++17", "-pedantic", *WARNINGS, f"-I{installed}/include", f"-L{installed}/lib"]
    rpath = f"-Wl,-rpath,{installed}/lib"
    subprocess.run(["g++", *flags, str(source), "-o", str(program), "-ldisc", rpath], check=True)
    assert subprocess.run([program]).returncode == 0


def test_the_library_exports_the_names_of_the_header_alone(installed):
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", installed / "lib" / "libdisc.so"],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.split()[-1] for line in listing.stdout.splitlines()}
    header = (installed / "include" / "disc.h").read_text()
    assert names == {name for name in names if f"{name}(" in header}
    assert len(names) == 9
