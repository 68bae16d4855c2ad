"""``torch.compile(backend="disc")`` for inference: results, memory, changing weights, fallback."""

from __future__ import annotations

import copy
import gc
import os
import weakref

import disc
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("inference_of_fresh_dynamo")
STRICT = {"fallback": "error", "progress": False}


def compiled(fn, **named):
    options = {**STRICT, **named.pop("options", {})}
    return torch.compile(fn, backend="disc", options=options, **named)


def same(a, b, tolerance=1e-5):
    if isinstance(b, torch.Tensor):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        assert a.stride() == b.stride()
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    elif isinstance(b, (tuple, list)):
        assert type(a) is type(b)
        for x, y in zip(a, b, strict=True):
            same(x, y, tolerance)
    else:
        assert a == b


class Block(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 16), nn.Linear(16, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def test_a_module_of_any_size_is_one_graph():
    model = Block().eval()
    fast = compiled(model, dynamic=True)
    for shape in ((2, 3, 8), (5, 4, 8), (7, 2, 8)):
        x = torch.randn(shape)
        same(fast(x), model(x))
    report = disc.report(fast).to_dict()
    assert report["captured_by"] == "dynamo"
    assert [g["coverage"] for g in report["graphs"]] == [1.0]
    assert report["coverage"] == 1.0
    assert report["fallbacks"] == []


def test_sizes_that_dynamo_opens_by_itself():
    model = Block().eval()
    fast = compiled(model)
    for rows in (3, 4, 9, 1, 0):
        x = torch.randn(rows, 8)
        same(fast(x), model(x))
    report = disc.report(fast).to_dict()
    assert any("size mismatch" in one["reason"] for one in report["recompiles"])


def test_a_marked_size():
    fast = compiled(lambda x: torch.softmax(x, -1))
    x = torch.randn(4, 6)
    torch._dynamo.mark_dynamic(x, 0)
    same(fast(x), torch.softmax(x, -1))
    y = torch.randn(9, 6)
    same(fast(y), torch.softmax(y, -1))


def test_results_lie_as_in_eager_mode():
    def f(x, w):
        y = x @ w
        return y.transpose(0, 1), y.relu().permute(1, 0), y.sum(0), x.t(), x, w.expand(3, *w.shape)

    x, w = torch.randn(3, 4), torch.randn(4, 5)
    got = compiled(f, dynamic=True)(x, w)
    same(got[1:], f(x, w)[1:])
    same(got[0].contiguous(), f(x, w)[0].contiguous())
    assert got[3].data_ptr() == x.data_ptr()
    assert got[4] is x


def test_channels_last_results_keep_their_order():
    model = nn.Conv2d(3, 8, 3, padding=1).eval()
    x = torch.randn(2, 3, 9, 7).to(memory_format=torch.channels_last)
    same(compiled(lambda x: model(x).relu(), dynamic=True)(x), model(x).relu(), 1e-4)


def test_numbers_come_and_go():
    def f(x, k, scale):
        return x * k + scale, x.shape[0] * k, None, "text"

    fast = compiled(f, dynamic=True)
    for rows, k, scale in ((3, 2, 0.5), (4, 5, 0.25), (5, 3, 1e-9)):
        x = torch.randn(rows, 4)
        same(fast(x, k, scale), f(x, k, scale))


def test_a_float_between_ops_that_torch_runs():
    def f(x, scale):
        return torch.linalg.eigvalsh(x * scale).sum() * scale

    fast = compiled(f, dynamic=True, options={"fallback": "framework"})
    for scale in (0.5, 0.75, 3.5):
        x = torch.eye(4) + torch.ones(4, 4)
        same(fast(x, scale), f(x, scale))
    assert disc.report(fast).to_dict()["fallbacks"]


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        self.seen += x.sum(0)
        return self.norm(x), self.seen


def test_buffers_are_written():
    model = Counting()
    eager = copy.deepcopy(model)
    fast = compiled(model, dynamic=True)
    for rows in (4, 6, 5):
        x = torch.randn(rows, 3)
        got = fast(x)
        same(got, eager(x), 1e-4)
        assert got[1] is model.seen
    for a, b in zip(model.buffers(), eager.buffers(), strict=True):
        same(a, b, 1e-4)


def test_inputs_are_written_also_with_strides():
    def f(x, y):
        x.add_(1)
        x[:, 0] = y
        return x.sum(), x[1:]

    fast = compiled(f, dynamic=True)
    for make in (lambda: torch.randn(4, 6), lambda: torch.randn(6, 4).t(), lambda: torch.randn(8, 6)[::2]):
        x = make()
        z = x.clone(memory_format=torch.preserve_format)
        y = torch.randn(4)
        got, want = fast(x, y), f(z, y)
        torch.testing.assert_close(x, z)
        torch.testing.assert_close(got[0], want[0])
        assert got[1].data_ptr() == x[1:].data_ptr()


def test_layers_of_one_kind_share_a_graph_and_keep_their_weights():
    layers = [Block().eval() for _ in range(4)]

    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(layers)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    model = Stack()
    expected = copy.deepcopy(model)
    for layer in model.layers:
        layer.compile(backend="disc", dynamic=True, options=STRICT)
    for rows in (3, 4):
        x = torch.randn(rows, 2, 8)
        for _ in range(3):
            same(model(x), expected(x))
    for layer in model.layers:
        (graph,) = disc.report(layer).to_dict()["graphs"]
        assert graph["calls"] == 24


def test_random_numbers_are_those_of_eager_mode():
    def f(x):
        return nn.functional.dropout(x * 2, 0.5, training=True) + torch.rand_like(x)

    fast = compiled(f, dynamic=True, options={"fallback": "framework"})
    for rows in (3, 5):
        x = torch.randn(rows, 4)
        torch.manual_seed(7)
        got = fast(x)
        torch.manual_seed(7)
        same(got, f(x))


def test_autocast_and_modes_within():
    layer = nn.Linear(8, 8)

    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = layer(x)
        with torch.enable_grad():
            z = y.float() * 2
        return y, z

    x = torch.randn(3, 8)
    got, want = compiled(f, dynamic=True)(x), f(x)
    assert got[0].dtype == torch.bfloat16
    torch.testing.assert_close(got[0], want[0], rtol=0.02, atol=0.02)
    with torch.autocast("cpu"):
        torch.testing.assert_close(compiled(layer)(x), layer(x), rtol=0.02, atol=0.02)


def test_inference_mode():
    model = Block().eval()
    fast = compiled(model, dynamic=True)
    with torch.inference_mode():
        for rows in (3, 4):
            x = torch.randn(rows, 8)
            same(fast(x), model(x))


def test_gradients_are_those_of_eager_mode():
    model = Block()
    fast = compiled(model, options={"fallback": "framework"})
    x = torch.randn(3, 8)
    with torch.enable_grad():
        fast(x).sum().backward()
        ours = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        model(x).sum().backward()
    for a, p in zip(ours, model.parameters(), strict=True):
        same(a, p.grad)
    report = disc.report(fast).to_dict()
    assert report["fallbacks"] == []
    assert report["coverage"] == 1.0


def test_graph_breaks_are_reported_with_their_line():
    def f(x):
        y = x * 2
        if y.sum() > 0:
            return y + 1
        return y - 1

    fast = compiled(f, dynamic=True)
    for x in (torch.ones(3), -torch.ones(4)):
        same(fast(x), f(x))
    (broken, *_) = disc.report(fast).to_dict()["graph_breaks"]
    assert broken["source"].startswith("test_torch_compile.py:")
    assert broken["reason"]


def test_transforms_of_torch_func():
    w = torch.randn(4, 4)

    def f(x):
        return torch.func.vmap(lambda row: (w @ row).tanh())(x), torch.func.grad(lambda t: (t * t).sum())(x)

    fast = compiled(f, dynamic=True)
    for rows in (3, 5):
        x = torch.randn(rows, 4)
        same(fast(x), f(x))
    assert disc.report(fast).to_dict()["coverage"] == 1.0


def test_control_flow():
    def f(x):
        return torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t - 1, (x,))

    fast = compiled(f)
    for x in (torch.ones(3), -torch.ones(3)):
        same(fast(x), f(x))


def test_an_error_in_the_backend_leaves_the_graph_to_torch(monkeypatch):
    from disc.torch.compile import backend

    def fails(*args):
        raise RuntimeError("planted")

    monkeypatch.setattr(backend, "_compiled", fails)
    fast = compiled(Block().eval(), options={"fallback": "framework"})
    x = torch.randn(3, 8)
    assert fast(x).shape == x.shape
    (row,) = disc.report(fast).to_dict()["fallbacks"]
    assert "planted" in row["reason"]
    assert row["calls"] == 1
    with pytest.raises(Exception, match="planted"):
        compiled(Block().eval())(x)


def test_wrong_options_are_named():
    with pytest.raises(Exception, match="threds"):
        compiled(Block().eval(), options={"threds": 1})(torch.randn(2, 8))
    with pytest.raises(Exception, match="release_weights"):
        compiled(Block().eval(), options={"release_weights": True})(torch.randn(2, 8))
    with pytest.raises(Exception, match="there is no device 'cuda:9'"):
        compiled(Block().eval(), options={"device": "cuda:9"})(torch.randn(2, 8))
    with pytest.raises(Exception, match="verify"):
        compiled(Block().eval(), options={"verify": 2})(torch.randn(2, 8))


def _looked_up(x, places):
    return x[places] * 2


def _looked_up_below_a_transform(x, places):
    return torch.func.vmap(lambda row: row.tanh() + 1)(x)[places]


@pytest.mark.parametrize("f", [_looked_up, _looked_up_below_a_transform])
def test_errors_of_a_call_are_those_of_eager_mode(f):
    fast = compiled(f, dynamic=True)
    x = torch.randn(5, 3)
    same(fast(x, torch.tensor([0, 4])), f(x, torch.tensor([0, 4])))
    with pytest.raises(IndexError):
        fast(x, torch.tensor([0, 9]))
    same(fast(x, torch.tensor([1, 2])), f(x, torch.tensor([1, 2])))
    (graph,) = disc.report(fast).to_dict()["graphs"]
    assert (graph["coverage"], graph["calls"]) == (1.0, 3)


def test_the_backend_is_registered_and_writes_nothing_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "disc" in torch._dynamo.list_backends()
    fast = torch.compile(Block().eval(), backend="disc", mode="reduce-overhead")
    fast(torch.randn(2, 8))
    assert os.listdir(tmp_path) == []


def test_a_report_needs_a_call():
    with pytest.raises(disc.Error, match="first call"):
        disc.report(compiled(lambda x: x + 1))
    compiled(Block().eval())(torch.randn(2, 8))
    with pytest.raises(disc.Error, match="nothing of this Block"):
        disc.report(Block())


def test_a_report_of_a_method_that_a_decorator_wraps():
    class Wrapped(Block):
        forward = torch.no_grad()(Block.forward)

    model = Wrapped().eval()
    model.forward = compiled(model.forward)
    model(torch.randn(2, 8))
    assert disc.report(model).to_dict()["graphs"][0]["calls"] == 1


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_fused_layer_of_an_encoder(norm_first):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first).eval()
    fast = compiled(lambda x, mask: layer(x, src_key_padding_mask=mask), dynamic=True)
    for batch, length in ((2, 5), (3, 4)):
        x, mask = torch.randn(batch, length, 8), torch.zeros(batch, length, dtype=torch.bool)
        mask[0, 2:] = True
        same(fast(x, mask), layer(x, src_key_padding_mask=mask))
    mask[1] = True
    same(fast(x, mask), layer(x, src_key_padding_mask=mask))


def test_a_graph_that_returns_nothing_but_writes():
    def f(x, places, values):
        x.scatter_add_(0, places, values)

    fast = compiled(f, dynamic=True)
    for rows in (4, 6):
        x, places, values = torch.randn(rows), torch.tensor([0, 2, 2]), torch.randn(3)
        expected = x.clone()
        fast(x, places, values)
        f(expected, places, values)
        same(x, expected)


def test_sizes_that_depend_on_data():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        fast = compiled(lambda x: x[x > 0] * 2, dynamic=True)
        for rows in (5, 9):
            x = torch.randn(rows)
            same(fast(x), x[x > 0] * 2)


def test_a_step_of_decoding_copies_no_cache():
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        num_hidden_layers=1, num_attention_heads=2, hidden_size=16, intermediate_size=16, vocab_size=50
    )
    model = transformers.LlamaForCausalLM(config).eval()
    expected = copy.deepcopy(model)
    caches = [transformers.StaticCache(config=config, max_cache_len=4096) for _ in range(2)]
    model.compile(backend="disc", dynamic=True, options=STRICT)
    ids = torch.randint(0, 50, (1, 9))
    for part in (ids[:, :7], ids[:, 7:8], ids[:, 8:]):
        got = model(part, past_key_values=caches[0]).logits
        same(got, expected(part, past_key_values=caches[1]).logits, 1e-4)
    report = disc.report(model).to_dict()
    assert all(graph["coverage"] == 1.0 for graph in report["graphs"])
    assert report["peak_arena_bytes"] < caches[0].layers[0].keys.nbytes / 4


@pytest.mark.parametrize("cache", [None, "static"])
def test_generation_as_in_eager_mode(cache):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=60, n_positions=64)
    model = transformers.GPT2LMHeadModel(config).eval()
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = None, 0
    expected = copy.deepcopy(model)
    model.compile(backend="disc", dynamic=True, options=STRICT)
    for ways in ({}, {"num_beams": 2}, {"do_sample": True}):
        ids = torch.randint(1, 60, (2, 5))
        ways = {"max_new_tokens": 6, "cache_implementation": cache, "do_sample": False, **ways}
        torch.manual_seed(1)
        got = model.generate(ids, **ways)
        torch.manual_seed(1)
        assert torch.equal(got, expected.generate(ids, **ways))
    assert disc.report(model).to_dict()["fallbacks"] == []


def test_a_number_that_no_shape_tells_between_ops_that_torch_runs():
    def f(x, n):
        y = torch.relu(x.repeat(n, 1) * n)
        return torch.linalg.svd(y).S.abs().sum() + torch.arange(n).sum() * x.sum()

    fast = compiled(f, dynamic=True, options={"fallback": "framework"})
    for n in (3, 5, 4):
        x = torch.randn(4, 3)
        same(fast(x, n), f(x, n), 1e-4)
    assert 0 < disc.report(fast).to_dict()["coverage"] < 1


def test_results_of_one_memory_are_written_together():
    def f(x):
        y = x * 2
        z = y.view(-1)
        torch._dynamo.graph_break()
        z.add_(1)
        return y, z[1:]

    fast = compiled(f, dynamic=True)
    for rows in (3, 4):
        x = torch.randn(rows, 2)
        y, z = fast(x)
        same([y, z], list(f(x)))
        assert z.data_ptr() == y.view(-1)[1:].data_ptr()


def test_gradients_that_are_turned_on_within():
    layer = nn.Linear(4, 4)

    def f(x):
        with torch.enable_grad():
            return layer(x)

    x = torch.randn(3, 4)
    got = compiled(f, options={"fallback": "framework"})(x)
    assert got.requires_grad
    same(got.detach(), f(x).detach())


def test_complex_weights():
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("turn", torch.polar(torch.ones(4), torch.arange(4.0)))
            self.weight = nn.Parameter(torch.randn(4, 4))

        def forward(self, x):
            z = torch.view_as_complex((x @ self.weight).unsqueeze(-1).expand(-1, -1, 2).contiguous())
            return torch.view_as_real(z * self.turn)

    model = Turned()
    fast = compiled(model, dynamic=True)
    for rows in (3, 5):
        x = torch.randn(rows, 4)
        same(fast(x), model(x))
        model.turn.mul_(2)
        same(fast(x), model(x))
    assert disc.report(fast).to_dict()["fallbacks"] == []


def test_a_graph_below_transforms_prepares_weights():
    layer = nn.Linear(4, 4)
    fast = compiled(lambda x: torch.func.vmap(lambda row: row.tanh() + 1)(layer(x)), dynamic=True)
    for rows in (3, 5):
        x = torch.randn(rows, 4)
        same(fast(x), layer(x).tanh() + 1)
    assert disc.report(fast).to_dict()["weight_bytes"] == 80


def test_a_model_that_is_gone_leaves_nothing():
    # All models of one kind share a graph, which stays.
    alive = []
    for _ in range(3):
        model = Block().eval()
        fast = compiled(model, dynamic=True)
        x = torch.randn(3, 8)
        same(fast(x), model(x))
        alive += [weakref.ref(model.up.weight), weakref.ref(x)]
        del model, fast, x
        gc.collect()
    assert [one() for one in alive] == [None] * len(alive)


def test_threads_share_a_graph():
    import threading

    layers = [Block().eval() for _ in range(4)]
    fast = [compiled(layer, dynamic=True) for layer in layers]
    x = torch.randn(3, 8)
    expected = [layer(x) for layer in layers]
    faults = []

    def work(i):
        with torch.no_grad():
            for _ in range(30):
                if not torch.allclose(fast[i](x), expected[i], atol=1e-5):
                    faults.append(i)

    fast[0](x)
    threads = [threading.Thread(target=work, args=(i % 4,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_options_that_leave_ops_to_torch():
    model = Block().eval()
    fast = compiled(
        model, dynamic=True, options={"block_ops": ["aten.relu.default"], "fallback": "framework"}
    )
    x = torch.randn(3, 8)
    same(fast(x), model(x))
    assert "aten.relu.default" in {row["op"] for row in disc.report(fast).to_dict()["fallbacks"]}
    same(compiled(model, options={"block_ops": ["aten.gelu.default"]})(x), model(x))


def test_places_before_the_first_are_refused_where_torch_refuses_them():
    def f(x, places):
        return x.index_copy(0, places, torch.ones(places.shape[0], 4))

    fast = compiled(f, dynamic=True)
    x = torch.zeros(5, 4)
    same(fast(x, torch.tensor([1, 4])), f(x, torch.tensor([1, 4])))
    with pytest.raises(IndexError):
        fast(x, torch.tensor([1, -1]))
