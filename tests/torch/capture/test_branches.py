"""Branches of a model on sizes of 0 and 1: every size that is served gets its own way,
and the example is always served.
"""

from __future__ import annotations

import disc
import pytest
import torch
from disc.torch.capture import capture as capturing
from disc.torch.capture.capture import capture
from torch import nn


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class TwoLayers(nn.Module):
    """The two branches differ only in their weights."""

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
    "0, then 1": Model(lambda x: x * 3 if x.shape[0] or x.shape[1] != 1 else x.new_ones(0, 1)),
    "1, then 5": Model(lambda x: x * 3 if x.shape[1] != 1 or x.shape[0] == 5 else x * 2),
    "1, then at most 5": Model(lambda x: x * 3 if x.shape[1] != 1 or x.shape[0] <= 5 else x * 2),
    "1, then equal": Model(lambda x: x * 3 if x.shape[1] != 1 or x.shape[0] == x.shape[1] else x * 2),
    "weights": TwoLayers(),
}
SHAPES = [(5, 4), (3, 6), (1, 4), (4, 1), (1, 1), (1, 6), (0, 4), (3, 0), (0, 0), (0, 1), (5, 1), (7, 1)]


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


class Cached(nn.Module):
    """Layers that take what they have seen: a cache of none is no cache, as in transformers."""

    def forward(self, x, mask, caches):
        for keys, values in caches:
            held = 0 if keys.numel() == 0 else keys.shape[1]
            keys, values = torch.cat([keys, x], 1), torch.cat([values, x], 1)
            x = (x @ keys.mT + mask[None, None, : held + x.shape[1]]).softmax(-1) @ values
        return x


def step(batch: int, held: int, new: int, width: int, layers: int = 2):
    caches = [(torch.rand(batch, held, width), torch.rand(batch, held, width)) for _ in range(layers)]
    return torch.rand(batch, new, width), torch.rand(held + new), caches


@pytest.fixture
def traces(monkeypatch):
    """One entry per trace."""
    seen = []
    quick = capturing.quick
    monkeypatch.setattr(
        capturing, "quick", lambda *args, **kwargs: (seen.append(1), quick(*args, **kwargs))[1]
    )
    return seen


def test_a_size_that_answers_as_the_example_does_is_not_captured_again(traces, compile_module):
    """Batches, caches and widths of 0 are tried; those of 1 and several together go the way of a
    trace that was seen.
    """
    torch.manual_seed(0)
    compiled = compile_module(Cached().eval(), step(3, 5, 2, 4))
    assert len(traces) <= 5
    for sizes in ((3, 5, 2), (1, 1, 1), (2, 0, 3), (1, 0, 1), (4, 9, 1)):
        args = step(*sizes, 4)
        torch.testing.assert_close(compiled(*args), Cached()(*args))


def test_caches_of_many_layers_that_keep_a_1_take_few_captures(traces):
    class OneHead(nn.Module):
        def forward(self, x, caches):
            return [torch.cat([cache, x[:, None]], 2) for cache in caches]

    captured = capture(OneHead(), (torch.rand(3, 2, 4), [torch.rand(3, 1, 5, 4) for _ in range(30)]))
    assert len(traces) <= 5
    shapes = [captured.input_shape(i) for i in range(1, 31)]
    assert {heads for _, heads, _, _ in shapes} == {1}
    assert len({length for _, _, length, _ in shapes}) == 30


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
