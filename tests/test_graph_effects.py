"""What graphs of ``torch.compile`` do besides computing: memory, effects and errors as in eager."""

from __future__ import annotations

import disc
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("inference_of_fresh_dynamo")


def compiled(fn, **named):
    return torch.compile(fn, backend="disc", options={"fallback": "framework", "progress": False}, **named)


def fallbacks(fast) -> set[str]:
    """The ops that torch ran."""
    return {row["op"] for row in disc.report(fast).to_dict()["fallbacks"]}


# Memory that a graph frees.


def free_after_use(x):
    y = x.sin() * 2
    x.untyped_storage().resize_(0)
    return y


def return_a_freed_view(x):
    y = x.t()
    x.untyped_storage().resize_(0)
    return y


def free_and_fill_again(x):
    y = x.sin() * 2
    x.untyped_storage().resize_(0)
    x.untyped_storage().resize_(y.numel() * 4)
    x.copy_(y)
    return y + x.cos()


@pytest.mark.parametrize("f", [free_after_use, return_a_freed_view, free_and_fill_again])
def test_a_graph_may_free_the_memory_of_its_input(f):
    fast = compiled(f, dynamic=True)
    for size in (4, 5):
        x = torch.randn(size, 3)
        given = x.clone()
        wanted, got = f(x), fast(given)
        for a, b in ((got, wanted), (given, x)):
            assert a.untyped_storage().nbytes() == b.untyped_storage().nbytes()
            if b.untyped_storage().nbytes():
                torch.testing.assert_close(a, b)


class Frees(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 3))

    def forward(self, x):
        y = x @ self.w + 1
        x.untyped_storage().resize_(0)
        return y


def test_a_module_may_free_the_memory_of_its_input():
    module, x = Frees().eval(), torch.randn(4, 3)
    fast = disc.optimize(module, (x,), options=disc.Options(fallback="framework"))
    assert x.untyped_storage().nbytes()
    wanted, given = x @ module.w + 1, x.clone()
    torch.testing.assert_close(fast(given), wanted)
    assert not given.untyped_storage().nbytes()


def test_a_view_of_freed_memory_is_refused():
    fast = disc.optimize(nn.Linear(3, 2).eval(), (torch.randn(4, 3),))
    whole = torch.randn(8, 3)
    view = whole[4:]
    whole.untyped_storage().resize_(0)
    with pytest.raises(disc.Error, match="without memory of its own"):
        fast(view)
