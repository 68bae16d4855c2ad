"""Upsampling at sizes that one compilation has not seen, against eager: by whole factors,
by others, and to a size.
"""

from __future__ import annotations

import disc
import pytest
import torch
from model_check import Function
from torch import nn
from torch.nn import functional as F

TARGETS = [None, "x86-64-v3"]
LINES = ((2, 3, 9), (1, 3, 1), (3, 3, 67), (1, 3, 7), (0, 3, 5))
PLANES = ((2, 3, 9, 12), (1, 3, 1, 1), (3, 3, 5, 67), (1, 3, 13, 2), (0, 3, 4, 6))
#: Sizes from which few cells, or none more, come.
SMALL_TOO = ((1, 2, 9, 12), (1, 2, 2, 3), (1, 2, 3, 2), (2, 1, 2, 31), (1, 2, 10, 33), (0, 2, 4, 6))
VOLUMES = ((2, 3, 4, 5, 6), (1, 3, 1, 2, 1), (1, 3, 3, 2, 35))

CASES = {
    **{f"nearest by {k}": (nn.Upsample(scale_factor=k), PLANES) for k in (2, 3, 4, 8, 7)},
    "nearest in one dimension": (nn.Upsample(scale_factor=2), LINES),
    "nearest in three dimensions": (nn.Upsample(scale_factor=2), VOLUMES),
    "nearest by different factors": (nn.Upsample(scale_factor=(1, 4)), PLANES),
    "nearest by a fraction": (nn.Upsample(scale_factor=1.5), PLANES),
    "nearest, exact": (nn.Upsample(scale_factor=2, mode="nearest-exact"), PLANES),
    "nearest to a size": (nn.Upsample(size=(10, 24)), PLANES),
    **{f"bilinear by {k}": (nn.Upsample(scale_factor=k, mode="bilinear"), PLANES) for k in (2, 3, 4, 8)},
    "linear": (nn.Upsample(scale_factor=2, mode="linear"), LINES),
    "trilinear": (nn.Upsample(scale_factor=2, mode="trilinear"), VOLUMES),
    "bilinear between corners": (
        nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
        PLANES,
    ),
    "bilinear by a fraction": (nn.Upsample(scale_factor=1.5, mode="bilinear"), PLANES),
    **{
        f"{mode} by {k}": (nn.Upsample(scale_factor=k, mode=mode), SMALL_TOO)
        for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")
        for k in (1.3, 0.7, 2.3, (1.7, 0.6))
    },
    "nearest by 1.3 in one dimension": (nn.Upsample(scale_factor=1.3), LINES),
    "linear by 1.3": (nn.Upsample(scale_factor=1.3, mode="linear"), LINES),
    "bicubic": (nn.Upsample(scale_factor=2, mode="bicubic"), PLANES),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_equals_eager(name, target):
    torch.manual_seed(0)
    module, shapes = CASES[name]
    fast = disc.optimize(module, torch.randn(shapes[0]), options=disc.Options(target=target, threads=2))
    for shape in shapes:
        x = torch.randn(shape)
        wanted, got = module(x), fast(x)
        assert got.shape == wanted.shape
        if "nearest" in name:
            assert torch.equal(got, wanted), shape
        else:
            torch.testing.assert_close(got, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_not_a_number_goes_where_torch_has_it(mode):
    module = nn.Upsample(scale_factor=2, mode=mode)
    fast = disc.optimize(module, torch.randn(1, 2, 9, 8))
    for place in ((0, 0), (1, 1), (0, 1), (8, 19), (7, 18), (4, 5)):
        for value in (torch.nan, torch.inf):
            x = torch.randn(1, 2, 9, 20)
            x[0, 1][place] = value
            wanted, got = module(x), fast(x)
            for same in (torch.isnan, torch.isposinf):
                assert torch.equal(same(got), same(wanted)), (place, value)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_types(dtype):
    for mode in ("nearest", "bilinear"):
        module, x = nn.Upsample(scale_factor=2, mode=mode), torch.randn(2, 3, 5, 11).to(dtype)
        torch.testing.assert_close(disc.optimize(module, x)(x), module(x))


SMALLEST = {
    "nearest": (nn.Upsample(scale_factor=4), 1),
    "nearest, exact": (nn.Upsample(scale_factor=1.5, mode="nearest-exact"), 1),
    "bilinear to a size": (nn.Upsample(size=(10, 7), mode="bilinear"), 1),
    "nearest by 0.7": (nn.Upsample(scale_factor=0.7), 2),
    "bilinear by 1.3": (nn.Upsample(scale_factor=1.3, mode="bilinear"), 1),
    "bilinear to a fourth": (nn.Upsample(scale_factor=0.25, mode="bilinear"), 4),
    "bicubic": (nn.Upsample(scale_factor=2, mode="bicubic"), 1),
}


@pytest.mark.parametrize("name", SMALLEST)
def test_an_image_without_cells_is_refused_and_an_empty_batch_is_not(name):
    module, least = SMALLEST[name]
    fast = disc.optimize(module, torch.randn(2, 3, 9, 8))
    x = torch.randn(2, 3, least, least)
    torch.testing.assert_close(fast(x), module(x), rtol=2e-5, atol=2e-5)
    assert fast(x[:0]).shape == module(x[:0]).shape
    for size in {0, least - 1}:
        for axis in (2, 3):
            small = x.narrow(axis, 0, size)
            with pytest.raises(RuntimeError, match="should be greater than 0"):
                module(small)
            with pytest.raises(disc.DimError, match=rf"input_{axis} = {size} \(axis {axis} of input\)"):
                fast(small)


@pytest.mark.parametrize("size", [4, 5])
def test_cells_that_are_copied_read_no_others(size):
    module = nn.Upsample(size=(4, 6), mode="bilinear")
    fast = disc.optimize(module, torch.randn(1, 1, 3, 4))
    x = torch.randn(2, 1, size, 6)
    x[0, 0, 1, 2], x[1, 0, 3, 0] = torch.nan, torch.inf
    torch.testing.assert_close(fast(x), module(x), equal_nan=True)


def test_a_factor_computed_from_a_size_serves_the_sizes_that_give_it():
    """As DINO resamples its embeddings of positions; 24 to 27 columns are six patches."""

    class Positions(nn.Module):
        def forward(self, x, table):
            factor = (x.shape[-1] // 4 + 0.1) / 4.0
            return x.sum() + nn.functional.interpolate(table, scale_factor=(factor, factor), mode="bicubic")

    fast, table = (
        disc.optimize(Positions(), (torch.rand(2, 24), torch.rand(1, 3, 4, 4))),
        torch.rand(1, 3, 4, 4),
    )
    for n in (24, 27):
        x = torch.rand(3, n)
        torch.testing.assert_close(fast(x, table), Positions()(x, table))
    with pytest.raises(disc.DimError, match=r"x_1 = 28.* x_1 to be between 24 and 27 \(test_upsampling\.py"):
        fast(torch.rand(3, 28), table)


def test_a_size_that_floats_round_otherwise_is_refused_and_named():
    """90 * 0.7 is 62.99999999999999."""
    fast = disc.optimize(nn.Upsample(scale_factor=0.7), torch.randn(1, 2, 20))
    for size in (10, 11, 89, 91, 100):
        x = torch.randn(1, 2, size)
        assert torch.equal(fast(x), nn.Upsample(scale_factor=0.7)(x))
    with pytest.raises(disc.DimError, match=r"input_2 = 90: the module needs 0.7 .* as floats are rounded"):
        fast(torch.randn(1, 2, 90))


class Antialiased(nn.Module):
    """By factors, or to the size of another image."""

    def __init__(self, mode: str, factor=None, align_corners: bool = False):
        super().__init__()
        self.settings = {"mode": mode, "align_corners": align_corners, "antialias": True}
        self.factor = factor

    def forward(self, x, like):
        size = None if self.factor else like.shape[2:]
        return nn.functional.interpolate(x, size, self.factor, **self.settings)


#: Of the image, and the rows and columns of the other one. torch repeats the first row where one
#: column is left of several.
FILTERED = (
    ((2, 3, 9, 12), (4, 5)),
    ((1, 1, 2, 2), (1, 1)),
    ((3, 3, 5, 37), (5, 2)),
    ((1, 1, 13, 3), (13, 2)),
    ((0, 3, 14, 16), (3, 7)),
)
FILTERS = {
    "bicubic to a size": Antialiased("bicubic"),
    "bilinear to a size, between corners": Antialiased("bilinear", align_corners=True),
    "bilinear by a half": Antialiased("bilinear", 0.5),
    "bicubic by two factors": Antialiased("bicubic", (1.3, 0.7)),
}


@pytest.mark.parametrize("name", FILTERS)
def test_antialias(name):
    torch.manual_seed(0)
    module = FILTERS[name]
    fast = disc.optimize(module, (torch.randn(2, 3, 16, 9), torch.randn(1, 1, 7, 8)))
    for shape, size in FILTERED:
        x, like = torch.randn(shape), torch.randn(1, 2, *size)
        wanted, got = module(x, like), fast(x, like)
        if wanted.shape[3] == 1 < wanted.shape[2]:
            continue
        torch.testing.assert_close(got, wanted, rtol=2e-5, atol=2e-5)
        if x.numel():
            x[0, 0, shape[2] // 2, shape[3] // 2] = torch.inf
            assert torch.equal(fast(x, like).isfinite(), module(x, like).isfinite())
    x, like = torch.randn(1, 2, 0, 4), torch.randn(1, 1, 2, 2)
    with pytest.raises(disc.Error):
        fast(x, like)
    with pytest.raises(
        RuntimeError, match=r"[Ii]nput and output sizes should be greater than 0|non-empty|Non-empty"
    ):
        module(x, like)


def test_antialias_of_bytes_is_refused():
    class Bytes(nn.Module):
        def forward(self, x):
            return nn.functional.interpolate(x, (4, 4), mode="bilinear", antialias=True)

    with pytest.raises(disc.UnsupportedOp, match="_upsample_bilinear2d_aa"):
        disc.optimize(Bytes(), (torch.randint(0, 255, (1, 3, 8, 8), dtype=torch.uint8),))


def test_samples_at_no_number_and_far_away_are_those_of_eager(compile_module):
    def sample(x, grid):
        return [
            F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=corners)
            for mode, padding, corners in (
                ("bilinear", "border", True),
                ("bilinear", "reflection", False),
                ("nearest", "zeros", True),
                ("nearest", "reflection", True),
            )
        ]

    odd = [float("nan"), float("inf"), -float("inf"), 1e30, -1e5, 0.3, -1.2]
    grid = torch.tensor([[a, b] for a in odd for b in odd]).view(1, 7, 7, 2)
    model = Function(sample)
    compiled = compile_module(model, (torch.rand(2, 1, 5, 6), torch.rand(2, 3, 4, 2)))
    for height, width in ((3, 4), (1, 1)):
        x = torch.rand(1, 1, height, width)
        for ours, theirs in zip(compiled(x, grid), model(x, grid), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5, equal_nan=True)
