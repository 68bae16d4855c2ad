"""Training by ``torch.compile(backend="disc")``: what a step gives, and what is done to it."""

from __future__ import annotations

import copy

import disc
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from training_models import CASES

FRAMEWORK = {"fallback": "framework"}
#: Adam divides noise by noise where a gradient is zero but for rounding, such as that of a bias
#: before a batch norm: a weight may then differ by as much as the steps moved it.
MOST_MOVED = 0.06


@pytest.fixture(autouse=True)
def _anew():
    torch.manual_seed(0)
    torch._dynamo.reset()


def compiled(function, **options):
    return torch.compile(function, backend="disc", dynamic=True, options=options)


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


def gradients(module: nn.Module) -> list:
    return [p.grad for p in module.parameters()]


def same(got, expected, **bounds):
    torch.testing.assert_close(got, expected, **bounds)


def both(make=perceptron, **options):
    """A compiled model, the model, and one like it that torch runs."""
    model = make()
    return compiled(model, **options), model, copy.deepcopy(model)


@pytest.mark.parametrize("name", CASES)
def test_fifty_steps_of_changing_sizes(name):
    if name == "bert":
        pytest.importorskip("transformers")
    case = CASES[name]
    model = case.model().train()
    expected = copy.deepcopy(model)
    fast = compiled(model)
    ours, theirs = (torch.optim.AdamW(m.parameters(), 1e-3) for m in (model, expected))
    for i in range(50):
        inputs = case.inputs(i)
        losses = []
        for run, optimizer in ((fast, ours), (expected, theirs)):
            optimizer.zero_grad()
            loss = case.loss(run(*inputs))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], abs=2e-3)
    pairs = zip(model.state_dict().items(), expected.state_dict().values(), strict=True)
    for (key, got), wanted in pairs:
        assert (got.double() - wanted.double()).abs().max() < MOST_MOVED, key
    report = disc.report(fast).to_dict()
    assert report["fallbacks"] == []
    assert report["recompiles"] == []
    # One for the forward and one for the backward part.
    assert report["compiles"] == 2
    assert report["clusters"] == 2


def test_the_report_has_both_parts():
    fast, _, _ = both()
    fast(torch.randn(3, 8)).sum().backward()
    fast(torch.randn(5, 8)).sum().backward()
    report = disc.report(fast).to_dict()
    (graph,) = report["graphs"]
    assert graph["calls"] == 2
    assert graph["clusters"] == 2
    assert report["coverage"] == 1.0
    assert "peak_arena_bytes" in report


def test_backward_twice():
    fast, model, expected = both()
    for rows in (3, 5):
        x = torch.randn(rows, 8)
        for run in (fast, expected):
            loss = run(x).square().sum()
            loss.backward(retain_graph=True)
            loss.backward()
        same(gradients(model), gradients(expected))


@pytest.mark.fallback
def test_dropout_draws_the_numbers_of_a_seed():
    def f(x):
        return F.dropout(x * 2, 0.5, training=True).square().sum()

    fast = compiled(f, **FRAMEWORK)
    for rows in (3, 6):
        x = torch.randn(rows, 8, requires_grad=True)
        found = []
        for run in (fast, f):
            torch.manual_seed(1)
            found.append(torch.autograd.grad(run(x), x)[0])
        same(*found)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.fallback
def test_checkpoints(dropout):
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(dropout), nn.GELU(), nn.Linear(16, 4))
    expected = copy.deepcopy(model)

    def loss_of(inner):
        return lambda x: checkpoint(inner, x, use_reentrant=False).square().sum()

    fast = compiled(loss_of(model), **FRAMEWORK, min_cluster_size=1)
    for rows in (3, 6):
        x = torch.randn(rows, 8)
        for run in (fast, loss_of(expected)):
            torch.manual_seed(1)
            run(x).backward()
        same(gradients(model), gradients(expected))
    left = [row["op"] for row in disc.report(fast).to_dict()["fallbacks"]]
    assert left == (["run_and_save_rng_state", "run_with_rng_state"] if dropout else [])


def test_gradients_add_up():
    fast, model, expected = both()
    for rows in (3, 5, 2, 9):
        x = torch.randn(rows, 8)
        for run in (fast, expected):
            (run(x).square().sum() / 4).backward()
    same(gradients(model), gradients(expected))


def test_sizes_of_zero_and_one():
    fast, model, expected = both()
    for rows in (4, 0, 1):
        x = torch.randn(rows, 8)
        for run in (fast, expected):
            run(x).sum().backward()
        same(gradients(model), gradients(expected))


def test_frozen_layers():
    fast, model, expected = both()
    for m in (model, expected):
        m[0].weight.requires_grad_(False)
    for rows in (3, 5):
        x = torch.randn(rows, 8)
        for run in (fast, expected):
            run(x).square().sum().backward()
    assert model[0].weight.grad is None
    same(gradients(model), gradients(expected))


def test_adapters_of_low_rank():
    class Adapted(nn.Module):
        def __init__(self):
            super().__init__()
            self.base = nn.Linear(8, 8).requires_grad_(False)
            self.down, self.up = nn.Parameter(torch.randn(2, 8)), nn.Parameter(torch.zeros(8, 2))

        def forward(self, x):
            return self.base(x) + x @ self.down.t() @ self.up.t()

    fast, model, expected = both(Adapted)
    for rows in (3, 5):
        x = torch.randn(rows, 8)
        for run in (fast, expected):
            run(x).square().sum().backward()
        same(gradients(model), gradients(expected))


def test_tied_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(10, 8)
            self.scores = nn.Linear(8, 10, bias=False)
            self.scores.weight = self.words.weight

        def forward(self, x):
            return self.scores(self.words(x))

    fast, model, expected = both(Tied)
    for rows in (3, 5):
        x = torch.randint(0, 10, (rows, 4))
        for run in (fast, expected):
            run(x).square().sum().backward()
        # Terms of either sign meet in one weight's gradient: it is as exact as the largest of them.
        largest = expected.words.weight.grad.abs().max().item()
        same(gradients(model), gradients(expected), rtol=0, atol=1e-6 * largest)


def test_hooks_of_parameters():
    fast, model, expected = both()
    for m in (model, expected):
        m[2].weight.register_hook(lambda gradient: gradient * 2)
    x = torch.randn(3, 8)
    for run in (fast, expected):
        run(x).square().sum().backward()
    same(gradients(model), gradients(expected))


def test_autocast():
    fast, model, expected = both()
    for rows in (3, 5):
        x = torch.randn(rows, 8)
        for run in (fast, expected):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = run(x)
            assert y.dtype == torch.bfloat16
            y.float().square().sum().backward()
    same(gradients(model), gradients(expected), rtol=0.05, atol=0.05)


def test_scaled_losses():
    fast, model, expected = both()
    steps = []
    for m, run in ((model, fast), (expected, expected)):
        optimizer, scaler = torch.optim.SGD(m.parameters(), 0.1), torch.amp.GradScaler("cpu")
        steps.append((run, optimizer, scaler))
    for rows in (3, 5):
        x = torch.randn(rows, 8)
        for run, optimizer, scaler in steps:
            optimizer.zero_grad()
            scaler.scale(run(x).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
    same(list(model.parameters()), list(expected.parameters()))


def test_clipped_gradients():
    fast, model, expected = both()
    optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (model, expected)]
    for rows in (3, 5):
        x = torch.randn(rows, 8)
        for run, m, optimizer in zip((fast, expected), (model, expected), optimizers, strict=True):
            optimizer.zero_grad()
            run(x).square().sum().backward()
            nn.utils.clip_grad_norm_(m.parameters(), 0.5)
            optimizer.step()
    same(list(model.parameters()), list(expected.parameters()))


def test_running_statistics_are_written():
    fast, model, expected = both(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()))
    for rows in (3, 5):
        x = torch.randn(rows, 3, 6, 9)
        for run in (fast, expected):
            run(x).square().sum().backward()
    same(gradients(model), gradients(expected), rtol=1e-4, atol=1e-3)
    same(dict(model.named_buffers()), dict(expected.named_buffers()))


def test_evaluation_between_steps():
    fast, model, _expected = both()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for rows in (3, 5, 4):
        x = torch.randn(rows, 8)
        fast(x).sum().backward()
        optimizer.step()
        with torch.no_grad():
            same(fast(x), model(x))


def test_an_input_that_is_written():
    def f(x, total):
        total.add_(x.detach())
        return (x * total).sum()

    fast = compiled(f)
    for rows in (3, 5):
        x, total = torch.randn(rows, requires_grad=True), torch.zeros(rows)
        fast(x, total).backward()
        same(total, x.detach())
        same(x.grad, total)


def test_gradients_of_functions():
    taken = torch.func.grad(lambda w, x: (x @ w).tanh().sum())
    fast = compiled(taken)
    for rows in (3, 5):
        w, x = torch.randn(8, 4), torch.randn(rows, 8)
        same(fast(w, x), taken(w, x))


def test_gradients_of_ties():
    def f(x):
        return (x * 3 + 1).amax(-1).sum()

    fast = compiled(f)
    for rows in (3, 5):
        x = torch.randint(0, 3, (rows, 9)).float().requires_grad_()
        same(torch.autograd.grad(fast(x), x), torch.autograd.grad(f(x), x))


@pytest.mark.fallback
def test_a_backward_part_that_cannot_be_compiled_is_torchs(monkeypatch):
    from disc.torch.compile import training

    def fails_backward(graph, *rest, **options):
        if any("backward" in str(node.target) for node in graph.graph.nodes):
            raise RuntimeError("planted")
        return original(graph, *rest, **options)

    original = training.read
    monkeypatch.setattr(training, "read", fails_backward)
    fast, model, expected = both(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), **FRAMEWORK)
    for rows in (4, 8):
        x = torch.randn(rows, 3, 7, 6)
        for run in (fast, expected):
            run(x).square().sum().backward()
        same(gradients(model), gradients(expected), rtol=1e-4, atol=1e-4)
    (row,) = disc.report(fast).to_dict()["fallbacks"]
    assert row["part"] == "backward"
    assert "planted" in row["reason"]
    assert row["calls"] == 2


@pytest.mark.fallback
def test_an_op_without_a_backward_entry_is_torchs():
    def f(x):
        return (torch.linalg.matrix_exp(x.T @ x * 0.1) * 3).sum()

    fast = compiled(f, **FRAMEWORK)
    for rows in (9, 11):
        x = 0.1 * torch.randn(rows, 5)
        x.requires_grad_()
        same(torch.autograd.grad(fast(x), x), torch.autograd.grad(f(x), x), rtol=1e-4, atol=1e-4)
    rows = [row for row in disc.report(fast).to_dict()["fallbacks"] if row["part"] == "backward"]
    assert [row["op"] for row in rows] == ["aten.linalg_matrix_exp.default"]


@pytest.mark.fallback
def test_bags_that_are_scaled_by_frequency_are_torchs():
    offsets = torch.tensor([0, 2, 2])

    def f(words, weight):
        bags = F.embedding_bag(words, weight * 2, offsets, mode="sum", scale_grad_by_freq=True)
        return bags.square().sum()

    fast = compiled(f, **FRAMEWORK)
    for rows in (4, 7):
        words, weight = torch.randint(0, 5, (rows,)), torch.randn(5, 3, requires_grad=True)
        same(torch.autograd.grad(fast(words, weight), weight), torch.autograd.grad(f(words, weight), weight))
    left = {row["op"] for row in disc.report(fast).to_dict()["fallbacks"]}
    assert "aten._embedding_bag_backward.default" in left


@pytest.mark.parametrize("experts", [3, 20])
def test_products_by_experts(experts):
    pytest.importorskip("transformers.integrations.moe")

    def f(x, weight, ends):
        return torch.ops.transformers.grouped_mm_fallback(x.tanh(), weight, ends).square().sum()

    fast = compiled(f)
    for rows in (4 * experts, 5 * experts):
        x, weight = torch.randn(rows, 6, requires_grad=True), torch.randn(experts, 6, 5, requires_grad=True)
        ends = torch.randint(0, rows, (experts,)).sort().values
        # One has no row.
        ends[1] = ends[0]
        given = x, weight
        same(
            torch.autograd.grad(fast(*given, ends), given),
            torch.autograd.grad(f(*given, ends), given),
            rtol=1e-4,
            atol=1e-4,
        )
    assert disc.report(fast).to_dict()["fallbacks"] == []


def test_products_by_experts_in_half_precision():
    def f(x, weight, ends):
        return torch._grouped_mm(x * 2, weight, ends).float().square().sum()

    fast = compiled(f)
    for rows in (16, 24):
        x, weight = (torch.randn(*sizes).bfloat16().requires_grad_() for sizes in ((rows, 8), (3, 8, 16)))
        ends, given = torch.tensor([5, 8, rows], dtype=torch.int32), (x, weight)
        same(
            torch.autograd.grad(fast(*given, ends), given),
            torch.autograd.grad(f(*given, ends), given),
            rtol=0.05,
            atol=0.5,
        )
    assert disc.report(fast).to_dict()["fallbacks"] == []


@pytest.mark.fallback
def test_a_whole_step_as_one_function():
    model = perceptron()
    expected = copy.deepcopy(model)
    ours, theirs = (torch.optim.AdamW(m.parameters(), 0.01) for m in (model, expected))

    def step(m, optimizer, x, y):
        loss = F.mse_loss(m(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    fast = torch.compile(step, backend="disc", dynamic=True, options=FRAMEWORK)
    for rows in (3, 5, 6):
        x, y = torch.randn(rows, 8), torch.randn(rows, 4)
        same(fast(model, ours, x, y), step(expected, theirs, x, y))
    same(list(model.parameters()), list(expected.parameters()), rtol=1e-4, atol=1e-5)


@pytest.mark.fallback
def test_the_trainer_of_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    class Log(transformers.TrainerCallback):
        def __init__(self):
            self.losses = []

        def on_log(self, args, state, control, logs=None, **rest):
            self.losses += [logs["loss"]] if "loss" in logs else []

    model = CASES["bert"].model()
    rows = [{"input_ids": torch.randint(0, 100, (5 + i % 9,)), "labels": i % 2} for i in range(24)]

    def padded(several):
        ids = nn.utils.rnn.pad_sequence([row["input_ids"] for row in several], batch_first=True)
        return {"input_ids": ids, "labels": torch.tensor([row["labels"] for row in several])}

    found = []
    for trained in (copy.deepcopy(model), model):
        if trained is model:
            model.compile(backend="disc", dynamic=True)
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path), max_steps=5, per_device_train_batch_size=4, report_to=[], use_cpu=True,
            logging_steps=1, disable_tqdm=True, save_strategy="no",
        )  # fmt: skip
        log = Log()
        transformers.Trainer(
            trained, arguments, train_dataset=rows, data_collator=padded, callbacks=[log]
        ).train()
        found.append([float(loss) for loss in log.losses])
    assert found[0] == pytest.approx(found[1], abs=2e-3)
    report = disc.report(model).to_dict()
    assert report["coverage"] == 1.0
    assert report["fallbacks"] == []


def test_bytes_that_are_saved_are_counted():
    fast = compiled(lambda x, w: (x @ w).tanh().square().sum())
    x, w = torch.randn(10, 8), torch.randn(8, 4, requires_grad=True)
    fast(x, w).backward()
    # The result of tanh; inputs are there anyway.
    assert disc.report(fast).to_dict()["graphs"][0]["saved_bytes"] == 10 * 4 * 4


@pytest.mark.fallback
@pytest.mark.parametrize("dropout", [False, True])
def test_a_budget_of_memory(dropout):
    import torch._functorch.config as functorch

    def f(x, w):
        for _ in range(4):
            x = (x @ w).tanh()
            x = F.dropout(x, 0.5, training=True) if dropout else x
        return x.sum()

    fast = compiled(f, **FRAMEWORK)
    given = torch.randn(16, 8), torch.randn(8, 8, requires_grad=True)
    found = []
    with functorch.patch(activation_memory_budget=0.2):
        for run in (fast, f):
            torch.manual_seed(3)
            found.append(torch.autograd.grad(run(*given), given[1])[0])
    same(*found, rtol=1e-4, atol=1e-4)
    report = disc.report(fast).to_dict()
    refused = [row for row in report["fallbacks"] if "activation_memory_budget" in row["reason"]]
    assert len(refused) == dropout
    if not dropout:
        assert report["graphs"][0]["saved_bytes"] < 4 * 16 * 8 * 4
