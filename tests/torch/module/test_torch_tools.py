"""Functions of torch that trace, convert, wrap or take apart a module: on a compiled one they do
what they do on the original.
"""

from __future__ import annotations

import copy
import pickle

import disc
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

pytestmark = pytest.mark.fallback


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)
        self.gain = 2.0

    def forward(self, x):
        return self.second(torch.relu(self.norm(self.first(x)))) * self.gain


class Plus(nn.Module):
    def forward(self, weight):
        return weight + 1


@pytest.fixture
def net():
    return Net().eval()


@pytest.fixture
def fast(net):
    return disc.optimize(net, torch.randn(3, 4))


def _check(fast, module):
    x = torch.randn(5, 4)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), module(x))


ROWS = {"x": {0: torch.export.Dim("rows")}}
TRACES = {
    "export": lambda m, x: torch.export.export(m, (x,), dynamic_shapes=ROWS, strict=False).module(),
    "strict export": lambda m, x: torch.export.export(m, (x,), dynamic_shapes=ROWS, strict=True).module(),
    "jit.trace": torch.jit.trace,
    "jit.script": lambda m, x: torch.jit.script(m),
    "jit.script of a module that holds it": lambda m, x: torch.jit.script(nn.Sequential(m)),
    "fx": lambda m, x: torch.fx.symbolic_trace(m),
    "fx of a module that holds it": lambda m, x: torch.fx.symbolic_trace(nn.Sequential(m)),
    "dynamo": lambda m, x: torch.compile(m, backend="eager", fullgraph=True),
}


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_is_that_of_the_original(name, net, fast):
    if name != "dynamo":
        # A call is served by what served the last one.
        _check(fast, net)
    traced = TRACES[name](fast, torch.randn(2, 4))
    _check(traced, net)
    _check(fast, net)


WEIGHTS = {
    "parametrization": lambda m: parametrize.register_parametrization(m, "weight", Plus()),
    "weight_norm": parametrizations.weight_norm,
    "hook of weight_norm": nn.utils.weight_norm,
    "prune": lambda m: prune.l1_unstructured(m, "weight", 0.5),
    "spectral_norm": nn.utils.spectral_norm,
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_are_computed_by_what_is_put_on(name):
    module = nn.Linear(4, 4).eval()
    fast = disc.optimize(module, torch.randn(3, 4))
    _check(fast, module)
    WEIGHTS[name](fast)
    for _ in range(2):
        _check(fast, module)
    if parametrize.is_parametrized(module):
        assert isinstance(fast, type(module))
        parametrize.remove_parametrizations(fast, "weight")
        _check(fast, module)
        assert type(module) is nn.Linear


def test_buffers_and_hooks_of_the_state_are_the_originals(net, fast):
    fast.register_buffer("kept", torch.ones(1))
    fast.register_buffer("passing", torch.ones(1), persistent=False)
    assert "kept" in net.state_dict()
    assert "passing" not in net.state_dict()
    assert "passing" not in fast.state_dict()
    seen = []
    fast.register_state_dict_post_hook(lambda *args: seen.append("saved"))
    fast.register_load_state_dict_post_hook(lambda *args: seen.append("loaded"))
    fast.load_state_dict(fast.state_dict())
    assert seen == ["saved", "loaded"]


def test_modules_of_one_class_are_of_one_class():
    modules = [nn.Linear(4, 4) for _ in range(3)]
    stacked = [disc.optimize(m) for m in modules]
    weights, buffers = torch.func.stack_module_state(stacked)
    x = torch.randn(2, 4)

    def call(w, b):
        return torch.func.functional_call(stacked[0], (w, b), (x,))

    expected = torch.stack([m(x) for m in modules])
    torch.testing.assert_close(torch.vmap(call)(weights, buffers), expected)
    assert type(stacked[0]) is not type(disc.optimize(nn.ReLU()))


def test_names_of_the_original_are_listed(net, fast):
    assert set(dir(net)) <= set(dir(fast))
    assert next(fast.modules()) is fast
    assert [name for name, _ in fast.named_modules()] == [name for name, _ in net.named_modules()]


def _triple(module, args, y):
    return y * 3


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_hooks_of_a_compiled_module_are_copied(how, net, fast):
    fast.register_forward_hook(_triple)
    x = torch.randn(2, 4)
    with torch.no_grad():
        torch.testing.assert_close(how(fast)(x), net(x) * 3)


class Counting:
    """Counts the calls of a module that it holds."""

    def __init__(self, module):
        self.module, self.calls = module, 0
        module.register_forward_hook(self.count)

    def count(self, module, args, y):
        self.calls += 1


@pytest.mark.parametrize("how", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copied_hook_is_that_of_the_copy(how, fast):
    counting = Counting(fast)
    copied = how(counting)
    copied.module(torch.randn(2, 4))
    assert (counting.calls, copied.calls) == (0, 1)
    how(fast)(torch.randn(2, 4))
    assert counting.calls == 0


@pytest.fixture
def mesh():
    if not torch.distributed.is_available():
        pytest.skip("torch without torch.distributed")
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
    torch.distributed.destroy_process_group()


def test_wrappers_of_one_process(mesh, net, fast):
    from torch.distributed.fsdp import fully_shard

    expected = copy.deepcopy(net)
    _check(nn.parallel.DistributedDataParallel(fast), expected)
    fully_shard(fast, mesh=mesh)
    for _ in range(2):
        _check(fast, expected)
