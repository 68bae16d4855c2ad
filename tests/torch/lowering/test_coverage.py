"""The table of the torch bridge: its size, its names, and the page made from it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from disc.torch.coverage import page
from disc.torch.lowering.table import TABLE
from torch_rows import ROWS

#: The modules that declare ops which are not torch's own.
EXTENSIONS = {"transformers": "transformers.integrations.moe"}
ROOT = Path(__file__).parents[3]


def test_the_page_is_fresh():
    assert page.main(["--check", str(ROOT / "docs" / "coverage-torch.md")]) == 0, (
        "run python -m disc.torch.coverage"
    )


def test_enough_core_overloads_are_served():
    assert sum(name in TABLE for name in page.core_overloads()) >= 150


def test_every_row_of_the_table_is_an_overload_of_torch():
    unknown = []
    for name in TABLE:
        space, op, overload = name.split(".")
        if space in EXTENSIONS:
            pytest.importorskip(EXTENSIONS[space])
        packet = getattr(getattr(torch.ops, space), op, None)
        if overload not in (packet.overloads() if packet is not None else ()):
            unknown.append(name)
    assert unknown == []


def test_every_core_overload_of_the_table_has_a_row_test():
    tested = {row.overload for row in ROWS}
    # The contents of an empty tensor are not defined; test_fft.py tests ops on complex numbers,
    # test_training_rows.py gradients.
    elsewhere = ("aten.empty", "aten._fft", "aten.convolution_backward")
    core = [name for name in page.core_overloads() if not name.startswith(elsewhere)]
    untested = [name for name in core if name in TABLE and name not in tested]
    assert untested == []
