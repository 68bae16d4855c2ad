"""The front: what optimize accepts, what a call must look like,
and that the next call works after an error.
"""

from __future__ import annotations

import pydoc
import threading

import conftest
import disc
import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def _compiler(monkeypatch):
    if not conftest._native():
        from stub.native import install

        install(monkeypatch)


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x, y=None, *, offset=0.0):
        x = x * self.factor + offset
        return x if y is None else x + y


def scale(*args, **options):
    return disc.optimize(Scale().eval(), args or (torch.rand(2, 3), torch.rand(2, 3)), **options)


def test_a_compiled_module_is_a_module_and_computes_the_same():
    model = Scale().eval()
    fast = disc.optimize(model, torch.rand(2, 3))
    assert isinstance(fast, nn.Module)
    assert fast.training is False
    x = torch.rand(5, 3)
    torch.testing.assert_close(fast(x), model(x))
    assert not fast(x).requires_grad


def test_arguments_by_keyword_or_position():
    fast = scale()
    x, y = torch.rand(4, 3), torch.rand(4, 3)
    expected = fast(x, y)
    for result in (fast(x, y=y), fast(y=y, x=x), fast(x, y, offset=0.0)):
        torch.testing.assert_close(result, expected)


def test_kwargs_of_the_example():
    model = Scale().eval()
    fast = disc.optimize(model, (torch.rand(2, 3),), kwargs={"y": torch.rand(2, 3), "offset": 1.5})
    x, y = torch.rand(4, 3), torch.rand(4, 3)
    torch.testing.assert_close(fast(x, y=y, offset=1.5), model(x, y, offset=1.5))
    with pytest.raises(disc.Error, match=r"offset is 2.5; the module was compiled for 1.5"):
        fast(x, y=y, offset=2.5)
    with pytest.raises(disc.Error, match=r"offset is 0.0"):
        fast(x, y=y)


BAD = {
    "count": (lambda x: (x, x, x), "forward has no parameter for the input number 2"),
    "array": (lambda x: (x.numpy(), x), "expected a tensor, got ndarray\nhelp: torch.from_numpy"),
    "none": (lambda x: (x, None), r"expected a tensor"),
    "type": (lambda x: (x, 3.0), r"expected a tensor"),
    "list": (lambda x: (x, [x]), "y: expected a tensor, got list"),
    "dtype": (
        lambda x: (x, x.double()),
        r"y.*float64, expected torch.float32\nhelp: pass t.to\(torch.float32\)",
    ),
    "rank": (lambda x: (x, x[0]), r"y has rank 1.*expected 2"),
    "meta": (lambda x: (x, x.to("meta")), r"y.*meta"),
    "sparse": (lambda x: (x, x.to_sparse()), r"y.*sparse"),
    "quantized": (lambda x: (x, torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)), r"y.*quantized"),
    "negated": (lambda x: (x, torch.complex(x, x).conj().imag), r"y.*pending"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_wrong_argument_is_an_error_and_the_next_call_works(kind):
    fast = scale()
    x = torch.rand(4, 3)
    make, message = BAD[kind]
    with pytest.raises(disc.Error, match=message) as caught:
        fast(*make(x))
    assert caught.value.code.startswith("E0")
    torch.testing.assert_close(fast(x, x), x * 3)


def test_names_that_forward_lacks_are_told_from_those_the_example_lacked():
    fast, x = scale(torch.rand(2, 3)), torch.rand(4, 3)
    with pytest.raises(disc.Error, match="forward has no parameter for the input foo"):
        fast(x, foo=3)
    with pytest.raises(disc.Error, match="y was not given in the example\nhelp: optimize once more"):
        fast(x, y=x)
    torch.testing.assert_close(fast(x, offset=float("0")), x * 2)


def test_constants_are_compared_by_what_they_compute():
    x = torch.zeros(4, 3)
    fast = scale(torch.rand(2, 3), kwargs={"offset": float("nan")})
    assert fast(x, offset=-float("inf") + float("inf")).isnan().all()
    fast = scale(torch.rand(2, 3), kwargs={"offset": 0.0})
    with pytest.raises(disc.Error, match=r"offset is -0\.0; the module was compiled for 0\.0"):
        fast(x, offset=-0.0)


def test_an_example_of_another_library_says_how_to_make_it_a_tensor():
    with pytest.raises(disc.Error, match=r"ndarray is neither.*\nhelp: torch.from_numpy"):
        scale(torch.rand(2, 3).numpy())


def test_a_trace_sees_the_ops_of_the_original():
    fast, x = scale(), torch.rand(4, 3)
    program = torch.export.export(nn.Sequential(fast), (x,))
    assert "aten.mul.Tensor" in str(program.graph)
    outer = disc.optimize(nn.Sequential(fast, nn.ReLU()).eval(), x)
    torch.testing.assert_close(outer(x), fast.original(x).relu())


def test_gradients_are_never_silently_lost():
    fast = scale()
    x = torch.rand(4, 3, requires_grad=True)
    with pytest.raises(disc.Error, match="x requires a gradient") as caught:
        fast(x, torch.rand(4, 3))
    assert caught.value.code == "E0610"
    with torch.no_grad():
        assert fast(x, torch.rand(4, 3)).shape == (4, 3)


def test_a_violated_dim_names_the_dim_the_size_and_the_fact():
    fast = scale(dims={"x": {0: disc.Dim("B", max=8)}, "y": {0: "B"}})
    with pytest.raises(disc.DimError, match=r"B = 9 .*B <= 8") as caught:
        fast(torch.rand(9, 3), torch.rand(9, 3))
    assert caught.value.dims == ["B"]
    with pytest.raises(disc.DimError, match=r"B is 3 on axis 0 of y and 4 on axis 0 of x"):
        fast(torch.rand(4, 3), torch.rand(3, 3))
    with pytest.raises(disc.DimError, match=r"axis 1 of x is 4, expected 3: the model itself fixes it"):
        fast(torch.rand(4, 4), torch.rand(4, 4))
    assert fast(torch.rand(8, 3), torch.rand(8, 3)).shape == (8, 3)


def test_facts_of_a_name_that_the_model_makes_another_one_are_kept():
    dims = {"x": {0: disc.Dim("B", max=8)}, "y": {0: disc.Dim("C", min=2, multiple_of=2, likely=[4])}}
    fast = scale(dims=dims)
    assert set(disc.report(fast).to_dict()["facts"]) == {"B <= 8", "B >= 2", "B % 2 == 0"}
    for size, broken in ((10, "B <= 8"), (3, "B % 2 == 0"), (0, "B >= 2")):
        with pytest.raises(disc.DimError, match=broken):
            fast(torch.rand(size, 3), torch.rand(size, 3))
    assert fast(torch.rand(8, 3), torch.rand(8, 3)).shape == (8, 3)


def test_static_refuses_other_sizes():
    fast = scale(dims="static")
    assert fast(torch.rand(2, 3), torch.rand(2, 3)).shape == (2, 3)
    with pytest.raises(disc.DimError, match=r"axis 0 of x is 5, expected 2: it was fixed by dims="):
        fast(torch.rand(5, 3), torch.rand(5, 3))


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"z": {0: "B"}}, "names the input 'z'.*x, y"),
        ({"x": {2: "B"}}, "x has rank 2 and no axis 2"),
        ({"x": {0: 5}}, "fixes axis 0 of x to 5; the example's size is 2"),
        ({"x": {0: 2.5}}, "expected a str"),
        ({"x": {0: disc.Dim("B", min=4)}}, "2 in the example, against B >= 4"),
        ({"x": {0: disc.Dim("B", max=4)}, "y": {0: disc.Dim("B", max=5)}}, "declares B twice"),
        ("dynamic", "expected None"),
        ({"x": None}, "input x: expected a mapping from axes, got None"),
        ({"x": 3}, "input x: expected a mapping from axes, got 3"),
        ({"x": "B"}, "input x: expected a mapping from axes, got 'B'"),
        ({"x": {-2: "B", 0: "C"}}, "x has rank 2: -2 and 0 are one axis"),
        ({"x": {True: "B"}}, "x has rank 2 and no axis True"),
        ({"x": {0: "B"}, 0: {1: "C"}}, "the input x twice: as 'x' and as 0"),
        ({"x": {0: "for"}}, "'for' has a meaning of its own"),
        ({"x": {0: "a b"}}, "'a b' is not an identifier"),
        ({"x": {0: "B", 1: "B"}}, "B is 2 on axis 0 of x and 3 on axis 1 of x in the example"),
        ({"x": {0: "B"}, "y": {1: disc.Dim("B", max=8)}}, "B is 2 on axis 0 of x and 3 on axis 1 of y"),
    ],
)
def test_bad_dims_are_errors(dims, message):
    with pytest.raises(disc.Error, match=message):
        scale(dims=dims)


def test_names_of_the_user_are_not_taken_for_others():
    class Sums(nn.Module):
        def forward(self, a, b):
            return a.sum() + b.sum()

    fast = disc.optimize(Sums(), (torch.rand(2), torch.rand(3)), dims={"a": {0: "b_0"}})
    torch.testing.assert_close(fast(torch.ones(4), torch.ones(9)), torch.tensor(13.0))


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        (3, {}, "expected a str such as 'B', got 3"),
        ("", {}, "'' is not an identifier"),
        ("größe", {}, "is not an identifier"),
        ("lambda", {}, "'lambda' has a meaning of its own"),
        ("None", {}, "'None' has a meaning of its own"),
        ("max", {}, "'max' has a meaning of its own"),
        ("B", {"max": "3"}, "max = '3', expected an int"),
        ("B", {"max": 2.5}, "max = 2.5, expected an int"),
        ("B", {"min": None}, "min = None, expected an int"),
        ("B", {"multiple_of": True}, "multiple_of = True, expected an int"),
        ("B", {"likely": 128}, "likely = 128, expected sizes"),
        ("B", {"likely": ["a"]}, "likely = 'a', expected an int"),
        ("B", {"likely": [-3]}, "likely has -3, against B >= 0"),
        ("B", {"max": 4, "likely": [8]}, "likely has 8, against B <= 4"),
        ("B", {"min": 9, "max": 15, "multiple_of": 8}, "no size is all of that"),
        ("B", {"min": 2**63}, "no size is all of that"),
        ("B", {"max": 2**63}, "sizes have 63 bits"),
        ("B", {"multiple_of": 2**63}, "sizes have 63 bits"),
    ],
)
def test_a_bad_dim_is_an_error(name, given, message):
    with pytest.raises(disc.Error, match=message):
        disc.Dim(name, **given)


@pytest.mark.parametrize(
    ("kwargs", "message"), [([1], "kwargs: expected a mapping.*got list"), ({1: 2}, "got the name 1")]
)
def test_kwargs_that_are_no_mapping_are_an_error(kwargs, message):
    with pytest.raises(disc.Error, match=message):
        scale(torch.rand(2, 3), kwargs=kwargs)


def test_load_state_dict_and_refresh_prepare_the_weights_again():
    model = Scale().eval()
    fast = disc.optimize(model, torch.rand(2, 3))
    x = torch.rand(4, 3)
    assert set(fast.state_dict()) == {"factor"}
    fast.load_state_dict({"factor": torch.full((3,), 5.0)})
    torch.testing.assert_close(fast(x), x * 5)
    model.factor = nn.Parameter(torch.full((3,), 7.0))
    fast.refresh()
    torch.testing.assert_close(fast(x), x * 7)
    model.factor = nn.Parameter(torch.full((1,), 9.0))
    fast.refresh()
    torch.testing.assert_close(fast(x), x * 9)


def test_refresh_reads_weights_of_the_same_form():
    model = Scale().eval()
    fast = disc.optimize(model, torch.rand(2, 3), options=disc.Options(watch="off"))
    model.factor = nn.Parameter(torch.full((4,), 7.0))
    with pytest.raises(disc.Error, match="factor changed"):
        fast.refresh()
    del model.factor
    with pytest.raises(disc.Error, match="weight factor is gone"):
        fast.refresh()


def test_a_module_that_holds_a_compiled_one_saves_and_loads_its_weights():
    inner = nn.Sequential(Scale(), nn.BatchNorm1d(3)).eval()
    fast, x = disc.optimize(inner, torch.rand(2, 3)), torch.rand(4, 3)
    outer = nn.Sequential(fast, nn.Linear(3, 3)).eval()
    state = {name: value.clone() for name, value in outer.state_dict().items()}
    assert "0.0.factor" in state
    outer.load_state_dict(state)
    state["0.0.factor"] *= 3
    outer.load_state_dict(state)
    torch.testing.assert_close(fast(x), inner(x))
    torch.testing.assert_close(inner[0].factor, torch.full((3,), 6.0))
    with pytest.raises(RuntimeError, match=r'Unexpected key.*"0\.other"'):
        outer.load_state_dict({**state, "0.other": x})
    with pytest.raises(RuntimeError, match=r"size mismatch for 0\.factor"):
        outer.load_state_dict({**state, "0.0.factor": x})
    del state["0.0.factor"]
    with pytest.raises(RuntimeError, match=r'Missing key.*"0\.0\.factor"'):
        outer.load_state_dict(state)
    torch.testing.assert_close(fast(x), inner(x))


def test_a_conversion_compiles_anew():
    fast = scale()
    outer = nn.Sequential(fast, nn.Linear(3, 3))
    assert outer.to("cpu").float().train().eval()[0] is fast
    x = torch.rand(4, 3)
    torch.testing.assert_close(fast(x, x), fast.original(x, x))
    outer.double()
    assert fast.original.factor.dtype is torch.float64
    torch.testing.assert_close(fast(x.double(), x.double()), fast.original(x.double(), x.double()))


def test_unsupported_ops_are_listed_together():
    class Model(nn.Module):
        def forward(self, x):
            return torch.linalg.svd(x).S.sum() + torch.rand_like(x) + torch.rand_like(x)

    with pytest.raises(disc.UnsupportedOp) as caught:
        disc.optimize(Model().eval(), torch.rand(2, 3))
    text = str(caught.value)
    assert "2 x aten.rand_like.default" in text
    assert "1 x aten._linalg_svd.default" in text
    assert "test_front.py:" in text


def test_a_forgotten_eval_is_named():
    with pytest.raises(disc.UnsupportedOp, match="dropout") as caught:
        disc.optimize(nn.Sequential(nn.Linear(3, 3), nn.Dropout()), torch.rand(2, 3))
    assert caught.value.help.startswith("call module.eval() first")


def test_options_nest_per_thread():
    from disc.core.options import current

    with disc.Options(threads=2, cache=False):
        with disc.Options(threads=1):
            assert (current().threads, current().cache) == (1, False)
        assert current().threads == 2
        seen = []
        thread = threading.Thread(target=lambda: seen.append(current().threads))
        thread.start()
        thread.join()
        assert seen == [None]
    assert current().threads is None


def test_threads_come_from_the_option_then_the_environment_then_torch(monkeypatch):
    from disc.core import extension

    chosen = []
    compile_function = extension.compile_function
    monkeypatch.setattr(
        extension, "compile_function", lambda *args: chosen.append(args[2]) or compile_function(*args)
    )
    monkeypatch.delenv("DISC_NUM_THREADS", raising=False)
    module, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
    with torch.no_grad():
        disc.optimize(module, x)
        monkeypatch.setenv("DISC_NUM_THREADS", "2")
        disc.optimize(module, x)
        disc.optimize(module, x, options=disc.Options(threads=1))
    assert chosen == [torch.get_num_threads(), None, 1]


@pytest.mark.parametrize("bad", [{"weights": "int3"}, {"threads": 0}, {"fallback": "eager"}])
def test_bad_options_are_errors(bad):
    with pytest.raises(disc.Error, match=next(iter(bad))):
        disc.Options(**bad)


def test_report_is_json_and_says_what_was_compiled():
    fast = scale(dims={"x": {0: "B"}, "y": {0: "B"}})
    fast(torch.rand(4, 3), torch.rand(4, 3))
    report = disc.report(fast)
    values = report.to_dict()
    assert (values["compiles"], values["coverage"], values["fallbacks"], values["calls"]) == (1, 1.0, [], 1)
    assert values["dims"] == {"x": ["B", "3"], "y": ["B", "3"]}
    assert {"capture", "convert", "total"} <= set(values["stages_ms"])
    assert "x [B, 3]" in str(report)
    with pytest.raises(disc.Error, match=r"nothing of this Linear is compiled by disc"):
        disc.report(nn.Linear(2, 2))


def test_a_report_before_the_first_call_says_that_nothing_ran():
    fast = disc.optimize(nn.Linear(4, 4).eval())
    report = disc.report(fast)
    nothing = "nothing yet: no call was made, and the first one of each form compiles it"
    assert str(report) == f"compiled    {nothing}"
    assert nothing in report._repr_html_()
    assert "0 %" not in report._repr_html_()
    fast(torch.randn(2, 4))
    assert "coverage 100% of 1 operations" in str(disc.report(fast))
    assert "100 %" in disc.report(fast)._repr_html_()


@pytest.mark.fallback
def test_a_report_of_what_torch_runs_has_no_numbers_of_compiled_code():
    options = disc.Options(block_ops=["aten.linear.default"])
    fast = disc.optimize(nn.Linear(4, 4).eval(), torch.randn(2, 4), options=options)
    first, second = str(disc.report(fast)).splitlines()
    assert first == "compiled    nothing: the framework runs every call"
    assert second.startswith("torch runs  aten.linear.default")


def test_functions_that_are_loaded_late_are_seen():
    assert set(disc.__all__) <= set(dir(disc))
    assert "optimize(module" in pydoc.plain(pydoc.render_doc(disc))


def test_check_compares_with_eager():
    fast = scale()
    result = disc.check(fast, (torch.rand(6, 3), torch.rand(6, 3)))
    assert result.ok
    assert result.first_difference is None
    fast._dispatcher.entries()[0].use([("factor", torch.zeros(3))])
    assert disc.check(fast, (torch.rand(6, 3), torch.rand(6, 3))).first_difference.output == 0


def test_a_change_of_mode_is_an_error():
    fast = scale()
    fast.train()
    with pytest.raises(disc.Error, match="compiled in evaluation mode"):
        fast(torch.rand(2, 3), torch.rand(2, 3))
    fast.eval()
    assert fast(torch.rand(2, 3), torch.rand(2, 3)).shape == (2, 3)


def test_what_cannot_be_optimized_says_so():
    assert disc.clear_cache() == 0
    with pytest.raises(disc.Error, match=r"expected a torch.nn.Module"):
        disc.optimize(torch.relu, torch.rand(2))
    with pytest.raises(disc.Error, match="TorchScript"):
        disc.optimize(torch.jit.script(torch.nn.Linear(3, 2)), torch.rand(2, 3))


def test_what_is_optimized_already_is_given_back_or_compiled_anew():
    model = Scale().eval()
    fast, x = disc.optimize(model), torch.rand(2, 3)
    assert disc.optimize(fast) is fast
    assert disc.optimize(fast, x) is fast
    assert disc.report(fast).to_dict()["signatures"] == 1
    assert disc.optimize(fast, options=fast.options) is fast
    one = disc.optimize(fast, x, options=disc.Options(threads=1))
    assert one is not fast
    assert one.original is model
    assert one.options.threads == 1
    with disc.Options(threads=1):
        assert disc.optimize(one) is one
        assert disc.optimize(fast).options.threads == 1
    fixed = disc.optimize(fast, x, dims="static")
    assert fixed.original is model
    assert disc.report(fixed).to_dict()["dims"]["x"] == ["2", "3"]
    torch.testing.assert_close(fixed(x), model(x))


def test_a_tangent_of_forward_mode_is_an_error():
    from torch.autograd import forward_ad

    fast, x = disc.optimize(nn.Linear(3, 2).eval(), torch.rand(2, 3)), torch.rand(4, 3)
    with forward_ad.dual_level():
        assert fast(x).shape == (4, 2)
        with pytest.raises(disc.Error, match="input input has a tangent") as caught:
            fast(forward_ad.make_dual(x, x))
        assert caught.value.code == "E0610"
    result, tangent = torch.func.jvp(fast, (x,), (x,))
    torch.testing.assert_close(result, fast(x))
    torch.testing.assert_close(tangent, x @ fast.weight.T)
    assert fast(x).shape == (4, 2)


class Shapes(nn.Module):
    def forward(self, x):
        return {"sizes": (x.shape, [x.size(0)]), "doubled": x * 2, "named": {"all": (x * 2).flatten().shape}}


def test_a_shape_that_is_returned_is_one():
    fast = disc.optimize(Shapes(), torch.rand(2, 3))
    made = fast(torch.rand(4, 5))
    assert made["sizes"] == (torch.Size([4, 5]), [4])
    assert type(made["sizes"][0]) is torch.Size
    assert type(made["named"]["all"]) is torch.Size


class ReturnsShape(nn.Module):
    def forward(self, x):
        return x.shape


def test_a_shape_alone_is_one_too():
    made = disc.optimize(ReturnsShape(), torch.rand(2, 3))(torch.rand(4, 5))
    assert type(made) is torch.Size
    assert made.numel() == 20


class NamesASize(nn.Module):
    def __init__(self, as_key):
        super().__init__()
        self.as_key = as_key

    def forward(self, x):
        text = f"rows{x.shape[0]}"
        return {text: x} if self.as_key else (x, text)


@pytest.mark.parametrize("as_key", [True, False])
def test_a_size_whose_text_is_returned_is_fixed(as_key):
    fast = disc.optimize(NamesASize(as_key), torch.rand(2, 3))
    assert "rows2" in fast(torch.rand(2, 3))
    assert disc.report(fast).to_dict()["fixed"] == ["x axis 0 == 2"]
    assert "rows2" in fast(torch.rand(2, 7))
    with pytest.raises(disc.Error, match="axis 0 of x is 3, expected 2"):
        fast(torch.rand(3, 3))
