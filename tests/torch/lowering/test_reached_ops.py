"""Every op on tensors is emitted by a lowering, made by the compiler, or listed here."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
#: The code that chooses ops: by their names, and as ``OpKind::Name``.
LOWERINGS = ("python/disc/lowering", "python/disc/torch/lowering")
COMPOSITIONS = ROOT / "crates" / "disc-import" / "src"

#: Ops that no lowering names because something else makes them.
MADE = {
    "dim": "the builder (crates/disc-python/src/ir)",
    "return": "the builder",
    "unpack_int4": "a pass: weights of four bits",
    "winograd": "a pass: convolutions by Winograd's method",
}
#: Ops that no front end reaches: a framework's op that means one of them only lacks a row.
UNREACHED = {
    "cbrt",
    "count_leading_zeros",
    "get_dimension_size",
    "popcnt",
    "rng_bit_generator",
    "round_nearest_afz",
}


def ops_on_tensors() -> set[str]:
    """The names of the ops in docs/ops.md whose stages begin with tensors."""
    text = (ROOT / "docs" / "ops.md").read_text(encoding="utf-8")
    entries = [entry.split("\n", 1) for entry in re.split(r"^### ", text, flags=re.MULTILINE)[1:]]
    return {
        name for name, doc in entries if re.search(r"^- stages: (on tensors|tensor)\b", doc, re.MULTILINE)
    }


def names_in_lowerings() -> set[str]:
    """Every string in the code of the lowerings, and the ops in that of the compositions."""
    files = [file for folder in LOWERINGS for file in (ROOT / folder).rglob("*.py")]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    strings = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    code = "".join(file.read_text(encoding="utf-8") for file in COMPOSITIONS.rglob("*.rs"))
    kinds = re.findall(r"\bOpKind::(\w+)", code)
    return strings | {re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower() for kind in kinds}


def test_ops_that_no_front_end_reaches_are_listed():
    unreached = ops_on_tensors() - names_in_lowerings() - MADE.keys()
    assert unreached - UNREACHED == set(), "no lowering names these: add a row, or add them to UNREACHED"
    assert UNREACHED - unreached == set(), "these are reached now: take them out of UNREACHED"


def test_ops_that_the_compiler_makes_are_ops():
    assert MADE.keys() - ops_on_tensors() == set()
    assert MADE.keys() & names_in_lowerings() == set()
