"""Calls and models that compiled code cannot serve: torch runs them as without disc, and the report
counts them.
"""

from __future__ import annotations

import dataclasses

import disc
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.fallback


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


class Scaled(torch.Tensor):
    """A weight of bytes with a scale, whose ops make numbers of it."""

    @staticmethod
    def __new__(cls, stored, scale):
        return torch.Tensor._make_wrapper_subclass(cls, stored.shape, dtype=scale.dtype)

    def __init__(self, stored, scale):
        self.stored, self.scale = stored, scale

    def __tensor_flatten__(self):
        return ["stored", "scale"], None

    @staticmethod
    def __tensor_unflatten__(held, *_):
        return Scaled(held["stored"], held["scale"])

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.detach.default:
            return type(args[0])(args[0].stored, args[0].scale)
        plain = torch.utils._pytree.tree_map_only(Scaled, lambda t: t.stored.float() * t.scale, args)
        return function(*plain, **(kwargs or {}))


class Placed(Scaled):
    """A weight with an attribute that is no tensor, as a mesh of devices is."""

    def __tensor_flatten__(self):
        return ["stored", "types"], None

    types = ("a mesh",)


class Marked(torch.Tensor):
    pass


def step(x, y):
    x.add_(1)
    return x * y


def report(fast):
    return disc.report(fast).to_dict()


def test_inputs_that_share_memory_are_served_by_torch():
    fast = disc.optimize(Function(step), (torch.zeros(4), torch.zeros(4)))
    x, expected = torch.arange(4.0), torch.arange(4.0)
    assert torch.equal(fast(x, x), step(expected, expected))
    assert torch.equal(x, expected)
    values = report(fast)
    assert [row["calls"] for row in values["fallbacks"]] == [1]
    assert values["coverage"] == 0.0
    fast(torch.ones(4), torch.ones(4))
    assert report(fast)["coverage"] == 0.5
    strict = disc.optimize(
        Function(step), (torch.zeros(4), torch.zeros(4)), options=disc.Options(fallback="error")
    )
    with pytest.raises(disc.Error, match="shares memory"):
        strict(x, x)
    assert torch.equal(x, expected)


def test_a_buffer_that_is_passed_as_the_input_is_written_once():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("sum", torch.arange(4.0))

        def forward(self, x):
            self.sum.add_(x)
            return self.sum * 2

    model = Sum()
    fast = disc.optimize(model, torch.ones(4))
    assert torch.equal(fast(model.sum), torch.arange(4.0) * 4)
    assert torch.equal(model.sum, torch.arange(4.0) * 2)


def largest(boxes, scores):
    return boxes[scores > 0.5].max(0).values


def kept(boxes, scores):
    found = boxes[scores > 0.5]
    return found[found[:, 0].argsort()], found.shape[0]


def test_data_that_keeps_nothing_is_as_in_eager():
    boxes, scores = torch.rand(5, 4), torch.ones(5)
    fast = disc.optimize(Function(kept), (boxes, scores))
    for given in (boxes, scores * 0), (boxes[:0], scores[:0]):
        assert fast(*given)[0].shape == (0, 4)
    fast = disc.optimize(Function(largest), (boxes, scores))
    for _ in range(3):
        with pytest.raises(IndexError, match="non-zero size"):
            fast(boxes, scores * 0)
    assert report(fast)["variants"] == 0
    assert torch.equal(fast(boxes, scores), boxes.max(0).values)


def test_a_call_that_eager_refuses_is_served_by_nobody():
    fast = disc.optimize(Function(lambda x: (x.amax(0), x * 2)), torch.randn(3, 4))
    for _ in range(3):
        with pytest.raises(IndexError):
            fast(torch.randn(0, 4))
        fast(torch.randn(5, 4))
    found = report(fast)
    assert (found["coverage"], found["fallbacks"], found["calls"]) == (1.0, [], 3)


def test_an_index_out_of_range_is_an_error_of_the_op():
    fast = disc.optimize(nn.Embedding(4, 3), torch.tensor([1]))
    with pytest.raises(disc.Error) as caught:
        fast(torch.tensor([4]))
    assert caught.value.code == "E0603"
    assert isinstance(caught.value.__cause__, IndexError)


def test_a_tensor_of_inference_mode_is_written_where_torch_writes_it():
    fast = disc.optimize(Function(lambda x: x.add_(1) * 2), torch.zeros(3))
    with torch.inference_mode():
        x = torch.ones(3)
        assert torch.equal(fast(x), torch.full((3,), 4.0))
    with pytest.raises(RuntimeError, match="inference tensor"):
        fast(x)


def linear(weight) -> nn.Module:
    model = nn.Linear(3, 3)
    model.weight = nn.Parameter(weight, requires_grad=False)
    return model


STORED, SCALE = torch.ones(3, 3, dtype=torch.int8), torch.tensor(0.5)
WEIGHTS = {
    "wrapper": lambda: Scaled(STORED, SCALE),
    "wrapper with an attribute that is no tensor": lambda: Placed(STORED, SCALE),
    "class of results": lambda: torch.ones(3, 3).as_subclass(Marked),
}


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS.keys())
def test_weights_of_classes_with_ops_of_their_own(weight):
    model = linear(weight())
    x = torch.rand(2, 3)
    fast = disc.optimize(model, x)
    result, expected = fast(x), model(x)
    assert type(result) is type(expected)
    torch.testing.assert_close(result, expected)
    assert report(fast)["coverage"] in (0.0, 1.0)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors(layout):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=layout)
    for fast in disc.optimize(model, x), disc.optimize(model, torch.ones(2, 3)):
        for got, expected in zip(fast(x).unbind(), model(x).unbind(), strict=True):
            torch.testing.assert_close(got, expected)
        assert report(fast)["coverage"] < 1


def test_memory_assigned_to_a_weight_is_no_memory_of_a_trace():
    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x):
            self.count.data = self.count + 1
            return x + self.count

    model = Counted()
    fast = disc.optimize(model, torch.zeros(3))
    assert torch.equal(model.count, torch.zeros(3))
    for i in range(1, 4):
        assert torch.equal(fast(torch.zeros(3)), torch.full((3,), float(i)))
    assert torch.equal(model.count, torch.full((3,), 3.0))


class Observer(nn.Module):
    """Keeps the least of each feature, in a buffer that is empty before the first call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("least", torch.empty(0))

    def forward(self, x):
        now = x.amin(0)
        if self.least.numel() == 0:
            self.least.resize_(now.shape)
            self.least.copy_(now)
        else:
            self.least.copy_(torch.minimum(self.least, now))
        return x * 2


class Memory(nn.Module):
    """Keeps all rows that it has seen, in a buffer that grows."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(1, 3))

    def forward(self, x):
        self.rows = torch.cat([self.rows, x])
        return self.rows.sum(0)


@pytest.mark.parametrize("kind", [Observer, Memory])
def test_a_buffer_that_grows_is_kept_as_in_eager(kind):
    model, expected = kind(), kind()
    fast = disc.optimize(model, torch.ones(2, 3))
    for _ in range(3):
        x = torch.randn(2, 3)
        torch.testing.assert_close(fast(x), expected(x))
        torch.testing.assert_close(dict(model.named_buffers()), dict(expected.named_buffers()))


def _appends(rows):
    rows.append(rows[0] * 2)
    return rows[-1]


def _puts(batch):
    batch["y"] = batch["x"] * 2
    return batch


def _takes(batch):
    return batch.pop("x") * 2


def _replaces(rows):
    rows[0] = rows[0] + 1
    return rows[0] * 2


CHANGED = {
    "append": (_appends, lambda n: [torch.ones(n)]),
    "new key": (_puts, lambda n: {"x": torch.ones(n)}),
    "pop": (_takes, lambda n: {"x": torch.ones(n), "z": torch.ones(1)}),
    "element": (_replaces, lambda n: [torch.ones(n)]),
    "dict in a list": (lambda rows: _puts(rows[0])["y"], lambda n: [{"x": torch.ones(n)}]),
}


@pytest.mark.parametrize("name", CHANGED)
@pytest.mark.parametrize("is_first", [False, True])
def test_lists_and_dicts_of_the_caller_are_changed_as_in_eager(name, is_first):
    function, make = CHANGED[name]
    model, example = Function(function), make(3)
    fast = disc.optimize(model) if is_first else disc.optimize(model, (example,))
    torch.testing.assert_close(example, make(3))
    with torch.no_grad():
        for n in (3, 2, 5):
            given, expected = make(n), make(n)
            result, right = fast(given), model(expected)
            torch.testing.assert_close(result, right)
            torch.testing.assert_close(given, expected)
            assert (result is given) is (right is expected)
    with pytest.raises(disc.Error, match=r"changes a (list|dict) that it is given"):
        disc.optimize(model, (make(3),), options=disc.Options(fallback="error"))


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    y: torch.Tensor


@dataclasses.dataclass
class Slotted:
    __slots__ = ("x", "y")
    x: torch.Tensor
    y: torch.Tensor


@pytest.mark.parametrize("kind", [Batch, Slotted])
def test_objects_of_the_caller_are_changed_as_in_eager(kind):
    if kind not in torch.utils._pytree.SUPPORTED_NODES:
        torch.utils._pytree.register_dataclass(kind)

    def changes(batch):
        batch.y = batch.x * 2
        return batch.x + 1

    fast = disc.optimize(Function(changes))
    for n in (2, 3):
        batch = kind(torch.ones(n), torch.zeros(n))
        assert torch.equal(fast(batch), torch.full((n,), 2.0))
        assert torch.equal(batch.y, torch.full((n,), 2.0))


def test_a_list_that_holds_itself():
    def example(n):
        rows = [torch.ones(n)]
        rows.append(rows)
        return rows

    model = Function(lambda rows: rows[0] * 2)
    fast = disc.optimize(model, (example(2),))
    for n in (2, 3):
        assert torch.equal(fast(example(n)), torch.full((n,), 2.0))
    assert torch.equal(fast([torch.ones(2), []]), torch.full((2,), 2.0))
    assert torch.equal(fast(example(4)), torch.full((4,), 2.0))
    values = report(fast)
    assert values["coverage"] == 0.25
    assert [row["calls"] for row in values["fallbacks"]] == [3]


class Sees(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def test_calls_within_modes_and_transforms_are_counted():
    model = nn.Linear(3, 3)
    x = torch.ones(2, 3)
    fast = disc.optimize(model, x)
    with torch.no_grad():
        fast(x)
        with Sees():
            fast(x)
        torch.vmap(fast)(x)
        torch.func.grad(lambda v: fast(v).sum())(x)
    values = report(fast)
    assert values["coverage"] == 0.25
    assert {row["reason"]: row["calls"] for row in values["fallbacks"]} == {
        "a mode with __torch_function__, or another default device, is around the call": 1,
        "the call is within a transform of torch.func": 2,
    }
    torch.export.export(fast, (x,))
    assert report(fast) == values


def _view(n):
    return torch.ones(n, n)[:, 1:]


@torch.enable_grad()
def _no_leaf(n):
    return torch.ones(n, requires_grad=True) * 1


#: Models that ask something of their inputs, and calls whose answers differ.
QUESTIONS = {
    "requires_grad": (
        lambda x: x * 2 if x.requires_grad else x * 3,
        lambda: (torch.ones(2, requires_grad=True),),
    ),
    "is_leaf": (
        lambda x: x * 2 if x.is_leaf else x * 3,
        lambda: (_no_leaf(2),),
    ),
    "a parameter": (
        lambda x: x * 2 if isinstance(x, nn.Parameter) else x * 3,
        lambda: (nn.Parameter(torch.ones(2), requires_grad=False),),
    ),
    "is_contiguous": (lambda x: x * 2 if x.is_contiguous() else x * 3, lambda: (_view(3),)),
    "stride": (lambda x: x * x.stride(0), lambda: (_view(4),)),
    "identity": (
        lambda x, y: x + y if x is y else x * y,
        lambda: (torch.full((2,), 3.0),) * 2,
    ),
    "identity in an inner function": (
        lambda x, y: x + y if any(z is x for z in (y,)) else x * y,
        lambda: (torch.full((2,), 3.0),) * 2,
    ),
    "identity of elements": (
        lambda *xs: xs[0] + xs[1] if xs[0] is xs[1] else xs[0] * xs[1],
        lambda: (torch.full((2,), 3.0),) * 2,
    ),
    "id": (
        lambda x, y: x + y if id(x) == id(y) else x * y,
        lambda: (torch.full((2,), 3.0),) * 2,
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("is_first", [False, True])
def test_what_a_model_asks_of_its_inputs_is_answered_as_in_eager(name, is_first):
    function, other = QUESTIONS[name]
    model = Function(function)

    def plain():
        return tuple(torch.ones(t.shape) * 2 for t in other())

    with torch.no_grad():
        fast = disc.optimize(model, other() if is_first else plain())
        for make in (other, plain, other, plain):
            torch.testing.assert_close(fast(*make()), model(*make()))
    values = report(fast)
    assert values["coverage"] == 0.5
    assert "the model asks" in values["fallbacks"][0]["reason"]


def test_a_model_that_asks_for_its_own_tensor_is_answered_as_in_eager():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.full((2,), 3.0))

        def forward(self, x):
            return x * 2 if x is self.weight else x * self.weight

    model = Tied()
    fast = disc.optimize(model, (torch.ones(2),))
    with torch.no_grad():
        for x in (model.weight, torch.ones(2), model.weight):
            assert torch.equal(fast(x), model(x))
    assert report(fast)["coverage"] == 0.3333


CONTIGUOUS = {
    "of a transposed tensor": lambda x: x * 2 if x.mT.is_contiguous() else x * 3,
    "channels last": lambda x: x * 2 if x.is_contiguous(memory_format=torch.channels_last) else x * 3,
    "made so": lambda x: (x.mT if x.mT.is_contiguous() else x.mT.contiguous()).view(x.shape[0], -1),
}


@pytest.mark.parametrize("name", CONTIGUOUS)
def test_sizes_of_1_count_where_a_model_asks_for_contiguous_tensors(name):
    model = Function(CONTIGUOUS[name])
    fast = disc.optimize(model, (torch.randn(2, 3, 4, 5),))
    for shape in ((2, 3, 4, 5), (2, 1, 4, 5), (2, 3, 1, 1), (1, 3, 4, 1), (1, 1, 1, 6), (3, 2, 5, 4)):
        x = torch.randn(shape)
        torch.testing.assert_close(fast(x), model(x))
    if name == "made so":
        assert report(fast)["coverage"] == 1.0


def test_attributes_of_layers_ask_nothing_of_inputs():
    class Strided(nn.Module):
        stride = 2

        def forward(self, x, y, scale=None):
            return x * self.stride + y if scale is None else x

    fast = disc.optimize(Strided(), (torch.ones(2, 2), torch.ones(2, 2)))
    x = torch.arange(6.0).reshape(2, 3).t()
    assert torch.equal(fast(x, x), x * 3)
    assert report(fast)["coverage"] == 1.0
