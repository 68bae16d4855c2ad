"""The suites of `make bench`: well-formed, and right: every graph of two suites against eager,
at sizes 0 and 1 too.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import disc
import pytest
import torch
from torch.utils import _pytree as pytree

BENCHES = Path(__file__).parents[2] / "benches"


def suite(name: str):
    sys.path.insert(0, str(BENCHES))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHES))


MEMORY = {case.name: case for case in suite("memory").cases()}
INDEX = {case.name: case for case in suite("index").cases()}


def test_the_memory_suite_is_broad():
    several = 0
    for case in MEMORY.values():
        with torch.no_grad():
            several += (
                len(pytree.tree_leaves(case.module(*case.inputs(case.sizes[-1][:1] * len(case.sizes[0])))))
                > 1
            )
    assert len(MEMORY) >= 30
    assert several >= len(MEMORY) // 3


@pytest.mark.parametrize("name", ["memory", "attention", "conv", "index"])
def test_sizes_of_a_case_are_distinct(name):
    names = []
    for case in suite(name).cases():
        names.append(case.name)
        assert len(set(case.sizes)) == len(case.sizes) >= (2 if name == "index" else 3), case.name
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", MEMORY)
def test_graphs_of_the_memory_suite_are_right(name, compile_module):
    case = MEMORY[name]
    torch.manual_seed(0)
    small = ((2, 7), (1, 1), (3, 0), (5, 2)) if len(case.sizes[0]) == 2 else ((2, 7, 5), (1, 1, 1), (3, 0, 4))
    compiled = compile_module(case.module, case.inputs(small[0]))
    for size in small:
        inputs = case.inputs(size)
        with torch.no_grad():
            try:
                expected = pytree.tree_leaves(case.module(*inputs))
            except (RuntimeError, IndexError, ValueError, ZeroDivisionError):
                continue
        try:
            results = pytree.tree_leaves(compiled(*inputs))
        except disc.DimError:
            # Sizes of which the model, as it was traced, needs at least one.
            assert 0 in size
            continue
        for got, wanted in zip(results, expected, strict=True):
            torch.testing.assert_close(
                got, wanted, rtol=1e-4, atol=1e-4, equal_nan=True, msg=lambda m, s=size: f"{s}: {m}"
            )


def inputs_of(case, size):
    try:
        return case.inputs(size)
    except (RuntimeError, ValueError):
        return None


@pytest.mark.parametrize("name", INDEX)
def test_graphs_of_the_index_suite_are_right(name, compile_module):
    case = INDEX[name]
    torch.manual_seed(0)
    two = ((40, 7), (8, 1), (1, 1), (3, 0), (0, 5), (2, 1100))
    sizes = two if len(case.sizes[0]) == 2 else ((300,), (1,), (0,))
    compiled = compile_module(case.module, case.inputs(case.sizes[0]))
    tried = 0
    for size in sizes:
        if (inputs := inputs_of(case, size)) is None:
            continue
        with torch.no_grad():
            try:
                expected = pytree.tree_leaves(case.module(*inputs))
            except (RuntimeError, IndexError, ValueError):
                continue
        tried += 1
        for got, wanted in zip(pytree.tree_leaves(compiled(*inputs)), expected, strict=True):
            torch.testing.assert_close(
                got, wanted, rtol=1e-4, atol=1e-4, equal_nan=True, msg=lambda m, s=size: f"{s}: {m}"
            )
    assert tried


def test_a_worker_measures_a_half_type_beside_f32():
    command = [sys.executable, str(BENCHES / "run.py"), "--worker", "--suite", "memory", "--threads", "1"]
    command += ["--peers", "eager,single,ort", "--case", "unit_rows", "--rounds", "1", "--sizes", "1"]
    done = subprocess.run([*command, "--dtype", "bf16"], capture_output=True, text=True, check=True)
    (result,) = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert result["dtype"] == "bf16"
    assert all(row["us"]["disc"] > 0 < row["us"]["single"] for row in result["rows"])
    # Eager rounds to bf16, and so does disc; disc in f32 does not.
    assert result["largest_error"]["disc"] < result["largest_error"]["single"] < 5e-2
    assert "ort" in result["skipped"]


def test_a_worker_measures_and_names_what_it_skips(compile_module):
    command = [sys.executable, str(BENCHES / "run.py"), "--worker", "--suite", "memory", "--threads", "1"]
    command += ["--peers", "eager,ort", "--case", "unit_rows", "--rounds", "1", "--sizes", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (result,) = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert result["case"] == "unit_rows"
    assert all(row["us"]["disc"] > 0 < row["us"]["eager"] for row in result["rows"])
    assert result["largest_error"]["disc"] < 1e-4
    assert "ort" in result["skipped"] or "ort" in result["first_result_s"]
