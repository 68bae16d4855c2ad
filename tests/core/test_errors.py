"""Errors of calls on compiled code say what was expected and what came, and the next call works.

Reports are tested too.
"""

from __future__ import annotations

import fractions
import json

import conftest
import disc
import pytest
import sympy
import torch
from disc.torch.symbolic.conditions import spelled
from torch import nn
from torch.utils._sympy import functions as tsf

_S = sympy.Symbol("s", integer=True, nonnegative=True)

pytestmark = pytest.mark.skipif(not conftest._native(), reason="needs the compiled extension")


class Table(nn.Module):
    """Looks up rows, and adds the first places of a table of 6."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 4)
        self.places = nn.Embedding(6, 4)

    def forward(self, ids, scale):
        return self.words(ids) + self.places(torch.arange(ids.shape[1])) * scale


@pytest.fixture(scope="module")
def table():
    model = Table().eval()
    return model, disc.optimize(model, (torch.zeros(1, 1, dtype=torch.long), torch.ones(4)))


def works(model, fast) -> None:
    ids, scale = torch.randint(0, 10, (3, 5)), torch.rand(4)
    with torch.no_grad():
        torch.testing.assert_close(fast(ids, scale), model(ids, scale))


IDS = torch.tensor([[1, 2, 3]])
SCALE = torch.ones(4)
CALLS = {
    "index too large": (lambda: (torch.tensor([[1, 10]]), SCALE), "out of range|out of bounds"),
    "index negative": (lambda: (torch.tensor([[1, -1]]), SCALE), "out of range|out of bounds"),
    "length beyond the table": (
        lambda: (torch.zeros(1, 7, dtype=torch.long), SCALE),
        "out of range|out of bounds|ids_1 = 7",
    ),
    "too few": (lambda: (IDS,), "scale is missing"),
    "too many": (lambda: (IDS, SCALE, SCALE), "forward has no parameter for the input number 2"),
    "type": (lambda: (IDS, 2.0), "scale: expected a tensor, got float"),
    "array": (lambda: (IDS.numpy(), SCALE), "ids: expected a tensor, got ndarray"),
    "rank": (lambda: (IDS[0], SCALE), r"ids has rank 1 \(shape \[3\]\), expected 2"),
    "size": (lambda: (IDS, torch.ones(5)), "axis 0 of scale is 5, expected 4: the model itself fixes it"),
    "dtype": (lambda: (IDS.int(), SCALE), "dtype torch.int32, expected torch.int64"),
    "half": (lambda: (IDS, SCALE.half()), "dtype torch.float16, expected torch.float32"),
    "complex conjugate": (
        lambda: (IDS, torch.ones(4, dtype=torch.complex64).conj()),
        "conjugation or negation is pending|dtype torch.complex64",
    ),
    "negated": (lambda: (IDS, torch.ones(4, dtype=torch.complex64).conj().imag), "pending"),
    "sparse": (lambda: (IDS, SCALE.to_sparse()), "layout torch.sparse_coo"),
    "mkldnn": (lambda: (IDS, SCALE.to_mkldnn()), "layout torch._mkldnn"),
    "meta": (lambda: (IDS, SCALE.to("meta")), "a meta tensor, which has no data"),
    "quantized": (lambda: (IDS, torch.quantize_per_tensor(SCALE, 0.1, 0, torch.qint8)), "a quantized tensor"),
    "subclass": (lambda: (IDS, SCALE.as_subclass(Marked)), "a tensor of class Marked"),
}


class Marked(torch.Tensor):
    pass


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", CALLS)
def test_a_wrong_call_says_what_is_wrong_and_the_next_one_works(kind, table):
    make, message = CALLS[kind]
    model, fast = table
    with torch.no_grad(), pytest.raises(disc.Error, match=message) as caught:
        fast(*make())
    assert caught.value.code.startswith("E0")
    works(model, fast)


def test_strided_views_are_read_where_they_lie(table):
    model, fast = table
    ids = torch.randint(0, 10, (5, 3)).t()
    scale = torch.rand(8)[::2]
    with torch.no_grad():
        torch.testing.assert_close(fast(ids, scale), model(ids, scale))
        torch.testing.assert_close(fast(ids[:, 1:4], scale), model(ids[:, 1:4], scale))
        torch.testing.assert_close(fast(ids[:0], scale), model(ids[:0], scale))


def test_tensors_of_inference_mode_are_accepted(table):
    model, fast = table
    with torch.inference_mode():
        ids = torch.randint(0, 10, (2, 4))
        torch.testing.assert_close(fast(ids, SCALE), model(ids, SCALE))


KINDS = {"meta": lambda: torch.ones(2, 2, device="meta"), "sparse": lambda: torch.ones(2, 2).to_sparse()}


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_without_plain_data_is_an_error(kind):
    with pytest.raises(disc.Error, match="input") as caught:
        disc.optimize(nn.ReLU(), KINDS[kind]())
    assert caught.value.code.startswith("E0")


@pytest.mark.parametrize(
    ("dim", "size", "fact"),
    [
        (disc.Dim("B", max=4), 5, "B <= 4"),
        (disc.Dim("B", min=2), 1, "B >= 2"),
        (disc.Dim("B", multiple_of=2), 3, "B % 2 == 0"),
    ],
)
def test_a_violated_dim_names_dim_size_and_fact(dim, size, fact):
    fast = disc.optimize(nn.Linear(3, 3).eval(), torch.rand(4, 3), dims={"input": {0: dim}})
    with torch.no_grad():
        with pytest.raises(disc.DimError) as caught:
            fast(torch.rand(size, 3))
        assert f"B = {size}" in caught.value.message
        assert fact in caught.value.message
        assert caught.value.dims == ["B"]
        assert fast(torch.rand(4, 3)).shape == (4, 3)


def test_a_report_has_what_the_interface_promises(table, tmp_path):
    model, fast = table
    report = disc.report(fast)
    values = report.to_dict()
    assert (values["compiles"], values["cache_hits"], values["specializations"]) == (1, 0, 0)
    assert (values["clusters"], values["coverage"], values["fallbacks"]) == (1, 1.0, [])
    assert values["kernels"] == sum(values["kernels_by_kind"].values()) > 0
    assert values["versions"] >= 1
    stages = values["stages_ms"]
    assert {"capture", "convert", "passes", "codegen", "link", "pack", "total"} <= set(stages)
    assert stages["total"] == pytest.approx(
        sum(ms for name, ms in stages.items() if name != "total"), abs=0.01
    )
    assert values["target"].startswith("x86-64-v")
    assert values["dims"] == {"ids": ["ids_0", "ids_1"], "scale": ["4"]}
    assert values["weight_bytes"] == 16 * 4 * 4
    before = values["calls"]
    works(model, fast)
    values = disc.report(fast).to_dict()
    assert values["calls"] == before + 1
    assert values["peak_arena_bytes"] >= 0
    assert json.loads(report.to_json()) == report.to_dict()
    report.to_html(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "Kernels by kind" in text
    assert f"<th>{next(iter(values['kernels_by_kind']))}</th>" in text
    assert report._repr_html_() in text
    with disc.profile(fast) as profile:
        works(model, fast)
    report.to_html(tmp_path / "report.html", profile=profile)
    assert f"<th>{profile.kernels[0].name}</th>" in (tmp_path / "report.html").read_text()
    assert "kernels" in str(report)


def test_kinds_of_compute_intensive_kernels_say_so():
    fast = disc.optimize(nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval(), torch.rand(2, 8))
    assert any("matmul" in kind for kind in disc.report(fast).to_dict()["kernels_by_kind"])


class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Sum(nn.Module):
    def forward(self, x, y):
        return x + y


REFUSED = {
    "random": (
        lambda x: x + torch.randn_like(x),
        r"randn_like.*random numbers.*test_errors.py:\d+[^$]*help: give them to the module",
    ),
    "types": (
        lambda x: nn.functional.linear(x.long(), torch.ones(2, 3)),
        r"aten.linear.default \(test_errors.py:\d+\): `dot_general`.*i64[^$]*help: does the module run eagerly",
    ),
    "text": (lambda x: x * len(f"{x}"), r"depends on values.*test_errors.py:\d+.*the text of a tensor"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_optimize_refuses_names_its_place_and_a_cure(kind):
    function, message = REFUSED[kind]
    with pytest.raises(disc.Error, match=message):
        disc.optimize(Of(function), torch.rand(2, 3))


def test_a_text_without_sizes_is_returned():
    assert disc.optimize(Of(lambda x: (x, "s0 a x_0")), torch.rand(2, 3))(torch.rand(1, 3))[1] == "s0 a x_0"


def test_several_facts_about_multiples_are_said_in_words():
    unshuffled = Of(lambda x: nn.functional.pixel_unshuffle(nn.functional.pixel_unshuffle(x, 2), 2))
    compiled = disc.optimize(unshuffled, torch.rand(1, 1, 8, 8))
    with pytest.raises(disc.DimError, match="the module needs x_3 to be a multiple of 4") as error:
        compiled(torch.rand(1, 1, 8, 6))
    assert error.value.help


def test_a_size_that_is_1_beside_another_is_told_how_to_stay():
    compiled = disc.optimize(Sum(), (torch.rand(1, 3), torch.rand(1, 3)))
    with pytest.raises(disc.DimError, match="names one size") as error:
        compiled(torch.rand(4, 3), torch.rand(1, 3))
    assert 'dims={"y": {0: 1}}' in error.value.help


def test_a_trace_that_fails_says_whether_the_module_runs():
    with pytest.raises(disc.Error, match="without disc the module fails on the example too"):
        disc.optimize(Of(lambda x: x @ torch.rand(3, 2)), torch.rand(4))
    with pytest.raises(disc.Error, match="the module runs eagerly on the example"):
        disc.optimize(Of(lambda x: x * float(fractions.Fraction(x.shape[0], 2))), torch.rand(4))
    with pytest.raises(disc.UnsupportedOp, match="the value of a tensor decides what is computed"):
        disc.optimize(Of(lambda x: x if x.sum() > 0 else -x), torch.rand(4))


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        (sympy.Eq(tsf.TruncToInt(0.5 * _S), 2), "int(0.5*s) == 2"),
        (sympy.Ne(tsf.Mod(_S, 4), 0), "s % 4 != 0"),
        (sympy.Le(tsf.Max(1, _S), 5), "max(1, s) <= 5"),
        (sympy.Lt(tsf.OpaqueUnaryFn_sqrt(tsf.ToFloat(_S)), 3), "math.sqrt(s) < 3"),
    ],
)
def test_conditions_are_spelled_as_in_python(fact, text):
    assert spelled(fact) == text
