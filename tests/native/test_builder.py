"""The builder of the extension module: generic over the op table, checked op by op."""

from __future__ import annotations

import disc
import numpy as np
import pytest
import torch
from disc import _disc

SCALAR = ((), "f32")


def made(build) -> str:
    """The text of a function with input ``x`` of type [B]x4xf32."""
    b = _disc.Builder()
    x = b.input("x", ["B", 4], "f32")
    result = build(b, x)
    b.output(result if isinstance(result, list) else [result])
    b.verify()
    return b.as_text()


def refused(build, kind=disc.Error) -> disc.Error:
    with pytest.raises(kind) as caught:
        made(build)
    return caught.value


def test_a_module_has_inputs_weights_ops_and_outputs():
    b = _disc.Builder("forward")
    x = b.input("x", ["B", 768], "f32")
    w = b.weight("fc.weight", [768, 4], "f32")
    y = b.op("dot_general", [x, w], lhs_contracting_dims=[1], rhs_contracting_dims=[0])
    assert y.shape == (_disc.Dim("B"), 4)
    assert (y.dtype, y.rank, y.type) == ("f32", 2, "tensor<[B]x4xf32>")
    b.output([y], names=["logits"])
    b.verify()
    text = b.as_text()
    assert "weight @fc.weight : tensor<768x4xf32>" in text
    assert "func @forward(%x: tensor<[B]x768xf32>)" in text
    assert "%logits = dot_general %x, " in text
    with pytest.raises(disc.Error, match="has its outputs"):
        b.input("y", [], "f32")


def test_sizes_that_are_known_are_ints():
    def build(b, x):
        assert [type(d) for d in x.shape] == [_disc.Dim, int]
        n = x.shape[0] * 2
        return b.op("reshape", [x], result_types=[((n, 2), "f32")])

    assert "tensor<[2*B]x2xf32>" in made(build)


def test_regions_are_functions_or_names_of_ops():
    def build(b, x):
        zero = b.constant(0, [], "f32")
        total = b.op("reduce", [x, zero], dims=[1], applies="add")
        low = b.op("reduce", [x, zero], dims=[1], regions=["minimum"])
        body = ([SCALAR, SCALAR], lambda p, q: b.op("maximum", [p, q]))
        return [total, low, b.op("reduce", [x, zero], dims=[1], regions=[body])]

    text = made(build)
    assert [f"applies {op}" in text for op in ("add", "minimum", "maximum")] == [True] * 3


def test_control_flow_has_general_regions():
    def build(b, x):
        n = b.dim("B", dtype="i32")
        three = b.constant(3, [], "i32")
        pred = b.op("compare", [n, three], direction="LT")
        branches = [([], lambda: [x]), ([], lambda: [b.op("negate", [x])])]
        y = b.op("if", [pred], regions=branches)
        one = b.constant(1, [], "i32")
        step = ([((), "i32")], lambda i: [b.op("subtract", [i, one])])
        more = ([((), "i32")], lambda i: b.op("compare", [i, one], direction="GT"))
        return [y, b.op("while", [n], regions=[more, step])]

    text = made(build)
    assert "if " in text
    assert "while " in text


def test_several_results_are_a_list():
    def build(b, x):
        values, places = b.op("top_k", [x], k=2, index_dtype="i64")
        assert (values.dtype, places.dtype) == ("f32", "i64")
        return [values, places]

    made(build)


def test_an_error_in_a_region_leaves_the_builder_usable():
    def build(b, x):
        def fail(p, q):
            raise KeyError("mine")

        zero = b.constant(0, [], "f32")
        with pytest.raises(KeyError, match="mine"):
            b.op("reduce", [x, zero], dims=[1], regions=[([SCALAR, SCALAR], fail)])
        return b.op("negate", [x])

    assert "reduce" not in made(build)


@pytest.mark.parametrize(
    ("array", "dims", "dtype", "text"),
    [
        (1.5, [], "f32", "dense<1.5> : tensor<f32>"),
        (True, [2], "i1", "dense<true> : tensor<2xi1>"),
        (-1, [], "u8", "dense<255> : tensor<u8>"),
        (2, [], "f16", "dense<2.0> : tensor<f16>"),
        (np.arange(4, dtype=np.int32), [2, 2], "i32", "dense<[[0, 1], [2, 3]]> : tensor<2x2xi32>"),
        (np.float64(0.5), ["B"], "bf16", "dense<0.5> : tensor<[B]xbf16>"),
        (np.arange(6).reshape(2, 3).T, [3, 2], "i64", "dense<[[0, 3], [1, 4], [2, 5]]> : tensor<3x2xi64>"),
        (torch.tensor([1.0, -2.0], dtype=torch.bfloat16), [2], "f32", "dense<[1.0, -2.0]> : tensor<2xf32>"),
        (torch.ones(3, requires_grad=True), [3], "f32", "dense<1.0> : tensor<3xf32>"),
        (b"\x00\x00\x80\x3f\x00\x00\x00\x40", [2], "f32", "dense<[1.0, 2.0]> : tensor<2xf32>"),
    ],
)
def test_constants(array, dims, dtype, text):
    assert text in made(lambda b, x: b.constant(array, dims, dtype))


def test_constants_that_do_not_fit_are_refused():
    assert refused(lambda b, x: b.constant(np.arange(3), [2], "i64")).code == "E0209"
    assert "no support" in str(refused(lambda b, x: b.constant(np.array(["a"]), [1], "i64")))
    assert "without support" in str(
        refused(lambda b, x: b.constant(torch.ones(2, dtype=torch.complex64), [2], "f32"))
    )
    assert "object" in str(refused(lambda b, x: b.constant(object(), [], "f32")))


def test_facts_prove_what_ops_need():
    def build(b, x):
        y = b.input("y", ["S", 4], "f32")
        assert not b.equal("B", "S")
        with pytest.raises(disc.ShapeError) as caught:
            b.op("add", [x, y])
        assert caught.value.op == "add"
        assert "B == S" in caught.value.help
        b.fact("B == S")
        b.fact("B % 4 == 0")
        assert b.equal("B", _disc.Dim("S"))
        assert b.divisible("S", 4)
        assert b.less_equal("B", "S+1")
        b.likely("B", [4, 8])
        return b.op("add", [x, y])

    made(build)


def test_facts_that_contradict_name_the_dims():
    b = _disc.Builder()
    b.fact("B >= 4")
    with pytest.raises(disc.DimError) as caught:
        b.fact("B <= 3")
    assert (caught.value.code, caught.value.dims) == ("E0212", ["B"])
    with pytest.raises(disc.Error, match="B ="):
        b.fact("B =")


def test_failures_say_what_was_expected():
    error = refused(lambda b, x: b.op("addd", [x, x]))
    assert (error.code, error.help) == ("E0102", "is `add` meant?")
    error = refused(lambda b, x: b.op("transpose", [x], perm=[0, 1]))
    assert (error.code, error.op) == ("E0202", "transpose")
    assert "dims" in error.help
    error = refused(lambda b, x: b.op("transpose", [x], dims="ab"))
    assert "must be a list of integers, not 'ab'" in str(error)
    assert "one of EQ, NE" in str(refused(lambda b, x: b.op("compare", [x, x], direction="eq")))
    assert refused(lambda b, x: b.op("transpose", [x], dims=[0, 0]), disc.ShapeError).code == "E0206"
    assert refused(lambda b, x: b.op("add", [x])).code == "E0201"
    assert "operand 1 is" in str(refused(lambda b, x: b.op("add", [x, 1.0])))
    assert "another builder" in str(refused(lambda b, x: _disc.Builder().op("negate", [x])))
    assert refused(lambda b, x: b.input("x", [], "f32")).code == "E0104"
    assert refused(lambda b, x: b.input("z", [], "f33")).code == "E0102"
    assert "constant" in str(refused(lambda b, x: b.weight("w", ["B"], "f32")))


def test_a_value_does_not_leave_its_region():
    def build(b, x):
        kept = []

        def body(p, q):
            kept.append(b.op("add", [p, q]))
            return kept

        b.op("reduce", [x, b.constant(0, [], "f32")], dims=[1], regions=[([SCALAR, SCALAR], body)])
        return kept

    assert refused(build).code == "E0210"


def test_the_op_table_is_data():
    ops = {op["name"]: op for op in _disc.ops()}
    assert len(ops) == len(_disc.ops())
    top_k = ops["top_k"]
    assert [a["name"] for a in top_k["attrs"]] == ["k", "largest", "skip", "index_dtype"]
    assert top_k["attrs"][0]["required"]
    assert [r["name"] for r in top_k["results"]] == ["values", "indices"]
    assert "i32" not in top_k["doc"].split("\n")[0]
    assert ops["if"]["regions"] == ["then", "else"]


def test_a_composition_takes_values_numbers_and_sizes_and_hands_its_facts_over():
    b = _disc.Builder()
    x = b.input("x", ["B", "C"], "f32")
    y = b.input("y", ["D", 3], "f32")
    product = b.compose("matmul", [x, y])
    assert product.shape == (_disc.Dim("B"), 3)
    assert b.stated() == ["D == C"]
    assert b.stated() == []
    resized = b.compose("resize_linear", [x, None], sizes=["2*C"], coordinates="half_pixel")
    assert resized.shape == (_disc.Dim("B"), _disc.Dim("2*C"))
    assert b.stated() == ["C >= 1"]
    with pytest.raises(disc.Error, match="is `matmul` meant") as caught:
        b.compose("matmal", [x, y])
    assert caught.value.code == "E0102"
    b.output([product, resized])
    b.verify()
