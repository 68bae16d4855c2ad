"""Runs the code blocks of README.md and docs/guide, by Sybil.

- Blocks of Python run in the order of the page, in one namespace, in an empty folder. What a page
  leaves out is in an HTML comment before it.
- A block with the comment ``# raises E0403`` has to raise that error.
- A block that begins with ``# on a GPU`` runs where disc has one; elsewhere Python parses it.
- Of a shell block, the commands of disc and openssl run. Of the others, that would install, build
  or never end, the names are checked: targets of make, packages of cargo, files, options.
- Other languages (Rust, C, output) belong to other tests.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import disc
import pytest
from sybil import Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md")), ROOT / "docs" / "security.md")
#: Programs of which a reader has to have one; they are not run here.
FOREIGN = {"curl", "docker", "gcc", "git", "pip", "uv"}
#: Commands of disc that do not end by themselves.
ENDLESS = {"serve"}


def parsed(page: Path):
    """The page with its blocks; each is evaluated by ``example.evaluate()``."""
    parsers = [CodeBlockParser("python", python), CodeBlockParser("sh", shell)]
    return Sybil(parsers=parsers).parse(page)


def python(example: Example) -> None:
    """Runs a block; the one of an error has to raise it, and that of a GPU needs one."""
    if example.parsed.startswith("# on a GPU\n") and "cuda:0" not in disc.devices():
        ast.parse(example.parsed)
        return
    if example.parsed.startswith("# with TensorFlow\n") and not importlib.util.find_spec("tensorflow"):
        ast.parse(example.parsed)
        return
    code = re.search(r"# raises (E\d{4})$", example.parsed, re.MULTILINE)
    if code is None:
        PythonEvaluator()(example)
        return
    with pytest.raises(disc.Error) as raised:
        PythonEvaluator()(example)
    assert raised.value.code == code[1], f"expected {code[1]}: {raised.value}"


def shell(example: Example) -> None:
    for line in statements(example.parsed):
        words = shlex.split(line, comments=True)
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words.pop(0)
        if words:
            command(line, words)


def statements(text: str) -> Iterator[str]:
    """The lines of a script; one whose quotes are open goes on in the next."""
    begun = ""
    for line in text.replace("\\\n", " ").splitlines(keepends=True):
        begun += line
        with contextlib.suppress(ValueError):
            shlex.split(begun, comments=True)
            yield begun
            begun = ""
    assert not begun, f"a quote is not closed: {begun}"


def command(line: str, words: list[str]) -> None:
    program, *arguments = words
    if program in ("disc", "disc-opt", "openssl"):
        if program == "disc" and arguments[0] in ENDLESS:
            known_options(arguments)
        elif program != "openssl" or shutil.which(program):
            run(line)
    elif program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        named = [word for word in arguments if "=" not in word]
        assert set(named) <= set(targets), line
    elif program == "cargo":
        known_package(arguments)
    elif "/" in program:
        assert (ROOT / program).exists() or program.startswith(("target/", "./")), line
    else:
        assert program in FOREIGN, f"no test knows the command {program}: {line}"
    for word in arguments:
        assert not word.startswith(("examples/", "scripts/", "benches/")) or (ROOT / word).exists(), line


def run(line: str) -> None:
    """Runs a command of this checkout in the folder of the page."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(line, shell=True, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def known_options(arguments: list[str]) -> None:
    program = [sys.executable, "-c", "from disc.core.cli import disc; raise SystemExit(disc())"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    said = subprocess.run(
        [*program, arguments[0], "--help"], capture_output=True, text=True, env=environment, check=True
    )
    for word in arguments:
        assert not word.startswith("--") or word in said.stdout, f"{arguments[0]} has no option {word}"


def known_package(arguments: list[str]) -> None:
    for flag, name in itertools.pairwise(arguments):
        if flag in ("-p", "--package"):
            manifest = "xtask/Cargo.toml" if name == "xtask" else f"crates/{name}/Cargo.toml"
            assert (ROOT / manifest).exists(), f"there is no package {name}"
