"""Transposes: undone where nothing needs the other order, in squares or written first elsewhere;
right at all sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from test_kernel_counts import Whole
from torch import nn
from torch.nn import functional as F

disc = pytest.importorskip("disc")

SIZES = ((2, 7, 5), (0, 3, 4), (3, 0, 4), (1, 1, 1), (1, 5, 3), (6, 6, 6), (2, 37, 33))


class Case(NamedTuple):
    function: Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]
    kernels: int
    #: Beside the tensor of three sizes, labels: one for the first and last of them.
    labels: bool = False


def loss(x, y):
    return F.cross_entropy(x, y % max(x.shape[1], 1), reduction="none")


def standardised(x):
    mean = x.mean(1, keepdim=True)
    return (x - mean) * torch.rsqrt((x - mean).square().mean(1, keepdim=True) + 1e-5)


def masked(x):
    place = torch.arange(x.shape[1])
    kept = place[None, :, None] % 2 == 0
    return torch.where(kept, x, torch.zeros(())).sum(1)


CASES = {
    # The input of every function is transposed: [B, S, C] is in memory, functions see [B, C, S].
    "loss": Case(lambda x, y: loss(x.transpose(1, 2), y), 1, labels=True),
    "sum of powers": Case(lambda x: x.transpose(1, 2).exp().sum(1), 1),
    "largest": Case(lambda x: x.transpose(1, 2).max(1), 1),
    "sum of two that are turned": Case(lambda x: (x.transpose(1, 2) * x.sin().transpose(1, 2)).sum(1), 1),
    "turned back": Case(lambda x: standardised(x.transpose(1, 2)).transpose(1, 2), 1),
    "turned back, and a sum": Case(lambda x: (x.mT.tanh().mT, x.mT.tanh().sum(1)), 1),
    "counted": Case(lambda x: masked(x.transpose(1, 2)), 1),
    "halves": Case(lambda x: F.glu(F.pad(x, (0, x.shape[2])).mT, 1).mT, 1),
    "reversed": Case(lambda x: (x.permute(2, 1, 0).flip(0) * 2).sum(0), 2),
    "joined": Case(lambda x: torch.cat([x.mT, -x.mT], 1).amax(2), 1),
    "outer": Case(lambda x: x.permute(1, 2, 0).exp().sum(1), 2),
    # The other order is needed as a whole.
    "softmax that stays": Case(lambda x: torch.softmax(x.transpose(1, 2), -1), 2),
    "norm of channels": Case(lambda x: F.layer_norm(x.mT, (x.shape[1],)), 2),
    "beside another": Case(lambda x: (x.mT + x.sum(1)[..., None]).softmax(1), 3),
}


@pytest.mark.parametrize("name", CASES)
def test_turned_rows_equal_eager_at_all_sizes(name):
    case = CASES[name]
    module = Whole(case.function).eval()

    def inputs(b, s, c):
        x = torch.randn(b, s, c)
        return (x, torch.randint(0, 1000, (b, s))) if case.labels else (x,)

    example = inputs(3, 9, 4)
    # Labels of the other axes are those of the tensor.
    dims = {0: {0: "B", 1: "S", 2: "C"}} | ({1: {0: "B", 1: "S"}} if case.labels else {})
    fast = disc.optimize(module, example, dims=dims, options=disc.Options(cache=False))
    assert disc.report(fast).to_dict()["kernels"] == case.kernels
    for size in SIZES:
        given = inputs(*size)
        try:
            expected = module(*given)
        except (RuntimeError, IndexError):
            continue  # Eager refuses: the extreme of nothing.
        torch.testing.assert_close(fast(*given), expected, equal_nan=True)


def as_map(x):
    """Tokens after the first one as an image, as models of dense features have them."""
    b, n, c = x[:, 1:].shape
    return x[:, 1:].transpose(1, 2).reshape(b, c, 2, n // 2) * 1.5


#: Transposes in pointwise groups: of parts of a tensor, and of views, which are written first.
LOOPS = {
    "part of the rows": (lambda x: x[:, 1:].transpose(1, 2) * 2, 1),
    "part of both": (lambda x: x[:, 1:, :-1].transpose(1, 2).tanh(), 1),
    "differences": (lambda x: x.mT[..., 1:] - x.mT[..., :-1], 1),
    "halves": (lambda x: x.mT[:, : x.shape[2] // 2] * x.mT[:, x.shape[2] - x.shape[2] // 2 :], 1),
    "outermost": (lambda x: x[:, :, 1:].permute(2, 0, 1).contiguous(), 1),
    "image": (as_map, 2),
}


@pytest.mark.parametrize("name", LOOPS)
def test_turned_parts_equal_eager_at_all_sizes(name):
    function, kernels = LOOPS[name]
    module = Whole(function).eval()
    fast = disc.optimize(module, (torch.randn(3, 9, 6),), options=disc.Options(cache=False))
    assert disc.report(fast).to_dict()["kernels"] == kernels
    for b, s, c in ((2, 5, 7), (0, 3, 4), (1, 1, 1), (1, 3, 2), (2, 37, 33), (3, 65, 16)):
        x = torch.randn(b, s, c)
        torch.testing.assert_close(fast(x), module(x))


def test_images_with_features_last_are_normalised_where_they_lie():
    class Block(nn.Module):
        """A norm of channels between convolutions, written as ConvNeXt's stem has it."""

        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = nn.Conv2d(3, 24, 2, 2), nn.Conv2d(24, 8, 2, 2)
            self.norm = nn.LayerNorm(24)

        def forward(self, x):
            y = self.norm(self.before(x).permute(0, 2, 3, 1))
            return self.after(y.permute(0, 3, 1, 2))

    module = Block().eval()
    fast = disc.optimize(module, (torch.randn(2, 3, 16, 24),), options=disc.Options(cache=False))
    kinds = disc.report(fast).to_dict()["kernels_by_kind"]
    assert kinds.get("reduction") == 1
    assert "pointwise" not in kinds
    with torch.no_grad():
        for size in ((2, 3, 16, 24), (1, 3, 8, 8), (3, 3, 20, 12)):
            x = torch.randn(size)
            torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)
