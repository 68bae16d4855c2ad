"""Rows of indexing."""

from __future__ import annotations

from .row import ALL, BINDINGS, CAPTURE, FLOATS, NUMBERS, WIDE, T, row

ONE = ("f32", "i64", "bool")


def at(dims, below="N", dtype="i64"):
    return T(dims, kind="index", below=below, dtype=dtype)


#: torch itself crashes without a bag or without a row.
BAGS = tuple(b for b in BINDINGS if b["N"] and b["B"])

#: torch does not look at indices where there is nothing to write.
FILLED = tuple(b for b in BINDINGS if b["N"])

ROWS = [
    row("embedding.default", T("N M"), at("B K"), dtypes=FLOATS),
    row("embedding.default", T("N M"), at("B", dtype="i32"), dtypes=("f32",), note="i32"),
    *(
        row(
            f"{name}.default",
            T("N M"),
            at("K"),
            T("B", kind="starts", dtype="i64", below="K"),
            False,
            mode,
            dtypes=WIDE,
            # torch keeps a NaN that comes first, and passes over a later one
            special=mode != 2,
            results=1,
            strided=False,
            bindings=BAGS,
            note=note,
        )
        for name in ("_embedding_bag", "_embedding_bag_forward_only")
        for mode, note in ((0, "sum"), (1, "mean"), (2, "max"))
    ),
    row("index_select.default", T("B N M"), 1, at("K"), dtypes=ALL),
    row("gather.default", T("B N M"), 1, at("B K M"), dtypes=ALL),
    row("take.default", T("N M"), at("B"), dtypes=ONE),
    row("take_along_dim.default", T("B N"), at("B K"), 1, dtypes=ONE, bindings=(CAPTURE,)),
    row("index.Tensor", T("N M"), [at("B")], dtypes=ALL),
    row("index.Tensor", T("N N M"), [at("B 1"), at("K")], dtypes=ONE, note="two"),
    row("index.Tensor", T("B N M"), [None, at("K")], dtypes=ONE, note="second"),
    row("index.Tensor", T("N B N"), [at("K"), None, at("K")], dtypes=ONE, note="apart"),
    row("index_put.default", T("N M"), [T("N", kind="permutation", dtype="i64")], T("N M"), dtypes=ALL),
    row("index_put.default", T("N M"), [at("B")], T("B M"), True, dtypes=(*WIDE, "i64"), note="accumulate"),
    row("index_put.default", T("B N"), [T("B N", dtype="bool")], T(""), dtypes=ONE, note="mask"),
    row("index_put.default", T("N M"), [at("B")], T("1 M"), dtypes=ONE, note="broadcast"),
    row("index_fill.int_Scalar", T("B N"), 1, at("K"), 7, dtypes=ONE),
    row("index_add.default", T("N M"), 0, at("B"), T("B M"), alpha=2, dtypes=(*WIDE, "i64"), bindings=FILLED),
    row("index_copy.default", T("N M"), 0, T("N", kind="permutation", dtype="i64"), T("N M"), dtypes=ONE),
    row("scatter.value", T("B N"), 1, at("B K"), 5, dtypes=ALL),
    row("scatter.src", T("B N"), 1, T("B N", kind="permutation", dtype="i64"), T("B N"), dtypes=ALL),
    row("scatter_add.default", T("N M"), 0, at("B M"), T("B M"), dtypes=NUMBERS),
    *[
        row("scatter_reduce.two", T("N M"), 0, at("B M"), T("B M"), reduce=r, dtypes=(*WIDE, "i64"), note=r)
        for r in ("sum", "prod", "amax", "amin", "mean")
    ],
    *[
        row(
            "scatter_reduce.two",
            T("N M"),
            0,
            at("B M"),
            T("B M"),
            reduce=r,
            include_self=False,
            dtypes=WIDE,
            note=f"{r}-alone",
        )
        for r in ("sum", "amax", "mean")
    ],
    row("select_scatter.default", T("B N M"), T("B M"), 1, 0, dtypes=ALL),
    row("slice_scatter.default", T("B W"), T("B 3"), 1, 2, 5, dtypes=ALL),
    row("slice_scatter.default", T("B 9"), T("B 4"), 1, 1, 9, 2, dtypes=ONE, note="step"),
    row("masked_scatter.default", T("B N"), T("B N", dtype="bool"), T("B N"), dtypes=ALL),
    row("one_hot.default", T("B N", kind="index", below=5, dtype="i64"), 5, dtypes=("i64",)),
    row("histc.default", T("B N"), 5, -3, 2, dtypes=WIDE),
    # torch refuses a range that is not finite.
    row("histc.default", T("B N"), 5, dtypes=WIDE, special=False, note="the range of the data"),
    row("bucketize.Tensor", T("B N"), T("4", kind="sorted"), dtypes=WIDE, special=False),
    row(
        "bucketize.Tensor",
        T("B N"),
        T("K", kind="sorted"),
        right=True,
        dtypes=WIDE,
        note="right",
        special=False,
    ),
    row("searchsorted.Tensor", T("K", kind="sorted"), T("B N"), dtypes=NUMBERS, special=False),
    row(
        "searchsorted.Tensor",
        T("B K", kind="sorted"),
        T("B M"),
        side="right",
        dtypes=WIDE,
        note="rows",
        special=False,
    ),
]
