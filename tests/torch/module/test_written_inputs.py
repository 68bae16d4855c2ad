"""Inputs, parameters and buffers that a module writes to: results and what was written, against
eager, over sizes and repeated calls.
"""

from __future__ import annotations

import copy

import disc
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree


class Function(nn.Module):
    """A module of one function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def same(a, b):
    if not isinstance(b, torch.Tensor):
        assert a == b
        return
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5, equal_nan=True)


def all_same(ours, theirs):
    ours, theirs = (pytree.tree_leaves(x) for x in (ours, theirs))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        same(a, b)


def cloned(args):
    """The arguments with tensors of their own, in the same layout."""

    def clone(t):
        if not isinstance(t, torch.Tensor):
            return t
        made = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype)
        return made.copy_(t) if made.numel() else made

    return pytree.tree_map(clone, args)


def alike(compile_module, module, example, *calls):
    """Compiles once, and compares results, arguments and state with eager after each call."""
    eager = copy.deepcopy(module)
    given, state = cloned(example), copy.deepcopy(module.state_dict())
    compiled = compile_module(module, example)
    all_same(example, given)
    all_same(module.state_dict(), state)
    with torch.no_grad():
        for call in (example, *calls):
            ours, theirs = cloned(call), cloned(call)
            for _ in range(3):
                results, expected = compiled(*ours), eager(*theirs)
                all_same(results, expected)
                all_same(ours, theirs)
                all_same(module.state_dict(), eager.state_dict())
                all_same(identities(results, ours, module), identities(expected, theirs, eager))
    return compiled


def identities(results, args, module):
    """For each result, the argument or the buffer that it is."""
    known = [*pytree.tree_leaves(args), *module.parameters(), *module.buffers()]
    leaves = pytree.tree_leaves(results)
    return [
        next((i for i, t in enumerate(known) if t is r), -1) for r in leaves if isinstance(r, torch.Tensor)
    ]


def rows(n, k, d, dtype=torch.float32):
    x = (torch.randn(n, d) * 4).to(dtype)
    return x, torch.zeros(k, d, dtype=dtype), torch.randperm(k)[:n]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.bool]
)
def test_rows_of_a_cache(compile_module, dtype):
    def step(x, cache, i):
        cache.index_copy_(0, i, x)
        return cache.sum(1, dtype=torch.float32)

    sizes = [(2, 7, 5), (1, 1, 1), (0, 3, 4), (3, 9, 33), (2, 2, 0)]
    calls = [rows(*size, dtype) for size in sizes]
    alike(compile_module, Function(step), *calls)


def through_views(x):
    x[:, 0] = 1
    x.t().add_(1)
    x[1:, 1:3] *= 2
    x.view(-1)[0] = 9
    return x * 2


def assigned_parts(x, y):
    x[0] = y
    x[:, 1:] = 3
    x[1:2].copy_(x[0:1])
    return (x + 1).sum(1)


def elementwise(x, y):
    x.add_(y).mul_(2)
    y.copy_(x)
    return x, x.sum()


def exchanged(x, y):
    z = x.clone()
    x.copy_(y)
    y.copy_(z)
    return z


def old_and_new(x, y):
    before = x + 1
    x.add_(y)
    return before, x - y, x.clone()


def of_itself(x, y):
    x.copy_(x.flip(0) + y)
    x[1:] = x[:-1].clone()
    return x.cumsum(0)


def softmaxed(x, y):
    x.copy_(torch.softmax(x + y, -1))
    return x.sum(-1)


def multiplied(x, y):
    x.copy_(x @ (y.t() @ y) / 64)
    return x + y


def filled(x, y):
    x.fill_(2)
    y.zero_()
    return (y + x).sum()


def masked(x, y):
    x.masked_fill_(y > 0, -1.0)
    x[y < -1] = 5.0
    return x


def scattered(x, y):
    x.scatter_add_(0, (y > 0).long(), y)
    return x[0]


BOTH = [
    assigned_parts, elementwise, exchanged, old_and_new, of_itself, softmaxed, multiplied, filled, masked, scattered,
]  # fmt: skip


@pytest.mark.parametrize("function", BOTH, ids=lambda f: f.__name__)
def test_two_inputs(compile_module, function):
    def call(b, s):
        y = torch.randn(s) if function is assigned_parts else torch.randn(b, s)
        return torch.randn(b, s), y

    sizes = [(4, 5), (2, 1), (3, 33), (2, 7)] + ([] if function is of_itself else [(2, 0)])
    if function is scattered:
        sizes = [(4, 5), (2, 1), (3, 33)]
        function = Function(lambda x, y: scattered(x, y) * 1)
        alike(compile_module, function, *[call(*size) for size in sizes])
        return
    alike(compile_module, Function(function), *[call(*size) for size in sizes])


def test_writes_through_views(compile_module):
    alike(
        compile_module, Function(through_views), *[(torch.randn(b, s),) for b, s in ((3, 4), (2, 3), (5, 33))]
    )


@pytest.mark.parametrize("function", [elementwise, exchanged, of_itself, softmaxed, assigned_parts])
def test_strided_inputs(compile_module, function):
    def call(b, s):
        x = torch.randn(s, b).t()
        y = torch.randn(s * 2)[::2] if function is assigned_parts else torch.randn(b, 2 * s)[:, ::2]
        return x, y

    example = torch.randn(4, 5), torch.randn(5) if function is assigned_parts else torch.randn(4, 5)
    alike(compile_module, Function(function), example, call(3, 4), call(2, 33), call(6, 1))


def test_a_view_of_contiguous_memory_refuses_strides(compile_module):
    def flat(x):
        x.reshape(-1)[0] = 1
        return x.sum()

    compiled = compile_module(Function(flat), torch.zeros(2, 3))
    x = torch.zeros(3, 2).t()
    with pytest.raises(
        disc.Error, match="args_0 is written to through a view that only a contiguous"
    ) as caught:
        compiled(x)
    assert caught.value.code == "E0601"
    assert not x.any()
    assert compiled(torch.zeros(2, 3)) == 1


def test_inputs_that_share_memory(compile_module):
    compiled = compile_module(Function(old_and_new), (torch.zeros(2, 3), torch.ones(2, 3)))
    memory = torch.arange(12.0)
    before = memory.clone()
    overlapping = [
        (memory[:6].view(2, 3), memory[:6].view(2, 3)),
        (memory[:6].view(2, 3), memory[5:11].view(2, 3)),
        (memory[:6].view(3, 2).t(), memory[6:].view(2, 3)),
    ]
    for x, y in overlapping:
        with pytest.raises(disc.Error, match="shares memory") as caught:
            compiled(x, y)
        assert caught.value.code == "E0601"
        assert torch.equal(memory, before)
    x, y = memory[:6].view(2, 3), memory[6:].view(2, 3)
    results, expected = compiled(x, y), old_and_new(before[:6].view(2, 3), before[6:].view(2, 3))
    all_same(results, expected)
    all_same(memory, before)


def test_a_wrong_call_leaves_inputs_as_they_are(compile_module):
    def step(x, y):
        x.add_(y)
        return x.view(-1, 2) * 1

    compiled = compile_module(Function(step), (torch.zeros(2, 4), torch.zeros(2, 4)))
    x, y = torch.ones(2, 4), torch.ones(2, 4)
    assert compiled(x, y).sum() == 16
    for wrong in (torch.ones(3, 4), torch.ones(2, 5), torch.ones(2, 4, dtype=torch.float64), torch.ones(4)):
        with pytest.raises(disc.Error):
            compiled(x, wrong)
        assert torch.equal(x, torch.full((2, 4), 2.0))
    odd = torch.ones(1, 3)
    with pytest.raises(disc.Error):
        compiled(odd, torch.ones(1, 3))
    assert torch.equal(odd, torch.ones(1, 3))


def test_expanded_inputs_are_refused_as_in_eager(compile_module):
    compiled = compile_module(Function(lambda x: x.add_(1).sum()), torch.zeros(2, 3))
    x = torch.zeros(1, 3).expand(2, 3)
    with pytest.raises(RuntimeError):
        compiled(x)
    assert not x.any()


def test_what_is_returned_is_the_input(compile_module):
    def step(x, y):
        z = x.add_(1)
        return x, z, y

    compiled = compile_module(Function(step), (torch.zeros(3), torch.zeros(3)))
    x, y = torch.zeros(5), torch.zeros(3)
    results = compiled(x, y)
    assert all(result is wanted for result, wanted in zip(results, (x, x, y), strict=True))
    turned = torch.zeros(2, 5)[:, ::2][0]
    assert compiled(turned, y)[0] is turned
    assert turned.eq(1).all()


def test_a_returned_view_is_refused(compile_module):
    def view(x):
        x.add_(1)
        return x[0]

    with pytest.raises(disc.Error, match="returns a view of the input args_0, to which it writes") as caught:
        compile_module(Function(view), torch.zeros(2, 3))
    assert caught.value.code == "E0405"


def test_autograd_sees_the_write(compile_module):
    compiled = compile_module(Function(lambda x: x.mul_(2).sum()), torch.zeros(3))
    x, w = torch.ones(3), torch.ones(3, requires_grad=True)
    loss = (w * x).sum()
    version = x._version
    with torch.no_grad():
        compiled(x)
    assert x._version > version
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


class Counter(nn.Module):
    """Buffers that are added to, assigned anew, read and not read."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.register_buffer("total", torch.zeros(3, dtype=dtype))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("last", torch.zeros(3, dtype=dtype))
        self.register_buffer("seen", torch.zeros(3, dtype=torch.bool))
        self.scale = nn.Parameter(torch.full((3,), 2.0, dtype=dtype), requires_grad=False)
        self.fixed = nn.Linear(3, 3).to(dtype).requires_grad_(False)

    def forward(self, x):
        self.total += x.sum(0)
        self.calls = self.calls + 1
        self.last = x.sum(0) * 2
        self.seen |= (x > 0).any(0)
        self.scale.mul_(1.5)
        return self.fixed(x) * self.scale + self.total, self.calls, self.total, self.seen


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("exported", [False, True])
def test_buffers_and_parameters(compile_module, dtype, exported, monkeypatch):
    if exported:
        monkeypatch.setattr("disc.torch.capture.capture.quick", _fails)
    calls = [(torch.randn(n, 3, dtype=dtype),) for n in (2, 1, 0, 7)]
    alike(compile_module, Counter(dtype).eval(), *calls)


def _fails(*args, **kwargs):
    raise RuntimeError


def test_a_buffer_set_from_outside_is_read(compile_module):
    module = Counter().eval()
    compiled = compile_module(module, torch.ones(2, 3))
    module.total = torch.full((3,), 10.0)
    module.calls.fill_(7)
    _, calls, total, _ = compiled(torch.ones(2, 3))
    assert calls == 8
    assert total is module.total
    assert total.eq(12).all()
    fresh = Counter()
    compiled.load_state_dict(fresh.state_dict())
    assert module.total.eq(0).all()
    assert compiled(torch.ones(1, 3))[2].eq(1).all()


def test_inputs_through_torch_export(compile_module, monkeypatch):
    monkeypatch.setattr("disc.torch.capture.capture.quick", _fails)
    for function in (elementwise, exchanged, assigned_parts):
        y = torch.randn(5) if function is assigned_parts else torch.randn(4, 5)
        z = torch.randn(7) if function is assigned_parts else torch.randn(3, 7)
        alike(compile_module, Function(function), (torch.randn(4, 5), y), (torch.randn(3, 7), z))


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.BatchNorm2d, nn.InstanceNorm2d])
@pytest.mark.parametrize("momentum", [0.1, 0.7])
def test_batch_norm_in_training(compile_module, kind, momentum):
    def call(n, *rest):
        return (torch.randn(n, 4, *rest[: 2 if kind is not nn.BatchNorm1d else 1]) * 3 + 1,)

    norm = kind(4, momentum=momentum, affine=True, track_running_stats=True).train().requires_grad_(False)
    alike(compile_module, norm, call(3, 5, 6), call(2, 7, 3), call(5, 2, 2), call(1, 33, 5))


def test_a_network_in_training(compile_module):
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Conv2d(4, 2, 1)
    )
    net = net.train().requires_grad_(False)
    alike(compile_module, net, (torch.randn(2, 3, 8, 9),), (torch.randn(3, 3, 5, 4),))


class Shared(nn.Module):
    """One buffer under two names."""

    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.zeros(2))
        self.register_buffer("b", self.a)

    def forward(self, x):
        self.a.add_(x)
        self.b.mul_(2)
        return self.a + self.b


def test_a_buffer_with_two_names(compile_module):
    alike(compile_module, Shared().eval(), (torch.ones(2),))


class Part(nn.Module):
    """A buffer that is a part of another one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.zeros(4))
        self.register_buffer("b", self.a[:2])

    def forward(self, x):
        self.a.add_(x)
        return self.b * 1


def test_buffers_that_share_memory_are_refused(compile_module):
    with pytest.raises(disc.Error, match="changes a, which shares memory with b") as caught:
        compile_module(Part().eval(), torch.ones(4))
    assert caught.value.code == "E0405"


class Notes(nn.Module):
    """A plain attribute beside a buffer: it is state that is not kept."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(()))
        self.times_called = 0

    def forward(self, x):
        self.n += 1
        self.times_called += 1
        return x + self.n


class ReadNotes(nn.Module):
    """The attribute is a factor of the result."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(()))
        self.calls = 0

    def forward(self, x):
        self.n += 1
        self.calls += 1
        return x * self.calls + self.n


def test_other_state_beside_a_buffer(compile_module):
    alike(compile_module, Notes().eval(), (torch.ones(2),))
    module = ReadNotes().eval()
    with pytest.raises(disc.Error, match="attribute calls") as caught:
        compile_module(module, torch.ones(2))
    assert caught.value.code == "E0405"
    assert (module.n, module.calls) == (0, 0)


def test_state_comes_from_the_cache_on_disk(folder):
    results = []
    for state in ("miss", "hit"):
        torch.manual_seed(3)
        module, eager = (Counter().eval() for _ in range(2))
        eager.load_state_dict(module.state_dict())
        compiled = disc.optimize(module, torch.ones(2, 3))
        assert disc.report(compiled).to_dict()["cache"]["capture"] == state
        for n in (2, 5):
            x = torch.randn(n, 3)
            all_same(compiled(x), eager(x))
            all_same(module.state_dict(), eager.state_dict())
        results.append(module.state_dict())
    all_same(*results)


def test_a_check_changes_nothing(compile_module):
    compiled = compile_module(Counter().eval(), torch.ones(2, 3))
    before = copy.deepcopy(compiled.state_dict())
    assert disc.check(compiled, torch.randn(4, 3))
    all_same(compiled.state_dict(), before)
    compiled = compile_module(Function(elementwise), (torch.ones(2), torch.ones(2)))
    x = torch.ones(2)
    assert disc.check(compiled, (x, torch.ones(2)))
    assert x.eq(1).all()


def test_a_row_of_a_large_buffer_moves_little(compile_module):
    def step(x, cache, i):
        cache.index_copy_(0, i, x)
        return cache[i] * 2

    cache = torch.zeros(1 << 14, 1 << 10)
    compiled = compile_module(Function(step), (torch.ones(1, 1 << 10), cache, torch.tensor([3])))
    compiled(torch.ones(1, 1 << 10), cache, torch.tensor([5]))
    assert cache[5].eq(1).all()
    assert cache.sum() == 1 << 10
    # A copy of the cache would be in the memory of the call.
    assert compiled._dispatcher.entries()[0].executable.peak_arena_bytes < 1 << 20


def set_row(x, y):
    x[3] = y
    return x.sum(1)


def scaled_row(x, y):
    x[3].mul_(y)
    x[5:7] = y * 2
    return x[3] * 2


def set_column(x, y):
    x[:, 5] = 1
    return y * 2


@pytest.mark.parametrize("function", [set_row, scaled_row, set_column])
def test_a_part_of_a_large_buffer_moves_little(compile_module, function):
    call = torch.randn(2048, 512), torch.randn(512)
    compiled = alike(compile_module, Function(function), call)
    assert compiled._dispatcher.entries()[0].executable.peak_arena_bytes < 1 << 16


def test_a_static_cache(compile_module):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).eval()

    class Decode(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, cache):
            return self.model(ids, past_key_values=cache, use_cache=True).logits

    def empty():
        cache = transformers.StaticCache(config=config, max_cache_len=512)
        with torch.no_grad():
            model(torch.zeros(1, 1, dtype=torch.long), past_key_values=cache)
        cache.reset()
        return cache

    with torch.no_grad():
        compiled = compile_module(Decode().eval(), (torch.zeros(1, 1, dtype=torch.long), empty()))
        ours, theirs = empty(), empty()
        one_cache = ours.layers[0].keys.nbytes
        for word in (3, 5, 9, 11, 2):
            ids = torch.tensor([[word]])
            same(compiled(ids, ours), model(ids, past_key_values=theirs).logits)
            for a, b in zip(ours.layers, theirs.layers, strict=True):
                same(a.keys, b.keys)
                same(a.values, b.values)
        assert compiled._dispatcher.entries()[0].executable.peak_arena_bytes < one_cache
