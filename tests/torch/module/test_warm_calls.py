"""Calls like one that was served before run no code of Python, and notice all that changed."""

from __future__ import annotations

import copy
import dataclasses
import gc
import sys
import weakref
from collections import OrderedDict

import disc
import pytest
import torch
from disc.core import capturing
from in_threads import in_threads
from torch import nn
from torch.autograd import forward_ad

X, Y = torch.randn(3, 4), torch.randn(3, 4)
pytestmark = pytest.mark.fallback


def frames(call) -> list[str]:
    """The functions of Python that a call enters."""
    entered: list[str] = []

    def note(frame, event, _):
        if event == "call":
            entered.append(frame.f_code.co_qualname if sys.version_info >= (3, 11) else frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered[1:]


def warm(module: nn.Module, *args, **kwargs):
    """A compiled module after calls of a form, the last of which ran no code of Python."""
    fast = disc.optimize(module)
    with torch.no_grad():
        fast(*args, **kwargs)
        assert frames(lambda: fast(*args, **kwargs)) == []
    return fast


class Sum(nn.Module):
    def forward(self, x, y=None, scale=2.0, flag=True, name="a"):
        x = x * scale if flag else x
        return x if y is None else x + y


class Parts(nn.Module):
    def forward(self, pair, named):
        return pair[0] + named["a"], {"b": [pair[1], named["a"] * 2]}


@dataclasses.dataclass
class Record(OrderedDict):
    first: torch.Tensor | None = None
    second: torch.Tensor | None = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if (value := getattr(self, field.name)) is not None:
                self[field.name] = value


torch.utils._pytree.register_pytree_node(
    Record,
    lambda record: (list(record.values()), list(record)),
    lambda values, keys: Record(**dict(zip(keys, values, strict=True))),
)


class Recorded(nn.Module):
    def forward(self, x):
        return Record(second=x * 2)


@pytest.mark.parametrize(
    ("module", "args", "kwargs"),
    [
        (Sum(), (X,), {}),
        (Sum(), (X, Y), {}),
        (Sum(), (), {"x": X, "y": Y}),
        (Sum(), (X,), {"y": Y, "scale": 3.0}),
        (Sum(), (X, None, 2.0, False), {"name": "b"}),
        (nn.Linear(4, 2), (X,), {}),
        (Parts(), ((X, Y), {"a": X}), {}),
        (Parts(), ([X, Y],), {"named": {"a": X}}),
        (Recorded(), (X,), {}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_results_are_those_of_the_module(module, args, kwargs):
    fast = warm(module, *args, **kwargs)
    with torch.no_grad():
        found, expected = fast(*args, **kwargs), module(*args, **kwargs)
    assert type(found) is type(expected)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    if isinstance(expected, Record):
        assert vars(found).keys() == vars(expected).keys()
        assert list(found) == ["second"]
        assert found.first is None
        assert found.second is found["second"]


def test_every_call_is_counted():
    fast = warm(Sum(), X)
    before = disc.report(fast).to_dict()["calls"]
    with torch.no_grad():
        for _ in range(5):
            fast(X)
    assert disc.report(fast).to_dict()["calls"] == before + 5


def test_forms_in_turn_stay_native():
    fast = disc.optimize(Sum())
    calls = [lambda: fast(X), lambda: fast(X, Y), lambda: fast(X[0]), lambda: fast(X.double(), y=Y.double())]
    with torch.no_grad():
        for call in calls * 2:
            call()
        assert [frames(call) for call in calls * 2] == [[]] * 8
        assert torch.equal(fast(X.double(), y=Y.double()), X.double() * 2 + Y.double())


def test_sizes_change_without_python():
    fast = warm(Sum(), X, Y)
    large = torch.randn(7, 4)
    with torch.no_grad():
        assert frames(lambda: fast(large, large)) == []
        assert torch.equal(fast(large, large), large * 2 + large)


def test_the_order_of_keywords_is_free():
    fast = warm(Sum(), x=X, y=Y)
    with torch.no_grad():
        assert frames(lambda: fast(y=Y, x=X)) == []
        assert torch.equal(fast(y=Y, x=X), X * 2 + Y)


@pytest.mark.parametrize(
    "other",
    [
        {"scale": 3.0}, {"scale": -2.0}, {"scale": 2}, {"flag": False}, {"flag": 1}, {"name": "b"}, {"y": Y},
        {"scale": float("nan")},
    ],
    ids=str,
)  # fmt: skip
def test_other_constants_are_another_form(other):
    module = Sum()
    fast = warm(module, X, None, 2.0, True, "a")
    given = {"y": None, "scale": 2.0, "flag": True, "name": "a", **other}
    with torch.no_grad():
        torch.testing.assert_close(fast(X, *given.values()), module(X, *given.values()), equal_nan=True)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.factor, self.parts = nn.Linear(4, 4), 2.0, [1.0]

    def forward(self, x):
        return self.linear(x) * self.factor + self.parts[0] + (1 if self.training else 0)


def _write_weight(module):
    with torch.no_grad():
        module.linear.weight.mul_(2)


CHANGES = {
    "weight written": _write_weight,
    "weight's data": lambda m: m.linear.weight.data.add_(1),
    "weight replaced": lambda m: setattr(m.linear, "weight", nn.Parameter(torch.ones(4, 4))),
    "attribute": lambda m: setattr(m, "factor", 3.0),
    "list": lambda m: m.parts.__setitem__(0, 5.0),
    "mode": lambda m: m.train(not m.training),
    "submodule": lambda m: setattr(m, "linear", nn.Linear(4, 4)),
    "hook of a part": lambda m: m.linear.register_forward_hook(lambda module, args, y: y + 1),
    "forward": lambda m: setattr(m, "forward", lambda x: x - 1),
    "class": lambda m: setattr(m, "__class__", type("Other", (Layer,), {"forward": lambda self, x: x + 7})),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_the_module_are_noticed(name):
    torch.manual_seed(0)
    module = Layer().eval()
    fast = warm(module, X)
    CHANGES[name](module)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(fast(X), module(X))


def test_training_of_the_compiled_module_is_noticed():
    module = Layer().eval()
    fast = warm(module, X)
    fast.train()
    with torch.no_grad():
        torch.testing.assert_close(fast(X), module(X))
        fast.eval()
        torch.testing.assert_close(fast(X), module(X))


@pytest.mark.parametrize("kind", ["forward", "forward_pre"])
def test_hooks_of_the_compiled_module_are_called(kind):
    fast, seen = warm(Sum(), X), []
    handle = getattr(fast, f"register_{kind}_hook")(lambda *_: seen.append(kind))
    with torch.no_grad():
        fast(X)
        assert seen == [kind]
        handle.remove()
        fast(X)
        assert seen == [kind]
        assert frames(lambda: fast(X)) == []


def test_tables_of_hooks_may_be_replaced():
    fast, seen = warm(Sum(), X), []
    other = disc.optimize(Sum())
    other.register_forward_hook(lambda *_: seen.append(1))
    fast.__dict__["_forward_hooks"] = other._forward_hooks
    with torch.no_grad():
        fast(X)
    assert seen == [1]


def test_backward_hooks_of_all_modules_are_seen():
    fast = warm(Sum(), X)
    handle = nn.modules.module.register_module_full_backward_hook(lambda *_: None)
    try:
        with torch.no_grad():
            assert "OptimizedModule.__call__" in frames(lambda: fast(X))[0]
    finally:
        handle.remove()
    with torch.no_grad():
        assert frames(lambda: fast(X)) == []


def test_a_compiled_call_is_called():
    fast = warm(Sum(), X)
    fast._compiled_call_impl = lambda x: x - 1
    assert torch.equal(fast(X), X - 1)


def test_inputs_that_require_a_gradient_run_in_pytorch():
    module = Layer().eval()
    fast = warm(module, X)
    x = X.clone().requires_grad_()
    y = fast(x)
    assert y.requires_grad
    with torch.no_grad():
        assert frames(lambda: fast(x)) == []


def test_negated_views_are_read_right():
    fast = warm(Sum(), X)
    z = torch.randn(3, 4, dtype=torch.complex64)
    view = torch.as_strided(z.conj().imag, (3, 4), (8, 2))
    assert view.is_neg()
    with torch.no_grad():
        torch.testing.assert_close(fast(view), view * 2)
        dense = torch.as_strided(z.conj().imag, (3, 4), (4, 1))
        torch.testing.assert_close(fast(dense), dense * 2)


class Kind(torch.Tensor):
    pass


def test_tensors_of_other_classes_are_left():
    fast = warm(Sum(), X)
    with torch.no_grad():
        found = fast(X.as_subclass(Kind))
    assert type(found) is Kind


def test_tangents_are_seen():
    fast = warm(Sum(), X)
    with forward_ad.dual_level(), torch.no_grad():
        dual = forward_ad.make_dual(X, torch.ones_like(X))
        assert forward_ad.unpack_dual(fast(dual)).tangent is not None


def test_modes_around_calls_are_seen():
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    module = nn.Linear(4, 4)
    fast = warm(module, X)
    with torch.no_grad():
        with Mode():
            fast(X)
        assert seen
        with torch.autocast("cpu", torch.bfloat16):
            assert fast(X).dtype is torch.bfloat16
        assert fast(X).dtype is torch.float32
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with torch.no_grad():
            assert "OptimizedModule.__call__" in frames(lambda: fast(X))[0]
    finally:
        torch.set_default_dtype(before)


def test_recordings_see_calls(tmp_path):
    fast = warm(Sum(), X)
    with torch.no_grad(), disc.capture(fast, tmp_path / "call.npz") as recording:
        assert capturing.active
        fast(X)
    assert recording.calls == 1


def test_a_transform_sees_the_ops():
    fast = warm(Sum(), X[0])
    torch.testing.assert_close(torch.func.vmap(fast)(X), X * 2)


def test_threads_call_at_once():
    fast = warm(Sum(), X, Y)

    def call(seed: int) -> None:
        x = torch.full((3, 4), float(seed))
        with torch.no_grad():
            for _ in range(300):
                assert torch.equal(fast(x, x), x * 3)

    in_threads(4, call)


class Asks(nn.Module):
    def forward(self, x, y):
        if x is y:
            return x - 1
        return x * 2 if x.is_contiguous() and not x.requires_grad else x * 3


def test_questions_of_the_model_are_asked():
    module = Asks()
    fast = warm(module, X, Y)
    with torch.no_grad():
        for x, y in [(X, X), (X.t(), Y.t()), (X.clone().requires_grad_(), Y), (nn.Parameter(X), Y)]:
            torch.testing.assert_close(fast(x, y), module(x, y))


def test_refused_sizes_run_in_pytorch():
    class Whole(nn.Module):
        def forward(self, x):
            return x.view(2, -1)

    module = Whole()
    x = torch.randn(4, 3)
    fast = disc.optimize(module)
    with torch.no_grad():
        fast(x), fast(x)
        for _ in range(3):
            with pytest.raises(RuntimeError):
                fast(torch.randn(3, 3))
        torch.testing.assert_close(fast(x), module(x))


def test_graphs_of_torch_compile_look_through_it():
    fast = warm(Sum(), X)

    @torch.compile(backend="eager", fullgraph=True)
    def around(x):
        return fast(x) + 1

    with torch.no_grad():
        torch.testing.assert_close(around(X), X * 2 + 1)


def test_who_looks_up_the_method_finds_a_function():
    fast = warm(Sum(), X)
    assert type(fast).__call__.__name__ == "__call__"
    with torch.no_grad():
        assert torch.equal(fast.__call__(X), X * 2)
        assert torch.equal(type(fast).__call__(fast, X), X * 2)


def test_copies_have_calls_of_their_own():
    fast = warm(Layer().eval(), X)
    other = copy.deepcopy(fast)
    _write_weight(other.original)
    with torch.no_grad():
        torch.testing.assert_close(fast(X), fast.original(X))
        torch.testing.assert_close(other(X), other.original(X))


def test_modules_are_freed():
    fast = warm(Layer().eval(), X)
    fast.original.back = fast
    gone = weakref.ref(fast)
    del fast
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    "module", [nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 4), nn.ReLU()), Sum()], ids=str
)
def test_graphs_of_torch_compile_run_no_code_of_disc(module):
    compiled = torch.compile(module.eval(), backend="disc")
    with torch.no_grad():
        for _ in range(3):
            compiled(X)
        assert not [
            name for name in frames(lambda: compiled(X)) if name.startswith(("CompiledGraph", "Bound"))
        ]
        before = disc.report(compiled).to_dict()["calls"]
        torch.testing.assert_close(compiled(X), module(X))
    assert disc.report(compiled).to_dict()["calls"] == before + 1


def test_graphs_notice_weights_that_change():
    module = nn.Linear(4, 2).eval()
    compiled = torch.compile(module, backend="disc")
    with torch.no_grad():
        for _ in range(4):
            for _ in range(2):
                torch.testing.assert_close(compiled(X), module(X))
            module.weight.mul_(2)


def test_layers_that_share_a_graph_take_turns():
    layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4)).eval()
    for layer in layers:
        layer.compile(backend="disc")
    with torch.no_grad():
        for _ in range(3):
            for layer in layers:
                torch.testing.assert_close(layer(X), nn.functional.linear(X, layer.weight, layer.bias))
        for layer in layers:
            assert not [
                name for name in frames(lambda layer=layer: layer(X)) if name.startswith("CompiledGraph")
            ]


def test_weights_of_a_graph_that_are_gone_are_let_go():
    module = nn.Linear(4, 2).eval()
    compiled = torch.compile(module, backend="disc")
    with torch.no_grad():
        for _ in range(3):
            compiled(X)
        before = weakref.ref(module.weight)
        module.weight = nn.Parameter(torch.ones(2, 4))
        gc.collect()
        assert before() is None
        torch.testing.assert_close(compiled(X), module(X))
