"""Rows of reductions, scans and sorting."""

from __future__ import annotations

from .row import ALL, FLOATS, INTS, NUMBERS, WIDE, T, row

FULL = T("B N M")
ROWS = [
    row("sum.default", T(), dtypes=ALL),
    row("sum.dim_IntList", FULL, [0, -1], dtypes=ALL),
    row("sum.dim_IntList", FULL, [1], True, dtypes=ALL, note="keepdim"),
    row("mean.default", T(), dtypes=FLOATS),
    row("mean.dim", FULL, [-1, 1], True, dtypes=FLOATS),
    row("prod.default", T("N"), dtypes=ALL),
    row("prod.dim_int", FULL, 1, dtypes=ALL),
    row("amax.default", FULL, [0, 2], dtypes=ALL),
    row("amin.default", FULL, [1], True, dtypes=ALL),
    row("max.default", T(), dtypes=ALL),
    row("min.default", T(), dtypes=ALL),
    row("max.dim", T(kind="ties"), 1, dtypes=ALL),
    row("min.dim", T(kind="ties"), 0, True, dtypes=ALL),
    row("argmax.default", T(kind="ties"), 1, dtypes=NUMBERS),
    row("argmax.default", T(kind="ties"), dtypes=NUMBERS, note="flat"),
    row("argmin.default", T(kind="ties"), 0, True, dtypes=NUMBERS),
    row("aminmax.default", T(), dim=1, dtypes=NUMBERS),
    row("any.default", T(kind="truth"), dtypes=ALL),
    row("any.dim", T(kind="truth"), 1, dtypes=ALL),
    row("any.dims", FULL, [0, 1], dtypes=ALL),
    row("all.default", T(kind="truth"), dtypes=ALL),
    row("all.dim", T(kind="truth"), 1, True, dtypes=ALL),
    row("all.dims", FULL, [0, 1], dtypes=ALL),
    row("var.correction", FULL, [1, 2], dtypes=FLOATS),
    row("var.correction", FULL, [0], correction=0, keepdim=True, dtypes=FLOATS, note="population"),
    row("std.correction", FULL, [2], dtypes=FLOATS),
    row("var.dim", FULL, [1], True, dtypes=FLOATS),
    row("std.dim", FULL, [1], False, True, dtypes=FLOATS),
    row("var_mean.correction", FULL, [1], dtypes=FLOATS, special=False),
    row("std_mean.correction", FULL, [1], dtypes=WIDE, special=False),
    *[
        row("linalg_vector_norm.default", FULL, p, [1], dtypes=FLOATS, note=str(p))
        for p in (2, 1, 0, float("inf"), 3)
    ],
    row("linalg_vector_norm.default", FULL, dtypes=WIDE, note="all"),
    row("logsumexp.default", FULL, [1], dtypes=FLOATS),
    row("logsumexp.default", FULL, [0, 2], True, dtypes=WIDE, note="keepdim"),
    row("count_nonzero.default", T(kind="truth"), dtypes=ALL),
    row("count_nonzero.dim_IntList", T(kind="truth"), [1], dtypes=ALL),
    row("nansum.default", T(), [1], dtypes=WIDE),
    row("cumsum.default", FULL, 1, dtypes=ALL),
    row("cumprod.default", T(), -1, dtypes=NUMBERS),
    row("cummax.default", T(kind="ties"), 1, dtypes=NUMBERS),
    row("cummin.default", FULL, 0, dtypes=NUMBERS),
    row("logcumsumexp.default", T(), 1, dtypes=WIDE, special=False),
    row("diff.default", T(), dtypes=ALL),
    row("diff.default", T("B W"), 2, 1, dtypes=INTS, note="twice"),
    row("diff.default", T(), 1, 1, T("B 1"), dtypes=WIDE, note="prepend"),
    row("sort.default", T(kind="ties"), 1, dtypes=NUMBERS, note="values"),
    row("sort.stable", T(kind="ties"), stable=True, dim=0, dtypes=ALL),
    row(
        "sort.stable", T(kind="ties"), stable=True, dim=1, descending=True, dtypes=NUMBERS, note="descending"
    ),
    row("argsort.stable", T(kind="ties"), stable=True, dim=-1, dtypes=NUMBERS),
    row("topk.default", T("B W", kind="distinct"), 3, dtypes=(*FLOATS, *INTS), special=False),
    row("topk.default", T("W B", kind="distinct"), 2, 0, False, dtypes=WIDE, special=False, note="least"),
    row("median.dim", T("B W", kind="distinct"), 1, dtypes=WIDE),
]
