"""Branches of a model on sizes of 0 and 1: every size that is served gets its own way, and the example is always served."""

from __future__ import annotations

import disc
import pytest
import torch
from disc._capture import capture
from torch import nn


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class TwoLayers(nn.Module):
    """The two ways differ in their weights alone."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.many = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.one(x) if x.shape[0] == 1 else self.many(x)


def flagged(x):
    single = x.shape[0] == 1
    if x.shape[1] == 1 and single:
        return x * 2
    return x * 3


MODELS = {
    "== 1": Model(lambda x: x * 2 if x.shape[0] == 1 else x * 3),
    "<= 1": Model(lambda x: x * 2 if x.shape[0] <= 1 else x * 3),
    "> 1": Model(lambda x: x * 2 if x.shape[0] > 1 else x * 3),
    "== 0": Model(lambda x: x.new_zeros(1) if x.shape[0] == 0 else x.sum(0)),
    "truth": Model(lambda x: x.sum(0) if x.shape[0] else x.new_zeros(1)),
    "numel 0": Model(lambda x: x.new_zeros(1) if x.numel() == 0 else x.sum(0)),
    "numel 1": Model(lambda x: x * 2 if x.numel() == 1 else x * 3),
    "both 1": Model(lambda x: x * 2 if x.shape[0] == 1 and x.shape[1] == 1 else x * 3),
    "1 and 4": Model(lambda x: x * 2 if x.shape[0] == 1 and x.shape[1] == 4 else x * 3),
    "flags": Model(flagged),
    "max": Model(lambda x: x.sum(0) / max(x.shape[0], 1)),
    "max of a difference": Model(lambda x: x[: max(x.shape[0] - 1, 0)]),
    "weights": TwoLayers(),
}
SHAPES = [(5, 4), (3, 6), (1, 4), (4, 1), (1, 1), (1, 6), (0, 4), (3, 0), (0, 0)]


@pytest.mark.parametrize("example", [(5, 4), (3, 6), (1, 4), (1, 1), (0, 4)], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_a_branch_on_a_small_size_is_never_taken_wrongly(name, example, compile_module):
    model = MODELS[name].eval()
    if name == "weights" and example[1] != 4:
        example = (example[0], 4)
    torch.manual_seed(1)
    x = torch.rand(example)
    compiled = compile_module(model, x)
    torch.testing.assert_close(compiled(x), model(x))
    for shape in SHAPES:
        x = torch.rand(shape)
        try:
            got = compiled(x)
        except disc.Error:
            continue
        torch.testing.assert_close(got, model(x))


@pytest.mark.parametrize("size", [1, 0])
def test_the_way_of_the_example_is_kept_where_it_is_one_of_its_own(size):
    """`eq 1` keeps the 1; the size that the model does not ask about stays dynamic."""
    captured = capture(Model(lambda x: x * 2 if x.shape[0] == size else x * 3), (torch.rand(size, 1),))
    first, second = captured.input_shape(0)
    assert first == size
    assert not isinstance(second, int)
    (fixed,) = captured.fixed
    assert fixed == f"x axis 0 == {size}"
    assert "test_branches.py" in captured.fixed_at[fixed]
    assert "shape[0] == size" in captured.fixed_at[fixed]


def test_two_sizes_that_may_not_both_be_1_are_dynamic(compile_module):
    compiled = compile_module(MODELS["both 1"], torch.rand(5, 4))
    compiled(torch.rand(1, 4))
    compiled(torch.rand(4, 1))
    with pytest.raises(disc.DimError, match=r"x_0 != 1 or x_1 != 1 \(test_branches.py:\d+: "):
        compiled(torch.rand(1, 1))
    assert disc.report(compiled).to_dict()["facts"] == ["x_0 != 1 or x_1 != 1"]


def test_messages_and_the_report_name_the_line(compile_module):
    compiled = compile_module(MODELS["== 1"], torch.rand(1, 4))
    line = r"test_branches.py:\d+: `\"== 1\": Model\(lambda x"
    with pytest.raises(
        disc.DimError, match=rf"axis 0 of x is 5, expected 1: the model itself fixes it \({line}"
    ):
        compiled(torch.rand(5, 4))
    assert "x axis 0 == 1 (test_branches.py:" in str(disc.report(compiled))
    compiled = compile_module(MODELS["== 1"], torch.rand(5, 4))
    with pytest.raises(disc.DimError, match=rf"the module needs x_0 >= 2 \({line}"):
        compiled(torch.rand(1, 4))


def test_a_declared_dim_whose_example_takes_a_way_of_its_own_is_an_error():
    with pytest.raises(
        disc.DimError, match=r"B \(axis 0 of x\) is 1 in the example.*test_branches.py"
    ) as caught:
        capture(MODELS["== 1"], (torch.rand(1, 4),), dims={"x": {0: "B"}})
    assert caught.value.code == "E0403"
