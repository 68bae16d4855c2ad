"""Rows of ops that rearrange and create."""

from __future__ import annotations

import torch

from .row import ALL, BINDINGS, FLOATS, NUMBERS, WIDE, T, row, unary

ONE = ("f32", "i64", "bool")
#: torch gives empty images back as they are.
FILLED = tuple(b for b in BINDINGS if b["B"] and b["N"])

#: squeeze drops axes of size 1: a size that was not 1 stays so.
NOT_ONE = tuple(b for b in BINDINGS if b["B"] != 1)

ROWS = [
    row("view.default", T("B 6 N"), [-1, 6], dtypes=ALL),
    row("view.default", T("B 6 N"), [2, -1], dtypes=ONE, note="two"),
    row("reshape.default", T("6 B N"), [3, 2, -1], dtypes=ALL),
    row("view.dtype", T("B N"), torch.int32, dtypes=("f32", "f64", "i32", "i64")),
    row("view.dtype", T("B N"), torch.uint8, dtypes=ALL, note="bytes"),
    row("view.dtype", T("B N 8"), torch.float64, dtypes=ALL, note="wider"),
    row("view.dtype", T("B N 8"), torch.float16, dtypes=("f16", "bf16", "f32", "i64", "u8"), note="half"),
    row("flatten.using_ints", T("B N M"), 1, 2, dtypes=ONE),
    row("unflatten.int", T("B 6"), 1, [2, 3], dtypes=ONE),
    row("squeeze.default", T("1 B 1 N"), dtypes=ONE, bindings=NOT_ONE),
    row("squeeze.dim", T("B 1 N"), 1, dtypes=ALL),
    row("squeeze.dims", T("1 B 1 N"), [0, 2], dtypes=ALL),
    row("unsqueeze.default", T(), -1, dtypes=ALL),
    row("permute.default", T("B N M"), [2, 0, -2], dtypes=ALL),
    row("transpose.int", T("B N M"), 0, -1, dtypes=ALL),
    row("t.default", T(), dtypes=ONE),
    row("movedim.int", T("B N M"), 0, 2, dtypes=ONE),
    row("expand.default", T("B 1"), [2, -1, 5], dtypes=ALL),
    row("select.int", T("B N M"), 1, 0, dtypes=ALL),
    row("select.int", T("B N M"), -1, -1, dtypes=ONE, note="last"),
    row("slice.Tensor", T(), 1, 1, 3, dtypes=ALL),
    row("slice.Tensor", T(), 0, 0, 9223372036854775807, dtypes=ONE, note="all"),
    row("slice.Tensor", T(), 1, -2, None, dtypes=ONE, note="from-the-end"),
    row("slice.Tensor", T(), 1, 0, -1, dtypes=ONE, note="but-the-last"),
    row("slice.Tensor", T("B W"), 1, 1, 9223372036854775807, 2, dtypes=ONE, note="step"),
    row("slice.Tensor", T("B W"), 1, 1, -1, 3, dtypes=ONE, note="step3"),
    row("narrow.default", T("B 5"), 1, 1, 3, dtypes=ONE),
    row("split.Tensor", T("B 6"), 4, 1, dtypes=ONE),
    row("split_with_sizes.default", T("B 6"), [1, 2, 3], 1, dtypes=ALL),
    row("chunk.default", T("B 6"), 3, 1, dtypes=ONE),
    row("unbind.int", T("3 B"), 0, dtypes=ONE),
    row("cat.default", [T("B N"), T("B M"), T("B N")], 1, dtypes=ALL),
    row("cat.default", [T("B N"), T("B N", dtype="f64")], -1, dtypes=("f32", "i32"), note="mixed"),
    row("stack.default", [T(), T()], 1, dtypes=ONE),
    row("hstack.default", [T(), T("B M")], dtypes=ONE),
    row("vstack.default", [T("N"), T("N")], dtypes=ONE),
    row("repeat.default", T(), [2, 1, 3], dtypes=ALL),
    row("tile.default", T(), [2], dtypes=ONE),
    row("repeat_interleave.self_int", T(), 3, 1, dtypes=ONE),
    row("flip.default", T("B N M"), [0, -1], dtypes=ALL),
    row("roll.default", T(), [1], [1], dtypes=ALL),
    row("roll.default", T(), [-2, 3], [0, 1], dtypes=ONE, note="two"),
    row("roll.default", T(), [2], dtypes=ONE, note="flat"),
    row("diagonal.default", T("B N M"), 0, 1, 2, dtypes=ALL),
    row("diagonal.default", T("H W"), 1, dtypes=ONE, note="upper"),
    row("diagonal.default", T("H W"), -2, dtypes=ONE, note="lower"),
    row("diagonal_scatter.default", T("B 5 9"), T("B 5"), 2, 1, 2, dtypes=ALL),
    row("diagonal_scatter.default", T("9 B 5"), T("B 4"), -1, 2, 0, dtypes=ONE, note="turned"),
    row("tril.default", T("B N M"), 1, dtypes=ALL),
    row("triu.default", T("B N M"), -1, dtypes=ALL),
    row("constant_pad_nd.default", T(), [1, 2, 0, 1], 1.5, dtypes=ALL),
    row("constant_pad_nd.default", T("B W"), [-1, 2], 0.0, dtypes=ONE, note="crop"),
    row("pad.default", T(), [2, 1], dtypes=ONE),
    *[
        row("pad.default", T("B N W"), [2, 1], m, dtypes=("f32",), note=m)
        for m in ("reflect", "replicate", "circular")
    ],
    row("reflection_pad1d.default", T("B N W"), [2, 1], dtypes=FLOATS),
    row("reflection_pad2d.default", T("B N H W"), [2, 1, 0, 3], dtypes=FLOATS),
    row("reflection_pad3d.default", T("B N H W D"), [1, 1, 0, 1, 2, 0], dtypes=WIDE),
    row("replication_pad1d.default", T("B N W"), [2, 1], dtypes=FLOATS),
    row("replication_pad2d.default", T("B N H W"), [2, 1, 0, 3], dtypes=FLOATS),
    row("replication_pad2d.default", T("B 2 4 W"), [-1, 1, 2, -4], dtypes=FLOATS, note="cropped to the edge"),
    row("replication_pad3d.default", T("B N H W D"), [1, 1, 0, 1, 2, 0], dtypes=WIDE),
    row("pixel_shuffle.default", T("B 8 H W"), 2, dtypes=("f32",), bindings=FILLED),
    row("pixel_unshuffle.default", T("B N 4 6"), 2, dtypes=("f32",), bindings=FILLED),
    row("unfold.default", T("B W"), 1, 3, 2, dtypes=ONE),
    # the same values, other types
    *unary("clone contiguous alias detach", dtypes=ALL),
    *[
        row(
            "_to_copy.default",
            T(kind="spread"),
            dtype=d,
            dtypes=ALL,
            special=d.is_floating_point or d is torch.bool,
            note=str(d).removeprefix("torch."),
        )
        for d in (
            torch.float32,
            torch.float64,
            torch.float16,
            torch.bfloat16,
            torch.int32,
            torch.int64,
            torch.bool,
        )
    ],
    row("to.dtype", T(), torch.float64, dtypes=ONE),
    row("type_as.default", T(), T("N", dtype="f64"), dtypes=ONE),
    # made of sizes
    row("full.default", [2, 3], 1.5),
    row("full_like.default", T(), 2, dtypes=ALL),
    row("zeros_like.default", T(), dtypes=ALL),
    row("ones_like.default", T(), dtypes=ALL),
    row("new_zeros.default", T(), [2, 3], dtypes=ONE),
    row("new_ones.default", T(), [2, 3], dtypes=ONE),
    row("new_full.default", T(), [2, 3], 1, dtypes=ONE),
    row("fill.Scalar", T(), 3, dtypes=ALL),
    row("copy.default", T(), T("N", dtype="f32"), dtypes=NUMBERS, special=False),
    row("meshgrid.default", [T("N"), T("B"), T("M")], dtypes=ONE),
    row("meshgrid.indexing", [T("N"), T("B"), T("M")], indexing="xy", dtypes=ONE),
    row("scalar_tensor.default", 1.5, dtypes=("f32",)),
    row("arange.start_step", 1, 9, 2, dtypes=("i64",)),
    row("arange.start_step", 0.5, 4.0, 0.3, dtypes=("f32",), note="floats"),
    row("arange.default", 5, dtypes=("i64",)),
    row("linspace.default", -1.0, 2.0, 7, dtypes=("f32",)),
    row("eye.default", 4, dtypes=("f32",)),
]
