"""Capture: which dimensions are dynamic, which facts are found, and what is reported as fixed."""

from __future__ import annotations

import disc
import pytest
import sympy
import torch
from disc import DimError, Error
from disc.core.dims import Dim
from disc.torch.capture.capture import capture
from disc.torch.symbolic.conditions import excludes_only_small, spelled
from model_check import Function
from torch import nn
from torch.utils._sympy.functions import FloatTrueDiv, IntTrueDiv, PythonMod


class Add(nn.Module):
    def forward(self, x, y):
        return x + y


def shape_of(captured, name):
    return captured.input_shape(captured.arguments.tensor_names.index(name))


def is_dynamic(captured, name, axis):
    return not isinstance(shape_of(captured, name)[axis], int)


@pytest.mark.parametrize("size", [0, 1, 2, 7])
def test_example_sizes_of_0_and_1_stay_dynamic(size):
    captured = capture(nn.Sequential(nn.Linear(4, 4), nn.GELU()), (torch.zeros(size, 4),))
    assert is_dynamic(captured, "input", 0)
    assert captured.facts == []


def test_all_sizes_1_stay_dynamic():
    class Model(nn.Module):
        def forward(self, x):
            return torch.softmax(x, -1).sum(1, keepdim=True)

    captured = capture(Model(), (torch.zeros(1, 1, 1),))
    assert all(is_dynamic(captured, "x", axis) for axis in range(3))


def test_equal_example_sizes_are_no_fact():
    class Plain(nn.Module):
        def forward(self, x):
            return x * 2

    first, second = shape_of(capture(Plain(), (torch.zeros(4, 4),)), "x")
    assert first != second


def test_what_the_model_needs_equal_is_equal():
    captured = capture(Add(), (torch.zeros(1, 5), torch.zeros(1, 5)))
    assert shape_of(captured, "x") == shape_of(captured, "y")


def test_a_size_that_only_broadcasts_is_reported():
    captured = capture(Add(), (torch.zeros(4, 5), torch.zeros(1, 5)))
    assert shape_of(captured, "y")[0] == 1
    assert captured.fixed == ["y axis 0 == 1"]


@pytest.mark.parametrize("size", [1, 4])
def test_equal_sizes_of_unlike_axes_do_not_fix_each_other(size):
    class Attention(nn.Module):
        def forward(self, q, k, v, mask):
            return nn.functional.scaled_dot_product_attention(q, k, v, mask)

    heads = [torch.zeros(1, 12, size, 8)] * 3
    captured = capture(Attention(), (*heads, torch.zeros(1, 1, 1, size)))
    assert is_dynamic(captured, "q", 2)
    assert shape_of(captured, "k")[2] == shape_of(captured, "mask")[3]
    assert is_dynamic(captured, "v", 2)
    assert "mask axis 1 == 1" in captured.fixed


def test_sizes_that_weights_fix_are_reported():
    captured = capture(nn.Linear(4, 3), (torch.zeros(4, 4),))
    assert captured.fixed == ["input axis 1 == 4"]
    assert is_dynamic(captured, "input", 0)


def test_declaring_a_fixed_size_dynamic_is_an_error():
    with pytest.raises(DimError, match=r"C .*axis 1 of input.*C == 4") as caught:
        capture(nn.Linear(4, 3), (torch.zeros(2, 4),), dims={"input": {1: "C"}})
    assert caught.value.code == "E0403"
    assert caught.value.dims == ["C"]


def test_an_int_fixes_an_axis():
    captured = capture(Add(), (torch.zeros(4, 5), torch.zeros(4, 5)), dims={"x": {0: 4}, 1: {0: 4}})
    assert shape_of(captured, "x")[0] == 4
    assert is_dynamic(captured, "x", 1)


def test_static_fixes_everything():
    captured = capture(Add(), (torch.zeros(4, 1), torch.zeros(4, 1)), dims="static")
    assert shape_of(captured, "x") == (4, 1)
    assert captured.fixed == []


@pytest.mark.parametrize("dim", ["T", Dim("T", min=3), Dim("T", max=4096, multiple_of=4)])
def test_named_dims_work_with_strided_convolutions(dim):
    model = nn.Sequential(nn.Conv1d(4, 8, 3, stride=2), nn.Conv1d(8, 4, 5, stride=2, padding=2))
    captured = capture(model, (torch.zeros(1, 4, 32),), dims={"input": {0: "B", 2: dim}})
    assert is_dynamic(captured, "input", 0)
    assert is_dynamic(captured, "input", 2)


def test_a_bound_of_the_model_is_a_fact():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.zeros(12, 3))

        def forward(self, x):
            return x + self.table[: x.shape[0]]

    captured = capture(Model(), (torch.zeros(1, 3),))
    (length, _) = shape_of(captured, "x")
    assert [str(f) for f in captured.facts] == [f"{length} <= 12"]


def test_divisibility_is_a_fact():
    class Model(nn.Module):
        def forward(self, x):
            return x.view(-1, 4).sum(1)

    captured = capture(Model(), (torch.zeros(8),))
    text = " ".join([str(f) for f in captured.facts] + [str(s) for s in shape_of(captured, "x")])
    assert "4" in text


def test_a_branch_that_changes_the_model_keeps_small_sizes_out():
    class Model(nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] > 1 else x * 3

    captured = capture(Model(), (torch.zeros(5, 2),))
    (length, _) = shape_of(captured, "x")
    assert [str(f) for f in captured.facts] == [f"{length} >= 2"]


def test_a_branch_that_changes_nothing_is_no_fact():
    class Model(nn.Module):
        def forward(self, x):
            rows = x.shape[0]
            if rows != 1:
                x = x.expand(rows, -1)
            return x * 2

    assert capture(Model(), (torch.zeros(5, 2),)).facts == []


def test_keyword_and_nested_inputs_are_named():
    class Model(nn.Module):
        def forward(self, batch, scale, *, mask=None):
            return batch["a"] * scale + batch["b"][0] + (0 if mask is None else mask)

    args = ({"a": torch.zeros(2, 3), "b": [torch.zeros(2, 3)]}, 2.0)
    captured = capture(Model(), args, {"mask": torch.zeros(2, 3)})
    assert captured.arguments.names == ("batch.a", "batch.b.0", "scale", "mask")
    assert captured.arguments.tensor_names == ["batch.a", "batch.b.0", "mask"]


def test_what_the_model_raises_is_the_cause():
    class Model(nn.Module):
        def forward(self, x):
            raise ValueError("no such thing")

    with pytest.raises(Error, match="no such thing") as caught:
        capture(Model(), (torch.zeros(2),))
    assert caught.value.code == "E0404"
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_model_that_branches_on_values_is_unsupported():
    class Model(nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x

    with pytest.raises(Error, match="depends on values"):
        capture(Model(), (torch.ones(3),))


class Wide(nn.Module):
    def forward(self, x):
        return x + 1 if x.shape[1] >= 64 else x - 1


def test_a_size_of_our_choice_that_takes_another_branch_than_the_example_is_not_kept():
    """Two axes of one size: one of them gets another for the trace."""
    captured = capture(Wide(), (torch.rand(64, 64),))
    assert captured.attempts == 2
    assert [str(node.target) for node in captured.graph.nodes if node.op == "call_function"] == [
        "aten.add.Tensor"
    ]


class Square(nn.Module):
    def forward(self, x):
        return x + 1 if x.shape[0] == x.shape[1] else x - 1


def test_a_branch_that_the_example_takes_for_its_own_sizes_alone_is_taken():
    """The general branch would refuse the example."""
    captured = capture(Square(), (torch.rand(8, 8),))
    assert shape_of(captured, "x")[0] == shape_of(captured, "x")[1]
    assert [str(node.target) for node in captured.graph.nodes if node.op == "call_function"] == [
        "aten.add.Tensor"
    ]


class Branches(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


def test_a_long_line_of_the_model_is_cut():
    class Model(nn.Module):
        def forward(self, x):
            return [bool(x.sum() > 0), x * 1, x * 2, x * 3, x * 4, x * 5, x * 6, x * 7, x * 8, x * 9, -x]

    with pytest.raises(Error) as error:
        capture(Model(), (torch.rand(3),))
    line = str(error.value).splitlines()[0]
    assert "return [bool(x.sum() > 0), x * 1" in line
    assert "-x]" not in line


def test_a_branch_on_data_is_refused_with_its_line():
    with pytest.raises(Error, match=r"test_capture.py:\d+: `if x.sum\(\) > 0:`") as raised:
        capture(Branches(), (torch.rand(3),))
    assert raised.value.code == "E0402"


class ByParity(nn.Module):
    """Pads each axis by whether its size is even: both sizes are asked,
    and the example has them equal.
    """

    def forward(self, x):
        height, width = x.shape[-2:]
        up = 1 if height % 2 == 0 else 0
        left = 1 if width % 2 == 0 else 0
        return nn.functional.pad(x, (left, 0, up, 0))


def test_each_of_two_equal_sizes_takes_the_way_of_the_example(compile_module):
    model = ByParity()
    even = compile_module(model, (torch.randn(2, 3, 8, 8),))
    odd = compile_module(model, (torch.randn(2, 3, 7, 7),))
    for compiled, sizes in ((even, (4, 16)), (odd, (5, 9))):
        for height in sizes:
            for width in sizes:
                x = torch.randn(1, 2, height, width)
                assert torch.equal(compiled(x), model(x))
    for compiled, wrong in ((even, (4, 5)), (even, (5, 4)), (odd, (4, 5)), (odd, (5, 4))):
        with pytest.raises(DimError, match=r"% 2 [!=]= 0|%2 == 0"):
            compiled(torch.randn(1, 2, *wrong))


@pytest.mark.parametrize(
    ("text", "only_small"),
    [
        ("Ne(s, 0)", True),
        ("Ne(s, 1)", True),
        ("Ne(s*t, 1)", True),
        ("s > 1", True),
        ("Ne(s + t, 0)", True),
        ("Ne(Mod(s, 2), 0)", False),
        ("Ne(Mod(s, 2), 1)", False),
        ("Ne(Mod(s*t, 4), 0)", False),
        ("Ne(Mod(s, 10), 0)", False),
        ("Ne(Mod(s, 8), 1)", False),
        ("Mod(s, 14) > 0", False),
        ("Ne(PythonMod(s, 10), 0)", False),
        ("Ne(s - t, 1)", False),
        ("Ne(s - t, 0)", False),
        ("Ne(floor(s/4), 0)", False),
        ("Ne(Mod(s, floor(t/4)), 0)", False),
        ("Ne(s, t)", False),
        ("s > 5", False),
        ("Eq(s, 1)", False),
    ],
)
def test_what_excludes_small_sizes_only(text, only_small):
    s, t = sympy.symbols("s t", integer=True, nonnegative=True)
    assert (
        excludes_only_small(
            sympy.sympify(text, locals={"s": s, "t": t, "PythonMod": PythonMod}, evaluate=False)
        )
        == only_small
    )


def test_facts_are_spelled_as_python():
    s, t = sympy.symbols("s0 s1", integer=True, nonnegative=True)
    assert spelled(sympy.Ne(sympy.Mod(s, 2), 0)) == "s0 % 2 != 0"
    assert spelled(sympy.Ne(sympy.Mod(s + t, 4), 1)) == "(s0 + s1) % 4 != 1"
    assert spelled(sympy.Ne(PythonMod(s, 2 * t), 0)) == "s0 % (2*s1) != 0"
    assert spelled(sympy.Eq(FloatTrueDiv(s + 1, t + 2), 0.5)) == "(s0 + 1)/(s1 + 2) == 0.5"
    assert spelled(sympy.Eq(IntTrueDiv(s, 2 * t), 0.5)) == "(s0)/(2*s1) == 0.5"


@pytest.mark.parametrize("swapped", [False, True])
def test_a_batch_of_1_stays_dynamic_beside_the_one_channel_of_a_model(swapped, compile_module):
    """Both have size 1 in the example: the weights fix only the channel."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(1, 4, 3)

        def forward(self, x):
            return self.conv(x.transpose(0, 1) if swapped else x)

    model = Model().eval()
    compiled = compile_module(model, (torch.randn(1, 1, 40),))
    for batch, length in ((1, 40), (3, 7), (5, 64)):
        x = torch.randn(batch, 1, length)
        x = x.transpose(0, 1) if swapped else x
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)
    wrong = (2, 1, 40) if swapped else (1, 2, 40)
    with pytest.raises(DimError):
        compiled(torch.randn(wrong))


def test_a_cache_of_many_layers_with_sizes_like_those_of_others(compile_module):
    """In the example there are as many heads as rows of the batch,
    and as many features as the mask is long.
    """

    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.keys = nn.ModuleList(nn.Linear(4, 16) for _ in range(6))

        def forward(self, x, mask, caches):
            scores = []
            if caches[0].shape[2] + x.shape[1] > mask.shape[1]:
                mask = nn.functional.pad(mask, (0, caches[0].shape[2] + x.shape[1] - mask.shape[1]))
            for layer, cache in zip(self.keys, caches, strict=True):
                keys = layer(x).unflatten(-1, (2, 8)).transpose(1, 2)
                keys = torch.cat([cache, keys], 2)
                scores.append(keys.sum(-1) * mask[:, None])
            return scores

    def call(batch, past, new):
        return (
            torch.randn(batch, new, 4),
            torch.rand(batch, past + new),
            [torch.randn(batch, 2, past, 8) for _ in range(6)],
        )

    model = Layers().eval()
    compiled = compile_module(model, call(2, 7, 1))
    for sizes in ((2, 7, 1), (1, 3, 1), (3, 20, 4), (5, 1, 2)):
        given = call(*sizes)
        with torch.no_grad():
            torch.testing.assert_close(compiled(*given), model(*given), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, :1].squeeze(1),
        lambda x: x[:, -1:].squeeze(-2),
        lambda x: x[:, 2:3].squeeze(),
        lambda x: torch.squeeze(x[:, :1, 1:2], (1, 2)),
        lambda x: torch.squeeze(x[:, :1, 1:2], dim=-1),
        lambda x: torch.ops.aten.squeeze.dim(x[:, :1], 1),
        lambda x: torch.distributions.Categorical(logits=x).log_prob(x[..., 0].long().clamp(0, 1)),
    ],
)
def test_an_axis_that_a_slice_makes_1_is_squeezed(function, compile_module):
    compiled = compile_module(Function(function), (torch.rand(4, 8, 5),))
    for shape in ((4, 8, 5), (2, 3, 2), (1, 9, 3)):
        x = torch.rand(shape)
        expected = function(x)
        if 1 not in shape or function(torch.rand(2, 3, 2)).dim() == expected.dim():
            torch.testing.assert_close(compiled(x), expected)


class Step(nn.Module):
    """New words beside a cache, whose length asks for that of the mask in several ways."""

    def __init__(self, way):
        super().__init__()
        self.way, self.inner = way, nn.Linear(4, 4)

    def forward(self, x, cache, mask):
        if cache.numel() == 0:
            cache = cache + 1
        keys = torch.cat([cache, self.inner(x)], 1)
        if self.way == "asked":
            if (missing := keys.shape[1] - mask.shape[1]) > 0:
                mask = nn.functional.pad(mask, (0, missing))
        elif self.way == "viewed":
            mask = mask.view(x.shape[0], -1)
            if keys.shape[1] > mask.shape[1]:
                mask = nn.functional.pad(mask, (0, 1))
        elif self.way == "counted":
            return mask.cumsum(1)[:, cache.shape[1] :, None] + x, keys
        return (x @ keys.transpose(1, 2)) * mask[:, None], keys


@pytest.mark.parametrize("way", ["asked", "viewed", "counted", "added"])
def test_new_words_beside_a_cache_where_sizes_of_the_example_follow_one_another(way, compile_module):
    """Of four features, five words that are held and one that is new, a mask of six."""

    def call(batch, held, new):
        return torch.randn(batch, new, 4), torch.randn(batch, held, 4), torch.rand(batch, held + new)

    model = Step(way).eval()
    compiled = compile_module(model, call(3, 5, 1))
    for sizes in ((3, 5, 1), (1, 1, 1), (2, 20, 4), (5, 2, 3)):
        given = call(*sizes)
        with torch.no_grad():
            torch.testing.assert_close(compiled(*given), model(*given), rtol=1e-5, atol=1e-5)


def test_a_named_tuple_is_a_tuple_of_arguments(compile_module):
    import collections

    class Model(nn.Module):
        def forward(self, a, b):
            return a * 2 + b

    given = collections.namedtuple("Given", "a b")(torch.rand(3), torch.rand(3))
    torch.testing.assert_close(compile_module(Model(), given)(*given), given.a * 2 + given.b)


class Grid(nn.Module):
    """A line as vision models of transformers have it, which means something else here."""

    num_positions = 16

    def forward(self, x):
        height, width = x.shape
        num_patches = height * width
        num_positions = self.num_positions
        if num_patches == num_positions and height == width:
            return x + 1
        return x - 1


def test_a_model_s_own_line_about_its_size_is_a_condition(compile_module):
    compiled = compile_module(Grid(), (torch.rand(3, 5),))
    x = torch.rand(4, 5)
    torch.testing.assert_close(compiled(x), x - 1)
    with pytest.raises(disc.Error):
        compiled(torch.rand(4, 4))


@pytest.mark.parametrize(
    "dims", [None, {"x": {0: "B"}}, {"x": {0: "B"}, "w": {0: 6, 1: 4, 2: 1, 3: 1}}], ids=str
)
def test_channels_that_disagree_are_told_from_a_batch_and_windows_of_one(dims):
    class Convolution(torch.nn.Module):
        def forward(self, x, w):
            return torch.nn.functional.conv2d(x, w)

    x, w = torch.randn(1, 4, 5, 6), torch.randn(6, 4, 1, 1)
    compiled = disc.optimize(Convolution(), (x, w), dims=dims)
    for batch in (1, 3):
        x = torch.randn(batch, 4, 7, 5)
        torch.testing.assert_close(compiled(x, w), torch.nn.functional.conv2d(x, w))
