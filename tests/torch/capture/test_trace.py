"""The quick tracer against torch.export: the same ops, facts and fixed sizes;
and what only torch.export captures.
"""

from __future__ import annotations

import builtins

import pytest
import sympy
import torch
from disc.core.dims import DimPlan
from disc.torch.capture import capture
from disc.torch.capture.attempts import Attempts
from disc.torch.capture.entry import Entry
from disc.torch.capture.function_caches import FunctionCaches
from disc.torch.overrides.registry import overridden
from disc.torch.pytree.arguments import flatten_arguments
from disc.torch.symbolic.expressions import expression
from disc.torch.tracer.not_traced import NotTraced
from disc.torch.tracer.tracer import trace
from torch import nn
from torch.nn import functional as F

transformers = pytest.importorskip("transformers")

SMALL = {"num_hidden_layers": 2, "hidden_size": 48, "num_attention_heads": 3, "intermediate_size": 64}


def captured_by(tracer, module, args, kwargs=None):
    arguments, tensors = flatten_arguments(module, args, kwargs or {})
    plan = DimPlan.read(None, arguments.tensor_names, [t.shape for t in tensors])
    with capture._quiet(), overridden("capture"), torch.no_grad():
        return Attempts(module, arguments, tensors, plan, tracer, FunctionCaches(module)).first_success()


def _writes(target) -> bool:
    """Numbers of torch.export are computed by functions of Python."""
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


def described(captured) -> tuple:
    """Describes a capture: the ops with their sizes, the facts and the fixed sizes;
    symbols are named by place.
    """
    names = {s: sympy.Symbol(f"d{t}_{axis}") for s, (t, axis) in captured.symbols.items()}

    def named(expr):
        return str(expr.xreplace(names)) if isinstance(expr, sympy.Basic) else str(expr)

    ops = []
    for node in reversed(captured.graph.nodes):
        if node.op == "call_function" and not node.users and not _writes(node.target):
            captured.graph.erase_node(node)
    for node in captured.graph.nodes:
        value = node.meta.get("val")
        if node.op == "call_function" and isinstance(value, torch.Tensor) and not changes_nothing(node):
            shape = [named(expression(size)) for size in value.shape]
            ops.append((str(node.target), shape, value.dtype))
    return ops, sorted(named(f) for f in captured.facts), captured.fixed


UNCHANGED = ("aten.to.", "aten.contiguous.", "aten.dropout.", "aten.lift_fresh", "aten.detach")


def changes_nothing(node) -> bool:
    """A conversion to the type that a tensor has, a dropout of nothing:
    the quick tracer does not record them.
    """
    if not str(node.target).startswith(UNCHANGED):
        return False
    before, after = node.args[0].meta["val"], node.meta["val"]
    return before.dtype == after.dtype


class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.frequency = 1.0 / (100 ** (torch.arange(0, 8, 2) / 8))

    def forward(self, x):
        angle = torch.outer(torch.arange(x.shape[1], dtype=torch.float32), self.frequency)
        a, b = x.chunk(2, -1)
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


class Sizes(nn.Module):
    def forward(self, x, y):
        n = max(x.shape[0], y.shape[0])
        scale = torch.tensor([x.shape[0], 2]).sum()
        rows = F.pad(x, (0, 0, 0, n - x.shape[0])) + F.pad(y, (0, 0, 0, n - y.shape[0]))
        return rows * scale, x[: x.shape[0] // 2], x.shape[0] * 3


class Writes(nn.Module):
    def forward(self, x):
        y = x.clone()
        y[:, 1:3] += 10
        y.view(-1).mul_(2)
        return y, F.relu(y, inplace=True)


class Halves(nn.Module):
    def forward(self, x):
        parts = x.split(3, dim=-1)
        top = torch.topk(x, 2)
        return [p * 2 for p in parts], top.values, top.indices, torch.ones(x.shape[0]).to(x.dtype)


def bert(**options):
    torch.manual_seed(0)
    return transformers.BertModel(transformers.BertConfig(**SMALL, **options)).eval()


def ids(*shape):
    return torch.ones(shape, dtype=torch.long)


CASES = {
    "bert": lambda: (bert(), (ids(1, 1),)),
    "bert, eager attention": lambda: (bert(attn_implementation="eager"), (ids(2, 7), ids(2, 7))),
    "rotary": lambda: (Rotary(), (torch.rand(2, 5, 8),)),
    "sizes": lambda: (Sizes(), (torch.rand(4, 3), torch.rand(6, 3))),
    "writes": lambda: (Writes(), (torch.rand(5, 6),)),
    "halves": lambda: (Halves(), (torch.rand(4, 6),)),
    "convolutions": lambda: (
        nn.Sequential(nn.Conv1d(4, 8, 3, stride=2), nn.BatchNorm1d(8), nn.GELU(), nn.MaxPool1d(2)).eval(),
        (torch.rand(1, 4, 32),),
    ),
    "reshape": lambda: (nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), (torch.rand(2, 3, 4),)),
}


@pytest.mark.parametrize("case", CASES)
def test_the_quick_tracer_finds_what_torch_export_finds(case):
    module, args = CASES[case]()
    quick, exported = (described(captured_by(t, module, args)) for t in (capture.quick, capture.exported))
    assert quick[0] == exported[0]
    assert quick[1:] == exported[1:]


def run(module, *args):
    arguments, tensors = flatten_arguments(module, args, {})
    entry = Entry(module, arguments, FunctionCaches(module))
    with torch.no_grad():
        return trace(entry, tensors, lambda i, axis: True, True)


class Assigns(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name
        self.register_buffer("seen", torch.zeros(3))
        self.last = None

    def forward(self, x):
        setattr(self, self.name, x + 1)
        return x * 2


@pytest.mark.parametrize("name", ["last", "fresh"])
def test_no_traced_tensor_stays_in_the_module(name):
    module = Assigns(name)
    run(module, torch.rand(3))
    assert module.last is None
    assert "fresh" not in vars(module)


def test_a_buffer_that_is_assigned_is_put_back():
    module = Assigns("seen")
    before = module.seen
    run(module, torch.rand(3))
    assert module.seen is before


class Fails(nn.Module):
    def forward(self, x):
        self.made = x
        raise ValueError("no such thing")


def test_nothing_stays_behind_after_an_error():
    from torch.utils._python_dispatch import _len_torch_dispatch_stack

    module, before = Fails(), (builtins.max, builtins.min, torch.compiler.is_exporting())
    with pytest.raises(ValueError, match="no such thing"):
        run(module, torch.rand(3))
    assert "made" not in vars(module)
    assert before == (builtins.max, builtins.min, torch.compiler.is_exporting())
    assert _len_torch_dispatch_stack() == 0
    assert type(torch.rand(2) + 1) is torch.Tensor


class AddsInPlace(nn.Module):
    """Tensors of one kind, one of which is written to; a buffer that is replaced by itself."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.rand(3))

    def forward(self, x):
        self.scale = self.scale.to(x.device)
        y = x * self.scale
        y += x + 1
        return y.relu_(), x


def test_the_quick_tracer_knows_which_tensor_is_written_to():
    module = AddsInPlace()
    before = module.scale
    run(module, torch.rand(2, 3))
    assert module.scale is before


class Item(nn.Module):
    def forward(self, x):
        return x * x.sum().item()


class Mapped(nn.Module):
    def forward(self, x):
        return torch.vmap(lambda row: row * 2)(x)


@pytest.mark.parametrize("module", [Item(), Mapped()], ids=lambda m: type(m).__name__)
def test_what_needs_more_than_the_quick_tracer_is_left_to_torch_export(module):
    with pytest.raises(NotTraced):
        run(module, torch.rand(3, 3))


def test_a_value_of_a_constant_is_known():
    class Constant(nn.Module):
        def forward(self, x):
            return x * (torch.tensor(3) + 1).item()

    graph = run(Constant(), torch.rand(3)).graph
    assert [n.args[1] for n in graph.nodes if n.target is torch.ops.aten.mul.Tensor] == [4]
