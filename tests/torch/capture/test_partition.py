"""Modules that disc compiles in part: torch runs the rest, and the result is eager's."""

from __future__ import annotations

import copy

import disc
import pytest
import random_programs
import torch
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.fallback


def report(fast) -> dict:
    return disc.report(fast).to_dict()


def as_eager(module: nn.Module, *sizes: int, **options) -> dict:
    """The report of a module that gives eager's results and state for inputs ``[size, 6]``."""
    fast, twin = disc.optimize(module, options=disc.Options(**options)), copy.deepcopy(module)
    with torch.no_grad():
        for size in sizes:
            x = torch.randn(size, 6)
            torch.manual_seed(size)
            expected = twin(x.clone())
            torch.manual_seed(size)
            torch.testing.assert_close(fast(x), expected)
    for (name, ours), theirs in zip(module.named_buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs, msg=lambda text, name=name: f"{name}: {text}")
    values = report(fast)
    assert values["captured_by"] in ("disc", "export")
    assert values["clusters"] >= 1
    return values


class Unknown(nn.Module):
    """Compiled ops around one that disc lacks."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        h = self.first(x).relu() * 2
        q = torch.linalg.matrix_exp(0.1 * h.t() @ h)
        return self.last(h @ q).softmax(-1) + q[0]


def test_an_unknown_op_is_torchs():
    values = as_eager(Unknown().eval(), 5, 3, 9, 1)
    assert values["captured_by"] == "disc"
    assert values["clusters"] == 2
    assert 0.8 < values["coverage"] < 1
    (left,) = values["fallbacks"]
    assert left["op"] == "aten.linalg_matrix_exp.default"
    assert left["source"].startswith("test_partition.py:")
    assert left["reason"]
    assert left["calls"] == 4


def test_blocked_ops_are_torchs():
    class Model(nn.Module):
        def forward(self, x):
            return F.gelu(x * 2 + 1).softmax(-1) - x

    values = as_eager(Model(), 4, 2, block_ops=["aten.gelu.default"], min_cluster_size=1)
    assert [row["op"] for row in values["fallbacks"]] == ["aten.gelu.default"]
    assert values["clusters"] == 2
    whole = as_eager(Model(), 4, 2)
    assert whole["coverage"] == 1.0
    assert whole["fallbacks"] == []


def test_min_cluster_size_leaves_small_clusters_to_torch():
    fast = disc.optimize(Unknown().eval(), torch.randn(5, 6), options=disc.Options(min_cluster_size=100))
    assert report(fast)["clusters"] == 0
    assert report(fast)["coverage"] == 0.0


class Drops(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Dropout(0.4), nn.Linear(12, 6))

    def forward(self, x):
        x = x + self.inner(x)
        noise = torch.rand_like(x) + torch.randn(x.shape[0], 6)
        return F.dropout(x, 0.2, self.training) + noise


def test_a_seed_gives_eagers_random_numbers():
    values = as_eager(Drops().train(), 5, 3, 8)
    assert {row["reason"] for row in values["fallbacks"]} == {"torch draws random numbers"}
    assert values["clusters"] >= 1
    as_eager(Drops().eval(), 5, 3)


def test_random_numbers_are_drawn_in_the_order_of_memory():
    class Model(nn.Module):
        def forward(self, x):
            turned = (x * 2).t().contiguous().t() + x
            return F.dropout(turned, 0.5, True) * 3 + 1, torch.rand_like(turned).relu() + x

    as_eager(Model(), 5, 3, 8)


def test_batch_norm_in_training_mode_updates_its_statistics():
    as_eager(nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 6)).train(), 5, 3, 8)


class Counts(nn.Module):
    """Writes to a buffer between reads of it, beside an op that disc lacks."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(6))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        before = x * self.seen + 1
        self.seen.add_(x.sum(0))
        self.seen[1:3] = 0.5
        self.calls += 1
        after = torch.igamma(x.abs() + 2, x.abs() + 1.5) * self.seen
        return before.relu() + 1, after.tanh() * 2, self.calls * 2


def test_writes_stay_in_order():
    as_eager(Counts(), 5, 3, 1)


class Changes(nn.Module):
    """Computes values only of buffers, beside an op that disc lacks, and changes the buffers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("assigned", torch.ones(6))
        self.register_buffer("written", torch.eye(6))

    def forward(self, x):
        y = x @ (self.written * 2 + 1) + self.assigned.exp()
        self.assigned = self.assigned + 0.5
        z = torch.igamma(y.abs() + 2, y.abs() + 1.5)
        self.written.add_(0.1)
        return (y.tanh() + 1) * 2, z * 2 - 1


def test_changed_buffers_are_read_anew():
    module = Changes()
    values = as_eager(module, 5, 3, 8, 5)
    assert values["coverage"] < 1


def test_a_failing_cluster_is_torchs(monkeypatch):
    from disc.core import extension

    real, failed = extension.compile_function, []

    def fails_once(*args, **kwargs):
        if not failed:
            failed.append(True)
            raise disc.CompileError("planted")
        return real(*args, **kwargs)

    monkeypatch.setattr(extension, "compile_function", fails_once)
    values = as_eager(Unknown().eval(), 5, 3)
    assert any("planted" in row["reason"] for row in values["fallbacks"])


def test_a_size_over_the_border():
    class Model(nn.Module):
        def forward(self, x):
            total = torch.linalg.eigvalsh(x.t() @ x)
            return total / x.shape[0] + x.shape[0] * 2, (total.abs() + 1).log() * (x.shape[0] + 1)

    as_eager(Model(), 5, 3, 9)


def test_a_size_out_of_torchs_op():
    class Model(nn.Module):
        def forward(self, x):
            found = torch.unique((x > 0).sum(-1))
            return (found * 2 + 1).float().exp() - 1

    as_eager(Model(), 5, 30, 1)


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_programs_are_as_eager(first):
    tried = [random_programs.tried(seed) for seed in range(first, first + 10)]
    assert [found for found, _ in tried if found is not None] == []
    assert sum(clusters > 0 for _, clusters in tried) >= 8


class Suppressed(nn.Module):
    """Boxes of high scores, and those of them that do not overlap: both counts come from data."""

    def __init__(self, first: bool):
        super().__init__()
        self.first = first

    def forward(self, boxes, scores):
        boxes = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:].exp()], 1)
        if self.first:
            mask = scores > 0.5
            boxes, scores = boxes[mask], scores[mask]
        kept = torch.ops.torchvision.nms(boxes, scores, 0.3)
        return boxes[kept].sigmoid() * 2 + 1, scores[kept].log()


@pytest.mark.parametrize("first", [False, True])
def test_a_count_from_data_may_be_0_or_1(first):
    pytest.importorskip("torchvision")
    model = Suppressed(first)

    def example(size: int, high: int):
        scores = torch.rand(size) * 0.4
        scores[:high] += 0.55
        return 3 * torch.randn(size, 4), scores

    fast = disc.optimize(model, example(8, 4), options=disc.Options(min_cluster_size=1))
    values = report(fast)
    assert values["clusters"] == 2
    counts = set()
    for size, high in ((8, 4), (20, 20), (9, 2), (8, 1), (8, 0), (1, 1), (0, 0)):
        given = example(size, high)
        expected = model(*given)
        counts.add(len(expected[0]))
        torch.testing.assert_close(fast(*given), expected)
    assert counts >= {0, 1}
    # What torch's trace asserts of the counts holds for every count.
    assert [row["op"] for row in report(fast)["fallbacks"]] == ["torchvision.nms.default"]


def test_what_a_model_checks_of_a_count_is_checked():
    class Model(nn.Module):
        def forward(self, x, scores):
            x = (x * 2 + 1)[scores > 0]
            torch._check(x.shape[0] >= 2)
            # Small: the exponential of a large matrix multiplies how a product is rounded.
            return torch.linalg.matrix_exp(0.1 * (x.t() @ x)).relu() + 1

    given = (torch.randn(5, 3) * 0.1, torch.ones(5))
    fast = disc.optimize(Model(), given, options=disc.Options(min_cluster_size=1))
    assert report(fast)["clusters"] >= 1
    x = 0.1 * torch.randn(6, 3)
    torch.testing.assert_close(fast(x, torch.ones(6)), Model()(x, torch.ones(6)))
    with pytest.raises((RuntimeError, disc.Error), match=r">= 2|Expected cond to be True"):
        fast(x, torch.tensor([1.0, -1, -1, -1, -1, -1]))
