"""Rows of ops whose result has a size that the data says."""

from __future__ import annotations

from .row import ALL, NUMBERS, WIDE, T, row

ONE = ("f32", "i64", "bool")
MASK = "bool"
COUNTS = T("N", kind="index", below=4, dtype="i64")

ROWS = [
    row("nonzero.default", T("B N", kind="ties"), dtypes=ALL),
    row("nonzero.default", T("B N M", dtype=MASK), dtypes=("bool",), note="mask"),
    row("argwhere.default", T("B N", dtype=MASK), dtypes=("bool",)),
    row("where.default", T("B N", dtype=MASK), dtypes=("bool",)),
    row("masked_select.default", T("B N"), T("B N", dtype=MASK), dtypes=ALL),
    row("masked_select.default", T("B N"), T("N", dtype=MASK), dtypes=ONE, note="rows"),
    row("index.Tensor", T("N M"), [T("N", dtype=MASK)], dtypes=ALL, note="mask"),
    row("index.Tensor", T("B N M"), [T("B N", dtype=MASK)], dtypes=ONE, note="mask-of-two"),
    row("index.Tensor", T("B N M"), [None, T("N", dtype=MASK)], dtypes=ONE, note="mask-second"),
    row("_unique2.default", T("B N", kind="ties"), True, True, True, dtypes=NUMBERS, special=False),
    row("_unique2.default", T("B N", kind="ties"), dtypes=WIDE, note="alone", special=False),
    row("unique_consecutive.default", T("B N", kind="ties"), True, True, dtypes=NUMBERS, special=False),
    row("repeat_interleave.Tensor", COUNTS, dtypes=("i64",)),
    row("repeat_interleave.self_Tensor", T("B N"), COUNTS, 1, dtypes=ALL),
    row("bincount.default", T("N", kind="index", below=6, dtype="i64"), dtypes=("i64",)),
]
