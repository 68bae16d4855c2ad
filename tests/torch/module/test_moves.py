"""Weights whose memory moves after a module was compiled."""

from __future__ import annotations

import disc
import pytest
import torch
from torch import nn


class Model(nn.Module):
    """An embedding and a norm are read in place; a matrix is packed."""

    def __init__(self):
        super().__init__()
        self.table, self.norm, self.out = nn.Embedding(5000, 64), nn.LayerNorm(64), nn.Linear(64, 16)

    def forward(self, ids):
        return self.out(self.norm(self.table(ids)))


def _moved(model: Model, how: str) -> None:
    if how == "all":
        model.share_memory()
    elif how == "one":
        model.table.weight.untyped_storage().share_memory_()
    else:
        model.table.weight.untyped_storage().resize_(0)
    # What was freed belongs to somebody else now.
    for _ in range(8):
        torch.full((5000, 64), float("nan"))


@pytest.mark.parametrize("how", ["all", "one", "resized"])
def test_compiled_code_never_reads_freed_memory(how):
    torch.manual_seed(0)
    model, ids = Model().eval(), torch.randint(5000, (3, 7))
    expected = model(ids).detach()
    fast = disc.optimize(model, ids)
    _moved(model, how)
    assert all(not t.is_shared() for _, t in fast._dispatcher.entries()[0].weights())
    torch.testing.assert_close(fast(ids), expected)


def test_shared_weights_are_read_again_by_refresh():
    model, ids = Model().eval(), torch.randint(5000, (3, 7))
    fast = disc.optimize(model, ids)
    _moved(model, "all")
    with torch.no_grad():
        model.norm.bias.add_(1)
    fast.refresh()
    torch.testing.assert_close(fast(ids), model(ids).detach())
    # Shared memory does not move again.
    model.share_memory()
    torch.testing.assert_close(fast(ids), model(ids).detach())


def test_released_weights_do_not_move():
    model, ids = Model().eval(), torch.randint(5000, (3, 7))
    fast = disc.optimize(model, ids, options=disc.Options(release_weights=True))
    expected = model(ids).detach()
    with pytest.raises(disc.Error, match="a compiled module reads this memory"):
        model.share_memory()
    torch.testing.assert_close(fast(ids), expected)


def test_other_memory_moves_as_before():
    model, ids = Model().eval(), torch.randint(5000, (3, 7))
    fast = disc.optimize(model, ids)
    read = [t.data_ptr() for _, t in fast._dispatcher.entries()[0].weights()]
    assert torch.rand(9).share_memory_().is_shared()
    assert [t.data_ptr() for _, t in fast._dispatcher.entries()[0].weights()] == read
