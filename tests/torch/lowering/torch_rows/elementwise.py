"""Rows of element-wise ops."""

from __future__ import annotations

from .row import ALL, BINDINGS, FLOATS, INTS, NUMBERS, WIDE, T, row, unary

BITS = (*INTS, "bool")
#: torch gives the mask of an empty tensor another type.
FILLED = tuple(b for b in BINDINGS if b["B"] and b["N"])

ROWS = [
    *unary(
        "sin cos tanh sigmoid exp expm1 atan asinh erf sqrt rsqrt tan sinh cosh",
        dtypes=(*FLOATS, "i32", "bool"),
    ),
    *unary("erfc exp2", dtypes=(*FLOATS, "i64")),
    *unary("log log2 log10 log1p", kind="positive", dtypes=(*FLOATS, "i32")),
    *unary("acos asin atanh erfinv", kind="unit"),
    *unary("acosh", kind="above1"),
    *unary("lgamma digamma", kind="positive", special=False),
    *unary("special_expit special_erf special_i1e deg2rad rad2deg sinc"),
    *unary("abs neg sign sgn", kind="spread", dtypes=NUMBERS),
    *unary("ceil floor trunc round fix frac", kind="spread", dtypes=FLOATS),
    *unary("ceil floor trunc round", dtypes=INTS, note="ints"),
    *unary("square reciprocal", kind="nonzero", dtypes=(*FLOATS, "i64")),
    *unary("isnan isinf isfinite isposinf isneginf signbit", dtypes=NUMBERS),
    *unary("bitwise_not", dtypes=BITS),
    *unary("logical_not", kind="truth", dtypes=ALL),
    *unary("positive", dtypes=NUMBERS),
    row("round.decimals", T(), decimals=2, dtypes=WIDE),
    row("round.decimals", T(kind="spread"), decimals=-1, dtypes=WIDE, note="tens"),
    row("logit.default", T(kind="probability"), dtypes=FLOATS),
    row("logit.default", T(), 1e-3, dtypes=WIDE, note="eps"),
    # arithmetic
    row("add.Tensor", T(), T("N"), dtypes=ALL),
    row("add.Tensor", T(), T("B N"), alpha=2, dtypes=NUMBERS, note="alpha"),
    row("add.Tensor", T(), T("B 1", dtype="i64"), dtypes=FLOATS, note="mixed"),
    row("add.Tensor", T("B N", dtype="i32"), T("", dtype="f64"), dtypes=("i32",), note="scalar-tensor"),
    row("add.Scalar", T(), 2.5, dtypes=ALL),
    row("sub.Tensor", T(), T("N"), dtypes=NUMBERS),
    row("sub.Tensor", T("B 1 N"), T("M 1"), alpha=3, dtypes=NUMBERS, note="alpha"),
    row("sub.Scalar", T(), 3, dtypes=NUMBERS),
    row("mul.Tensor", T(), T("B 1"), dtypes=ALL),
    row("mul.Scalar", T(), -1.5, dtypes=ALL),
    row("rsub.Scalar", T(), 3, dtypes=NUMBERS),
    row("rsub.Tensor", T(), T("N"), dtypes=NUMBERS),
    row("div.Tensor", T(), T("N", kind="nonzero"), dtypes=ALL[:-1]),
    row("div.Scalar", T(), 4, dtypes=ALL),
    *[
        row(
            "div.Tensor_mode",
            T(kind="spread"),
            T("N", kind="nonzero"),
            rounding_mode=m,
            dtypes=NUMBERS,
            note=m,
        )
        for m in ("floor", "trunc")
    ],
    *[
        row("div.Scalar_mode", T(kind="spread"), -3, rounding_mode=m, dtypes=NUMBERS, note=m)
        for m in ("floor", "trunc")
    ],
    row("floor_divide.default", T(kind="spread"), T("N", kind="nonzero"), dtypes=NUMBERS),
    row("remainder.Tensor", T(kind="spread"), T("N", kind="nonzero"), dtypes=NUMBERS),
    row("remainder.Scalar", T(kind="spread"), -3, dtypes=NUMBERS),
    row("remainder.Scalar_Tensor", -3, T(kind="nonzero"), dtypes=NUMBERS),
    row("fmod.Tensor", T(kind="spread"), T("N", kind="nonzero"), dtypes=NUMBERS),
    row("fmod.Scalar", T(kind="spread"), 3, dtypes=NUMBERS),
    row("pow.Tensor_Tensor", T(kind="positive"), T("N", kind="exponent"), dtypes=NUMBERS),
    *[row("pow.Tensor_Scalar", T(), p, dtypes=NUMBERS, note=str(p)) for p in (1, 2, 3, 4)],
    *[
        row("pow.Tensor_Scalar", T(kind="positive"), p, dtypes=FLOATS, note=str(p))
        for p in (0.5, -0.5, -1, -2, 1.7)
    ],
    row("pow.Scalar", 2, T(kind="exponent"), dtypes=NUMBERS),
    row("atan2.default", T(), T("N"), dtypes=(*FLOATS, "i32")),
    row("hypot.default", T(), T("N"), dtypes=WIDE),
    row("logaddexp.default", T(), T("N"), dtypes=WIDE),
    row("xlogy.Tensor", T(), T("N", kind="positive"), dtypes=WIDE),
    row("copysign.Tensor", T(), T("N"), dtypes=FLOATS),
    row("copysign.Scalar", T(), -1.0, dtypes=FLOATS),
    row("special_zeta.default", T(kind="positive"), T("N"), dtypes=WIDE),
    row("special_zeta.other_scalar", T(kind="positive"), 2.0, dtypes=WIDE),
    row("special_zeta.self_scalar", 3.0, T(), dtypes=WIDE),
    *[row("polygamma.default", n, T(), dtypes=WIDE, note=str(n)) for n in (0, 1, 2, 3)],
    row("nextafter.default", T(), T("N"), dtypes=FLOATS),
    row("lerp.Scalar", T(), T(), 0.3, dtypes=FLOATS),
    row("lerp.Tensor", T(), T(), T(kind="probability"), dtypes=FLOATS),
    row("addcmul.default", T(), T("N"), T("B 1"), value=2, dtypes=NUMBERS),
    row("addcdiv.default", T(), T(), T(kind="nonzero"), value=0.5, dtypes=FLOATS),
    # bits
    *[row(f"bitwise_{n}.Tensor", T(), T("N"), dtypes=BITS) for n in ("and", "or", "xor")],
    *[row(f"bitwise_{n}.Scalar", T(), 5, dtypes=INTS) for n in ("and", "or", "xor")],
    *[row(f"__{n}__.Scalar", T(), 5, dtypes=INTS) for n in ("and", "or", "xor")],
    row("bitwise_left_shift.Tensor", T(), T("N", kind="shift"), dtypes=INTS),
    row("bitwise_right_shift.Tensor", T(kind="spread"), T("N", kind="shift"), dtypes=(*INTS, "u8")),
    row("bitwise_left_shift.Tensor_Scalar", T(), 2, dtypes=INTS),
    row("bitwise_right_shift.Tensor_Scalar", T(kind="spread"), 2, dtypes=(*INTS, "u8")),
    # comparison and logic
    *[
        row(f"{n}.Tensor", T(kind="ties"), T("N", kind="ties"), dtypes=ALL)
        for n in ("eq", "ne", "lt", "le", "gt", "ge")
    ],
    *[row(f"{n}.Scalar", T(kind="ties"), 1.5, dtypes=ALL) for n in ("eq", "ne", "lt", "le", "gt", "ge")],
    *[
        row(f"logical_{n}.default", T(kind="truth"), T("N", kind="truth"), dtypes=ALL)
        for n in ("and", "or", "xor")
    ],
    row("isclose.default", T(kind="ties"), T("N", kind="ties"), dtypes=(*WIDE, "i64")),
    row("isclose.default", T(kind="ties"), T("N", kind="ties"), 1e-3, 1e-2, True, dtypes=WIDE, note="nan"),
    # choices
    row("where.self", T(dtype="bool"), T(), T("N"), dtypes=ALL),
    row("where.self", T(dtype="bool"), T(), T("", dtype="f64"), dtypes=("f32", "i32"), note="mixed"),
    row("where.ScalarOther", T(dtype="bool"), T(), 0.5, dtypes=FLOATS),
    row("where.ScalarSelf", T(dtype="bool"), 0.5, T(), dtypes=FLOATS),
    row("clamp.default", T(), -1, 1.5, dtypes=NUMBERS),
    row("clamp.default", T(), None, 1, dtypes=NUMBERS, note="high"),
    row("clamp.Tensor", T(), T("N"), T("B 1"), dtypes=NUMBERS),
    row("clamp_min.default", T(), 0.5, dtypes=NUMBERS),
    row("clamp_max.default", T(), 0.5, dtypes=NUMBERS),
    row("clamp_min.Tensor", T(), T("N"), dtypes=NUMBERS),
    row("clamp_max.Tensor", T(), T("N"), dtypes=NUMBERS),
    *[row(f"{n}.default", T(), T("N"), dtypes=ALL) for n in ("maximum", "minimum", "fmax", "fmin")],
    row("max.other", T(), T("N"), dtypes=NUMBERS),
    row("min.other", T(), T("N"), dtypes=NUMBERS),
    row("masked_fill.Scalar", T(), T("N", dtype="bool"), -2, dtypes=ALL),
    row("masked_fill.Tensor", T(), T("B 1", dtype="bool"), T("", dtype="f32"), dtypes=FLOATS),
    row("nan_to_num.default", T(), dtypes=NUMBERS),
    row("nan_to_num.default", T(), 1.0, 2.0, -3.0, dtypes=FLOATS, note="values"),
    row("heaviside.default", T(kind="ties"), T("N", kind="ties"), dtypes=NUMBERS),
    # activations
    *unary("relu", dtypes=NUMBERS),
    *unary("relu6 silu mish hardswish hardsigmoid log_sigmoid selu celu softplus"),
    row("hardtanh.default", T(), -0.5, 1.5, dtypes=FLOATS),
    row("leaky_relu.default", T(), 0.2, dtypes=FLOATS),
    row("prelu.default", T("B N M"), T("N"), dtypes=FLOATS),
    row("elu.default", T(), 0.7, dtypes=FLOATS),
    row("celu.default", T(), 0.7, dtypes=FLOATS, note="alpha"),
    # torch gives NaN for +Inf.
    row("gelu.default", T(), dtypes=FLOATS, special=False),
    row("gelu.default", T(), approximate="tanh", dtypes=FLOATS, note="tanh"),
    row("softplus.default", T(kind="spread"), 2.0, 10.0, dtypes=FLOATS, note="beta"),
    row("hardshrink.default", T(), 0.7, dtypes=FLOATS),
    row("softshrink.default", T(), 0.7, dtypes=FLOATS),
    row("threshold.default", T(), 0.5, 9.0, dtypes=FLOATS),
    row("glu.default", T("B 6 N"), 1, dtypes=FLOATS),
    row("dropout.default", T(), 0.5, False, dtypes=FLOATS),
    row("native_dropout.default", T(), 0.5, False, dtypes=FLOATS, bindings=FILLED),
]
