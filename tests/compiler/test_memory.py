"""Memory of activations: what a call needs besides inputs and weights is no more than what eager's
tensors take at once.
"""

from __future__ import annotations

import pathlib
import weakref
from contextlib import nullcontext

import disc
import memory_models
import pytest
import torch
from disc.core import extension
from disc.torch.module.weights import prepared_bytes
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

#: Task memory of a few threads: what eager's kernels take for themselves is not seen either.
SLACK = 256 << 10


class Peak(TorchDispatchMode):
    """The most bytes that tensors made within it hold at once."""

    def __init__(self):
        super().__init__()
        self.held: dict[int, int] = {}
        self.most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = {t.untyped_storage()._cdata for t in _tensors((args, kwargs))}
        out = func(*args, **(kwargs or {}))
        for t in _tensors(out):
            storage = t.untyped_storage()
            key = storage._cdata
            if key not in given and key not in self.held:
                self.held[key] = storage.nbytes()
                weakref.finalize(storage, self.held.pop, key)
        self.most = max(self.most, sum(self.held.values()))
        return out


def _tensors(tree) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


@pytest.fixture
def _ops_that_can_be_seen():
    """Without the one op that torch has for a layer of an encoder, whose tensors nothing sees."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.backends.mha.set_fastpath_enabled(before)


@pytest.mark.parametrize(
    "make",
    memory_models.ALL,
    ids=lambda make: make.__name__,
)
@pytest.mark.usefixtures("_ops_that_can_be_seen")
def test_a_call_needs_no_more_memory_than_eager(make):
    torch.manual_seed(0)
    module, example = make()
    module.eval()
    compiled = disc.optimize(module, example(7))
    for size in (100, 200):
        inputs = example(size)
        # oneDNN's layers keep the gates of all steps, as eager does, but not in tensors that can be
        # seen.
        seen = torch.backends.mkldnn.flags(enabled=False) if make is memory_models.lstm else nullcontext()
        with torch.no_grad(), seen, Peak() as eager:
            module(inputs)
        outputs = sum(t.nbytes for t in _tensors(compiled(inputs)))
        # The peak is that of all calls so far: sizes grow.
        arena = disc.report(compiled).to_dict()["peak_arena_bytes"]
        assert arena + outputs <= eager.most + SLACK, (
            f"{size}: {arena} and {outputs} for outputs, eager {eager.most}"
        )


class Resized(nn.Module):
    """An image of another size; what becomes of each cell is no whole number."""

    def __init__(self, mode: str):
        super().__init__()
        self.mode = mode

    def forward(self, x):
        size = x.shape[2] * 2 + 1, x.shape[3] * 3 - 2
        return nn.functional.interpolate(x, size=size, mode=self.mode)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize(
    "make", [lambda mode: nn.Upsample(scale_factor=2, mode=mode), Resized], ids=["doubled", "resized"]
)
def test_an_enlarged_image_needs_no_memory_beside_it(make, mode):
    """Rows are enlarged first; a kernel has those of a few rows of the result at a time."""
    compiled = disc.optimize(make(mode), torch.randn(2, 8, 24, 27))
    compiled(torch.randn(2, 8, 200, 203))
    assert disc.report(compiled).to_dict()["peak_arena_bytes"] <= SLACK


def test_many_rows_have_no_memory_for_their_parts():
    """Few rows are reduced in parts, which have memory of their own; where there are more of them,
    none is kept for that.
    """
    compiled = disc.optimize(Extremes(), torch.randn(2, 32, 24, 27))
    compiled(torch.randn(2, 32, 200, 203))
    assert disc.report(compiled).to_dict()["peak_arena_bytes"] == 0


class Extremes(nn.Module):
    """Means and maxima of features."""

    def forward(self, x):
        return x.mean(1), x.amax(1)


class Tied(nn.Module):
    """A table that is looked up, and multiplied too; matrices; a kernel."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1000, 64)
        self.first = nn.Linear(64, 256)
        self.second = nn.Linear(256, 64)
        self.last = nn.Linear(64, 1000, bias=False)
        self.last.weight = self.table.weight

    def forward(self, ids):
        x = self.table(ids)
        return self.last(x + self.second(self.first(x).relu()))


@pytest.mark.parametrize(("weights", "share"), [("exact", 4), ("bf16", 2), ("int8", 1), ("int4", 0.5)])
def test_memory_is_asked_for_by_what_weights_will_take(weights, share):
    options = disc.Options(weights=weights)
    assert prepared_bytes(Tied(), options) == int(2 * 64 * 256 * share)
    assert prepared_bytes(nn.LazyLinear(5), options) == 0


def test_memory_ahead_is_for_one_who_needs_it():
    """Whatever was asked for and whoever takes it: results are right,
    and an error in between leaves nothing.
    """
    model = nn.Linear(2048, 4096).eval()
    x = torch.randn(3, 2048)
    with pytest.raises(disc.Error):
        disc.optimize(model, torch.randn(3, 5))
    fast = disc.optimize(model, x)
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)
    for size in (0, 1 << 20, 64 << 20, 1 << 62):
        ahead = extension.memory_ahead(size)
        with ahead, ahead:
            pass
    threads = [path.read_text().strip() for path in pathlib.Path("/proc/self/task").glob("*/comm")]
    assert threads
    assert "disc-prefault" not in threads
