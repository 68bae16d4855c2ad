"""``disc.check`` and ``Options(verify=)`` of narrow weights: against eager with weights that are
quantised the same way.
"""

from __future__ import annotations

import disc
import pytest
import torch
from torch import nn
from torch.nn import functional as F

FORMS = ["bf16", "int8", "int4"]


class Tied(nn.Module):
    """An embedding stays exact, also where a matmul reads the same weights."""

    def __init__(self):
        super().__init__()
        self.embedding, self.inner = nn.Embedding(100, 64), nn.Linear(64, 64)

    def forward(self, words):
        return F.linear(self.inner(self.embedding(words)).relu(), self.embedding.weight)


class Product(nn.Module):
    """A function of an input and a matrix, which another one changes before calls."""

    def __init__(self, function):
        super().__init__()
        self.matrix, self.function = nn.Parameter(torch.randn(64, 64)), function
        self.low, self.high = nn.Parameter(torch.randn(64, 4)), nn.Parameter(torch.randn(4, 64))

    def forward(self, x):
        return self.function(x, self.matrix + self.low @ self.high)


CASES = {
    "layers": lambda: (nn.Sequential(nn.Linear(50, 70), nn.GELU(), nn.Linear(70, 33)), torch.randn(5, 50)),
    "few columns": lambda: (nn.Linear(512, 8), torch.randn(5, 512)),
    "more columns": lambda: (nn.Linear(512, 9), torch.randn(5, 512)),
    "vector": lambda: (nn.Linear(64, 64), torch.randn(64)),
    "tied": lambda: (Tied(), torch.randint(0, 100, (2, 7))),
    "computed": lambda: (Product(torch.matmul), torch.randn(2, 5, 64)),
    "left": lambda: (Product(lambda x, w: w @ x), torch.randn(64, 5)),
    "left of matrices": lambda: (Product(lambda x, w: w @ x), torch.randn(2, 64, 5)),
    "left of a vector": lambda: (Product(lambda x, w: w @ x), torch.randn(64)),
    "einsum": lambda: (Product(lambda x, w: torch.einsum("bik,jk->bij", x, w)), torch.randn(2, 5, 64)),
    "einsum of heads": lambda: (
        Product(lambda x, w: torch.einsum("bi,ihd->bhd", x, w.view(64, 4, 16))),
        torch.randn(5, 64),
    ),
    "attention": lambda: (nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), torch.randn(2, 7, 64)),
    "LSTM": lambda: (nn.LSTM(64, 64), torch.randn(3, 2, 64)),
    "GRU": lambda: (nn.GRU(64, 64), torch.randn(3, 2, 64)),
    "convolution": lambda: (nn.Sequential(nn.Conv1d(64, 64, 1), nn.Conv1d(64, 64, 3)), torch.randn(2, 64, 9)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES)
def test_a_check_reads_the_same_weights(case, form):
    model, x = CASES[case]()
    fast = disc.optimize(model.eval(), x, options=disc.Options(weights=form))
    found = disc.check(fast, x)
    assert found.ok, found
    assert found.max_rel_err < 1e-5


@pytest.mark.parametrize("case", CASES)
def test_a_check_rounds_the_same_rows(case):
    model, x = CASES[case]()
    fast = disc.optimize(model.eval(), x, options=disc.Options(weights="int8", activations="int8"))
    found = disc.check(fast, x)
    assert found.ok, found


@pytest.mark.parametrize("form", FORMS)
def test_wrong_weights_are_found_and_verified_calls_are_right(form):
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).eval()
    x = torch.randn(5, 64)
    options = disc.Options(weights=form, verify=2, watch="off")
    fast = disc.optimize(model, x, options=options)
    fast(x)
    assert disc.report(fast).to_dict()["verified"] == {"compared": 1, "first_difference": None}
    with torch.no_grad():
        # Less than the error of int4; compiled code reads the prepared weights as they were.
        model[0].weight.mul_(1.01)
    assert not disc.check(fast, x)
    fast(x)
    assert disc.report(fast).to_dict()["verified"]["first_difference"]["call"] == 2
    fast.refresh()
    assert disc.check(fast, x)


@pytest.mark.fallback
def test_what_torch_runs_has_exact_weights():
    class Sorted(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(64, 64)

        def forward(self, x):
            return self.linear(x) if x.sum().item() > 0 else self.linear(x) + 1

    class Parts(nn.Module):
        """One layer is before an op that torch runs, and too small to be compiled."""

        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)

        def forward(self, x):
            y = torch.linalg.qr(self.first(x)).Q.abs().sum()
            return self.second(x).relu() + y

    options = disc.Options(weights="int8", block_ops=["aten.linear.default"])
    fast = disc.optimize(nn.Linear(64, 64).eval(), torch.ones(5, 64), options=options)
    assert disc.report(fast).to_dict()["coverage"] == 0.0
    assert disc.check(fast, torch.randn(5, 64))
    options = disc.Options(weights="int8", min_cluster_size=2)
    assert disc.check(disc.optimize(Parts().eval(), torch.randn(9, 64), options=options), torch.randn(9, 64))
    # Dynamo splits this one.
    assert disc.check(disc.optimize(Sorted().eval(), options=disc.Options(weights="int8")), torch.ones(2, 64))
