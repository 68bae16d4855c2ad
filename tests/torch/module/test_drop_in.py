"""``disc.optimize(module)`` as a drop-in: any form of call, any module."""

from __future__ import annotations

import copy
import io
import os
import pickle
import threading
from dataclasses import dataclass

import disc
import numpy as np
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.fallback


def report(fast) -> dict:
    return disc.report(fast).to_dict()


class Model(nn.Module):
    """Has optional arguments, constants, attributes and a method that calls it."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.config = {"size": 4}

    def forward(self, x, mask=None, *, k: int = 1, return_dict: bool = False):
        y = self.linear(x) * k
        y = y if mask is None else y * mask
        return {"y": y} if return_dict else y

    def twice(self, x):
        return self(self(x))

    @property
    def width(self):
        return self.config["size"]


CALLS = (
    ((torch.randn(3, 4),), {}),
    ((torch.randn(5, 4), torch.rand(4)), {}),
    ((torch.randn(2, 4),), {"mask": torch.rand(2, 4)}),
    ((torch.randn(2, 4),), {"k": 4}),
    ((), {"x": torch.randn(1, 4), "return_dict": True}),
    ((torch.randn(2, 3, 4),), {}),
    ((torch.randn(3, 4), None), {"k": 1, "return_dict": False}),
)


def test_each_form_of_call_is_compiled_once():
    model = Model().eval()
    fast = disc.optimize(model)
    for _ in range(3):
        for args, kwargs in CALLS:
            torch.testing.assert_close(fast(*args, **kwargs), model(*args, **kwargs))
    values = report(fast)
    # A default that was passed, and an argument by name, are no form of their own.
    assert values["signatures"] == values["compiles"] == 6
    assert values["fallbacks"] == []
    assert values["coverage"] == 1.0


def test_the_order_and_the_way_of_arguments_make_no_form():
    class Order(nn.Module):
        def forward(self, b, a):
            return b * 2 + a

    fast, x, y = disc.optimize(Order()), torch.randn(3), torch.randn(3, 3)
    for args, kwargs in (((x, y), {}), ((), {"a": y, "b": x}), ((x,), {"a": y}), ((), {"b": x, "a": y})):
        # Another form between them, so that each is looked up.
        fast(torch.ones(()), torch.ones(()))
        torch.testing.assert_close(fast(*args, **kwargs), x * 2 + y)
    assert report(fast)["signatures"] == 2
    fast(nn.Parameter(x), y)
    assert report(fast)["signatures"] == 2


def test_examples_make_forms_ready():
    fast = disc.optimize(
        Model().eval(), examples=[((torch.randn(2, 4),), {}), ((torch.randn(2, 4),), {"k": 3})]
    )
    assert report(fast)["compiles"] == 2
    fast(torch.randn(7, 4), k=3)
    assert report(fast)["compiles"] == 2


def test_attributes_are_the_originals():
    model = Model().eval()
    fast = disc.optimize(model)
    assert fast.config is model.config
    assert fast.linear is model.linear
    assert fast.width == 4
    fast.note = "set"
    assert model.note == "set"
    assert isinstance(fast, Model)
    assert isinstance(fast, disc.OptimizedModule)
    x = torch.randn(3, 4)
    torch.testing.assert_close(fast.twice(x), model.twice(x))
    assert report(fast)["calls"] == 2
    with pytest.raises(AttributeError, match="missing"):
        _ = fast.missing
    assert "Linear" in repr(fast)
    assert "compiled" in repr(fast)
    assert len(disc.optimize(nn.Sequential(nn.ReLU(), nn.Tanh()))) == 2


@pytest.mark.parametrize("how", ["copy", "deepcopy", "pickle", "save"])
def test_copies_compute_the_same(how):
    fast, x = disc.optimize(Model().eval(), torch.randn(2, 4)), torch.randn(3, 4)
    if how == "save":
        file = io.BytesIO()
        torch.save(fast, file)
        file.seek(0)
        twin = torch.load(file, weights_only=False)
    else:
        twin = {
            "copy": copy.copy,
            "deepcopy": copy.deepcopy,
            "pickle": lambda m: pickle.loads(pickle.dumps(m)),
        }[how](fast)
    torch.testing.assert_close(twin(x), fast(x))
    if how != "copy":
        with torch.no_grad():
            twin.linear.weight.zero_()
        twin.refresh()
        assert not torch.allclose(twin(x), fast(x))


def test_modes_are_forms():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).eval()
    fast, x = disc.optimize(model), torch.randn(3, 4)
    torch.testing.assert_close(fast(x), model(x))
    fast.train()
    assert model.training
    torch.manual_seed(3)
    expected = model(x)
    torch.manual_seed(3)
    torch.testing.assert_close(fast(x), expected)
    fast.eval()
    torch.testing.assert_close(fast(x), model(x))


def test_a_conversion_and_a_state_dict():
    model, other, x = Model().eval(), Model().eval(), torch.randn(3, 4)
    fast = disc.optimize(model, x)
    fast.load_state_dict(other.state_dict())
    torch.testing.assert_close(fast(x), other(x))
    fast.double()
    torch.testing.assert_close(fast(x.double()), other.double()(x.double()))


class Branch(nn.Module):
    def forward(self, x):
        if x.shape[0] == 1:
            return x + 1
        return x * 2 if x.shape[0] % 2 else x * 3


def test_a_broken_fact_is_torchs_and_then_a_variants():
    model = Branch()
    fast = disc.optimize(model, torch.randn(4, 3))
    for _ in range(4):
        for size in (4, 5, 1, 6, 7):
            x = torch.randn(size, 3)
            torch.testing.assert_close(fast(x), model(x))
        fast._dispatcher.variants.wait()
    served = {row["reason"]: row["calls"] for row in report(fast)["fallbacks"]}
    for size in (1, 3, 2, 1, 9):
        x = torch.randn(size, 3)
        torch.testing.assert_close(fast(x), model(x))
    values = report(fast)
    assert {row["reason"]: row["calls"] for row in values["fallbacks"]} == served
    assert 1 <= values["variants"] <= 4


def test_refused_sizes_are_counted_by_the_fact():
    fast = disc.optimize(Branch(), torch.randn(4, 3))
    for size in range(5, 45, 2):
        fast(torch.randn(size, 3))
        fast._dispatcher.variants.wait()
    assert len(fast._dispatcher.forms.held[0].refusals) == 1


class Scan(nn.Module):
    """A loop of Python over a size."""

    def forward(self, x):
        state, rows = x[0] * 0, []
        for i in range(x.shape[0]):
            state = state * 0.5 + x[i]
            rows.append(state.tanh())
        return torch.stack(rows)


def test_a_size_that_a_loop_fixes_has_a_variant_once_it_comes_again():
    model = Scan()
    fast = disc.optimize(model)

    def called(*sizes):
        for size in sizes:
            x = torch.randn(size, 3)
            torch.testing.assert_close(fast(x), model(x))
            fast._dispatcher.variants.wait()
        return report(fast)["variants"]

    assert called(4, 5, 6) == 1
    # Lengths that grow word by word are worth no program each.
    assert called(7, 8, 9, 10, 11) == 1
    assert called(8) == 2
    before = report(fast)["fallbacks"]
    assert called(4, 6, 8) == 2
    assert report(fast)["fallbacks"] == before


def test_a_capture_that_takes_too_long_is_torchs(monkeypatch):
    monkeypatch.setattr("disc.torch.tracer.deadline.MOST_SECONDS", 0.0)
    fast = disc.optimize(Scan())
    x = torch.randn(4, 3)
    torch.testing.assert_close(fast(x), Scan()(x))
    values = report(fast)
    assert (values["captured_by"], values["coverage"]) == ("none", 0.0)
    assert [row["reason"] for row in values["fallbacks"]] == ["the capture takes too long"]
    strict = disc.optimize(Scan(), x, options=disc.Options(fallback="error"))
    torch.testing.assert_close(strict(x), Scan()(x))


def test_what_the_user_stated_stays_an_error():
    fast = disc.optimize(Branch(), torch.randn(4, 3), dims={"x": {0: disc.Dim("B", max=8, multiple_of=2)}})
    with pytest.raises(disc.DimError, match="B"):
        fast(torch.randn(16, 3))
    fast = disc.optimize(Branch(), torch.randn(4, 3), dims={"x": {1: "width"}})
    x = torch.randn(5, 3)
    torch.testing.assert_close(fast(x), Branch()(x))
    with pytest.raises(disc.DimError, match="axis 1 of x is 4"):
        disc.optimize(Branch(), torch.randn(4, 3), dims={"x": {1: 3}})(torch.randn(4, 4))
    with pytest.raises(disc.Error, match="dims names the input 'y'"):
        disc.optimize(Branch(), torch.randn(4, 3), dims={"y": {0: "B"}})


class Values(nn.Module):
    """Checks values, takes numbers out of tensors, uses NumPy, as production code does."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x, lengths):
        with torch.autograd.profiler.record_function("first"):
            h = self.first(x).relu()
        if torch.isnan(h).any():
            raise ValueError("NaN")
        for i, n in enumerate(lengths.tolist()):
            h[i, n:] = 0
        scale = float(np.float32(h.shape[1]))
        y = self.last(h) * scale
        return y if y.sum() > 0 else -y


def test_parts_that_take_too_long_to_compile_are_torchs(monkeypatch):
    monkeypatch.setattr("disc.torch.module.by_dynamo.MOST_SECONDS", -1.0)
    model = Values().eval()
    fast = disc.optimize(model)
    x, lengths = torch.randn(2, 5, 4), torch.tensor([1, 2])
    with torch.no_grad():
        torch.testing.assert_close(fast(x, lengths), model(x, lengths))
    values = report(fast)
    assert values["coverage"] == 0.0
    assert "the parts before took too long to compile" in {row["reason"] for row in values["fallbacks"]}


def test_guards_of_production_code_refuse_nothing():
    model = Values().eval()
    fast = disc.optimize(model)
    with torch.no_grad():
        for batch, size in ((2, 5), (3, 4), (2, 7)):
            x, lengths = torch.randn(batch, size, 4), torch.randint(1, size, (batch,))
            torch.testing.assert_close(fast(x, lengths), model(x, lengths))
        with pytest.raises(ValueError, match="NaN"):
            fast(torch.full((2, 5, 4), float("nan")), torch.tensor([1, 2]))
    values = report(fast)
    assert values["captured_by"] == "dynamo"
    assert values["coverage"] > 0.5
    assert values["graph_breaks"]
    assert all(row["reason"] for row in values["fallbacks"])


def test_a_form_that_dynamo_serves_serves_no_other():
    class Model(nn.Module):
        def forward(self, x, k=0):
            return x * 3 if k and x.sum().item() < 1e9 else x * 2 + 1

    fast, x = disc.optimize(Model()), torch.randn(3, 4)
    with torch.no_grad():
        for k in (1, 0, 1, 0):
            torch.testing.assert_close(fast(x, k), Model()(x, k))
    assert report(fast)["signatures"] == 2
    assert disc.report(fast).to_dict()["fallbacks"]


def test_weights_of_parts_are_refreshed_and_may_move():
    model = Values().eval()
    fast, x, lengths = disc.optimize(model), torch.randn(2, 5, 4), torch.tensor([3, 4])
    with torch.no_grad():
        torch.testing.assert_close(fast(x, lengths), model(x, lengths))
        model.last.weight.mul_(2)
        fast.refresh()
        torch.testing.assert_close(fast(x, lengths), model(x, lengths))
        expected = model(x, lengths)
        model.share_memory()
        torch.testing.assert_close(fast(x, lengths), expected)


@dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


class Odd(nn.Module):
    def forward(self, x):
        x = x.left + x.right if isinstance(x, Pair) else x
        x = torch.from_numpy(x) if isinstance(x, np.ndarray) else x
        return x.to_dense() * 2 if x.layout is not torch.strided else x * 2


@pytest.mark.parametrize(
    "x",
    [
        torch.eye(3).to_sparse(),
        torch.randn(3, dtype=torch.complex64),
        torch.randn(3, dtype=torch.complex64).conj(),
        torch.randn(3, requires_grad=True),
        np.ones(3, dtype=np.float32),
        Pair(torch.ones(2), torch.ones(2)),
        torch.nn.Parameter(torch.ones(3)),
    ],
    ids=["sparse", "complex", "conjugate", "gradient", "array", "dataclass", "parameter"],
)
def test_what_disc_does_not_compile_is_torchs(x):
    fast, model = disc.optimize(Odd()), Odd()
    for _ in range(2):
        ours, theirs = fast(x), model(x)
        torch.testing.assert_close(ours, theirs)
        assert ours.requires_grad == theirs.requires_grad


def test_a_wrong_call_is_torchs_error_and_the_next_call_works():
    model = Model().eval()
    fast, x = disc.optimize(model, torch.randn(2, 4)), torch.randn(3, 4)
    for wrong in ((torch.randn(3, 5),), (), (x, x, x, x), ("text",)):
        with pytest.raises((TypeError, RuntimeError, AttributeError)):
            fast(*wrong)
        torch.testing.assert_close(fast(x), model(x))


def test_parts_of_modules_and_modules_of_parts():
    inner = disc.optimize(Model().eval())
    outer = nn.Sequential(inner, nn.Tanh(), disc.optimize(nn.Linear(4, 2).eval())).eval()
    x = torch.randn(3, 4)
    expected = nn.Sequential(inner.original, outer[1], outer[2].original)(x)
    torch.testing.assert_close(outer(x), expected)
    torch.testing.assert_close(disc.optimize(outer, x)(x), expected)
    assert sorted(outer.state_dict()) == ["0.linear.bias", "0.linear.weight", "2.bias", "2.weight"]
    assert len(list(outer.parameters())) == 4
    torch.testing.assert_close(disc.optimize(nn.DataParallel(Model().eval()))(x).shape, x.shape)


def test_hooks_and_modes_of_torch():
    model, seen = Model().eval(), []
    fast, x = disc.optimize(model), torch.randn(3, 4)
    handle = fast.register_forward_hook(lambda module, args, result: seen.append(result.shape))
    fast(x)
    handle.remove()
    fast(x)
    assert seen == [x.shape]
    with torch.inference_mode():
        torch.testing.assert_close(fast(x), model(x))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours, theirs = fast(x), model(x)
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(fast(x), model(x))
    assert report(fast)["fallbacks"] == []
    assert report(fast)["signatures"] == 2


def test_many_threads_share_one_module():
    model = Model().eval()
    fast, wrong = disc.optimize(model), []

    def call(seed: int) -> None:
        with torch.no_grad():
            for i in range(20):
                args, kwargs = CALLS[(seed + i) % len(CALLS)]
                if not torch.allclose(_only(fast(*args, **kwargs)), _only(model(*args, **kwargs)), atol=1e-5):
                    wrong.append((seed, i))

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert report(fast)["compiles"] == 6


def _only(result):
    return result["y"] if isinstance(result, dict) else result


def test_a_refused_call_is_not_counted_as_served():
    class Folded(nn.Module):
        def forward(self, x):
            return x.relu().reshape(-1, 6).sum(-1)

    fast = disc.optimize(Folded(), torch.randn(3, 4))
    for served, shape in enumerate([(3, 4), (6, 5), (2, 3)], 1):
        fast(torch.randn(shape))
        assert report(fast)["calls"] == served
    for _ in range(2):
        with pytest.raises(RuntimeError, match="invalid for input of size"):
            fast(torch.randn(3, 5))
        values = report(fast)
        # PyTorch refuses it too, and serves nothing.
        assert (values["calls"], values["fallbacks"]) == (3, [])


def test_the_first_calls_are_verified():
    model = Model().eval()
    fast = disc.optimize(model, options=disc.Options(verify=3))
    for size in (2, 3, 4, 5):
        fast(torch.randn(size, 4))
    assert report(fast)["verified"] == {"compared": 3, "first_difference": None}
    fast = disc.optimize(model, torch.randn(2, 4), options=disc.Options(verify=2))
    fast._dispatcher.entries()[0].use(
        [(n, torch.zeros_like(t)) for n, t in fast._dispatcher.entries()[0].weights()]
    )
    fast(torch.randn(2, 4))
    assert report(fast)["verified"]["first_difference"]["call"] == 1


def test_forms_are_bounded():
    class Power(nn.Module):
        def forward(self, x, k):
            return x * len(k)

    fast, x = disc.optimize(Power()), torch.randn(3)
    for k in range(40):
        torch.testing.assert_close(fast(x, "a" * k), x * k)
    values = report(fast)
    assert values["compiles"] == values["signatures"] == 32
    assert sum(row["calls"] for row in values["fallbacks"]) == 8


def test_an_example_on_which_the_module_fails_is_an_error():
    with pytest.raises(disc.Error, match="without disc the module fails on the example too"):
        disc.optimize(nn.Linear(4, 2), torch.randn(3, 5))


def test_transforms_see_the_original():
    model, x = nn.Linear(4, 4).eval(), torch.randn(3, 4)
    fast = disc.optimize(model, x)
    fast(x)
    torch.testing.assert_close(torch.vmap(fast)(x), model(x))
    wanted = torch.func.grad(lambda x: model(x).sum())(x)
    torch.testing.assert_close(torch.func.grad(lambda x: fast(x).sum())(x), wanted)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(nn.Sequential(fast), backend="eager")(x), model(x))


def test_words_are_generated_as_in_eager_mode():
    transformers = pytest.importorskip("transformers")
    shape = {"n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": 50, "bos_token_id": 1, "eos_token_id": 2}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape)).eval()
    model.generation_config.pad_token_id = 0
    fast = disc.optimize(model)
    for length in (4, 7):
        ids = torch.randint(3, 50, (2, length))
        ours, theirs = (m.generate(ids, max_new_tokens=6, do_sample=False) for m in (fast, model))
        assert torch.equal(ours, theirs)
    values = report(fast)
    assert (values["signatures"], values["coverage"], values["fallbacks"]) == (2, 1.0, [])


def _small_decoder(transformers, name="Llama", **fields):
    shape = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 16}
    config = getattr(transformers, f"{name}Config")(vocab_size=50, num_key_value_heads=2, **shape, **fields)
    return getattr(transformers, f"{name}ForCausalLM")(config).eval()


def _words(*lengths):
    return [torch.randint(3, 50, (2, length)) for length in lengths]


@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize("kind", ["DynamicCache", "StaticCache"])
def test_a_cache_that_is_passed_holds_the_keys_of_a_call(kind, window):
    transformers = pytest.importorskip("transformers")
    model = _small_decoder(transformers, "Mistral", sliding_window=window)
    fast = disc.optimize(model)
    room = {"max_cache_len": 32} if kind == "StaticCache" else {}
    ours, theirs = (getattr(transformers, kind)(config=model.config, **room) for _ in range(2))
    with torch.no_grad():
        for ids in _words(7, 1, 1, 1):
            got, wanted = fast(ids, past_key_values=ours), model(ids, past_key_values=theirs)
            torch.testing.assert_close(got.logits, wanted.logits, rtol=1e-4, atol=1e-4)
            assert got.past_key_values is ours
            assert got["past_key_values"] is ours
            assert ours.get_seq_length() == theirs.get_seq_length()
    assert report(fast)["signatures"] == 2
    for a, e in zip(ours.layers, theirs.layers, strict=True):
        torch.testing.assert_close(a.keys, e.keys, rtol=1e-4, atol=1e-4)


def test_a_cache_that_only_the_caller_holds():
    transformers = pytest.importorskip("transformers")

    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = _small_decoder(transformers)

        def forward(self, ids, cache):
            return self.model(ids, past_key_values=cache).logits

    model = Logits().eval()
    fast = disc.optimize(model)
    ours, theirs = (transformers.DynamicCache(config=model.model.config) for _ in range(2))
    with torch.no_grad():
        for ids in _words(7, 1, 1):
            torch.testing.assert_close(fast(ids, ours), model(ids, theirs), rtol=1e-4, atol=1e-4)
    assert ours.get_seq_length() == 9
    assert report(fast)["captured_by"] == "dynamo"


def test_a_module_serves_after_a_fork():
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).eval()
    fast = disc.optimize(model, torch.randn(100, 256), options=disc.Options(threads=2))
    x = torch.randn(200, 256)
    with torch.no_grad():
        expected = fast(x)
        held = expected.numpy().tobytes()
        child = os.fork()
        if child == 0:
            # An op of torch may wait for threads of OpenMP, which a child does not have.
            os._exit(0 if fast(x).numpy().tobytes() == held else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert torch.equal(fast(x), expected)


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(4, 6, batch_first=True)

    def forward(self, x, lengths):
        rows = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.layer(rows)[0], batch_first=True)[0]


def test_packed_sequences_are_torchs():
    model = Packed().eval()
    fast = disc.optimize(model)
    with torch.no_grad():
        for lengths in (torch.tensor([5, 2]), torch.tensor([3, 7, 1])):
            x = torch.randn(len(lengths), int(lengths.max()), 4)
            torch.testing.assert_close(fast(x, lengths), model(x, lengths))


def test_batch_norm_that_averages_all_batches():
    model = nn.BatchNorm1d(4, momentum=None)
    eager = copy.deepcopy(model)
    fast = disc.optimize(model)
    with torch.no_grad():
        for rows in (5, 6, 7):
            x = torch.randn(rows, 4)
            torch.testing.assert_close(fast(x), eager(x))
    torch.testing.assert_close(model.state_dict(), eager.state_dict())
