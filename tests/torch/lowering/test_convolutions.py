"""Convolutions and pooling at sizes that one compilation has not seen, against float64, for both
levels of vectors.

Each case has its own schedule: groups of few features and pooling are computed on planes in cache,
windows that are two apart are read in pairs, and Winograd's methods take windows of three by three
where there are enough tiles, large or small ones.
"""

from __future__ import annotations

import copy
import itertools

import disc
import model_check
import pytest
import torch
from torch import nn

TARGETS = [None, "x86-64-v3"]
#: Of the largest magnitude of a result; Winograd's method alone needs as much (docs/numerics.md).
BOUND = 2e-5


def images(channels: int, *sizes):
    return [(batch, channels, *side) for batch, side in zip((2, 1, 3, 1, 2, 1), sizes, strict=False)]


def planes(channels: int):
    return images(channels, (20, 24), (1, 1), (7, 7), (13, 31), (5, 64), (33, 17))


def lines(channels: int):
    return images(channels, (40,), (1,), (7,), (131,), (1100,), (64,))


def volumes(channels: int):
    return images(channels, (6, 8, 9), (1, 1, 1), (3, 5, 17), (2, 2, 33))


def depthwise(kind, channels: int, k, stride=1, dilation=1, multiplier: int = 1):
    sides = [k] * {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}[kind] if isinstance(k, int) else list(k)
    padding = [dilation * (side - 1) for side in sides]
    return kind(
        channels, channels * multiplier, k, stride, padding=padding, dilation=dilation, groups=channels
    )


def causal(channels: int, dilation: int):
    return nn.Sequential(
        nn.ConstantPad1d((2 * dilation, 0), 0.0),
        nn.Conv1d(channels, channels, 3, dilation=dilation),
        nn.Tanh(),
    )


def inverted(channels: int, side, dilation=1):
    """A depthwise convolution between two others: its result is where its input was."""
    padding = [dilation * (k - 1) // 2 for k in side]
    layers = (
        nn.Conv2d(channels, 40, 1),
        nn.ReLU6(),
        nn.Conv2d(40, 40, side, padding=padding, dilation=dilation, groups=40),
        nn.Hardswish(),
        nn.Conv2d(40, channels, 1),
    )
    return nn.Sequential(*layers)


class Residual(nn.Module):
    """Layers of which each adds to what the one before has made:
    that takes the memory of what it is added to.
    """

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        x = self.layers[0](x)
        for layer in self.layers[1:]:
            x = x + layer(nn.functional.leaky_relu(x))
        return x


CASES = {
    "added to, 3x3": (Residual(*(nn.Conv2d(20, 20, 3, padding=1) for _ in range(4))), planes(20)),
    "added to, depthwise 3x3": (
        Residual(*(nn.Conv2d(5, 5, 3, padding=1, groups=5) for _ in range(4))),
        planes(5),
    ),
    "added to, dilated": (
        Residual(*(nn.Conv1d(16, 16, 3, padding=d, dilation=d) for d in (1, 3, 5))),
        lines(16),
    ),
    "added to, 1x1, mean and largest": (
        Residual(nn.Conv2d(24, 24, 1), nn.AvgPool2d(3, 1, 1), nn.Conv2d(24, 24, 1), nn.MaxPool2d(3, 1, 1)),
        planes(24),
    ),
    "depthwise 3x3": (depthwise(nn.Conv2d, 5, 3), planes(5)),
    "depthwise 5x5 stride 2": (depthwise(nn.Conv2d, 3, 5, 2), planes(3)),
    "depthwise 7x7": (depthwise(nn.Conv2d, 3, 7), planes(3)),
    "depthwise 3x3 stride 2 down": (depthwise(nn.Conv2d, 3, 3, (2, 1)), planes(3)),
    "depthwise 3x3 dilated, two for each": (depthwise(nn.Conv2d, 3, 3, 1, 2, 2), planes(3)),
    "depthwise 2x4": (nn.Conv2d(5, 5, (2, 4), padding=(1, 0), groups=5), planes(5)[2:]),
    "depthwise 3x3 stride 3": (depthwise(nn.Conv2d, 3, 3, 3), planes(3)),
    "depthwise 31": (depthwise(nn.Conv1d, 6, 31), lines(6)),
    "depthwise dilated by 9, two for each": (depthwise(nn.Conv1d, 4, 3, 1, 9, 2), lines(4)),
    "depthwise 3x3x3": (depthwise(nn.Conv3d, 3, 3), volumes(3)),
    "depthwise 1x3x3 stride 2": (depthwise(nn.Conv3d, 3, (1, 3, 3), 2), volumes(3)),
    "groups of four": (nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=4), nn.ReLU()), planes(16)),
    "norm and activation behind": (
        nn.Sequential(depthwise(nn.Conv2d, 8, 3), nn.BatchNorm2d(8), nn.Hardswish()),
        planes(8),
    ),
    "in place, 3x3": (inverted(6, (3, 3)), [*planes(6), (1, 6, 40, 1100)]),
    "in place, 5x5": (inverted(6, (5, 5)), planes(6)),
    "in place, 3x3 dilated by 3": (inverted(6, (3, 3), 3), planes(6)),
    "in place, 7x7 dilated by 2": (inverted(6, (7, 7), 2), planes(6)),
    "in place, 1x3": (inverted(6, (1, 3)), planes(6)),
    "in place, uneven padding": (
        nn.Sequential(nn.Conv2d(6, 33, 1), nn.Conv2d(33, 33, (2, 4), padding="same", groups=33), nn.ReLU()),
        planes(6)[:1] + planes(6)[2:],
    ),
    "3x3 stride 2": (nn.Conv2d(6, 24, 3, 2, 1), planes(6)),
    "1x1 stride 2": (nn.Conv2d(32, 24, 1, 2), planes(32)),
    "7x7 stride 2": (nn.Conv2d(3, 16, 7, 2, 3), planes(3)),
    "9 wide stride 2": (nn.Conv1d(4, 16, 9, 2, 4), lines(4)),
    "filters that are pages apart": (
        nn.Sequential(nn.Conv2d(1024, 20, 1), nn.ReLU(), nn.Conv2d(20, 9, 1)),
        images(1024, (5, 6), (1, 1), (7, 7)),
    ),
    "filters of several taps that are pages apart": (nn.Conv1d(512, 13, 4, padding=2), lines(512)[:3]),
    "filters in groups that are pages apart": (nn.Conv1d(2048, 32, 1, groups=2), lines(2048)[:2]),
    "columns that are left over": (
        nn.Sequential(nn.Conv2d(390, 50, 1), nn.Tanh(), nn.Conv2d(50, 9, 1)),
        images(390, (7, 7), (1, 1), (1, 2), (1, 3), (2, 2), (3, 3))
        + images(390, (3, 4), (5, 7), (5, 9), (14, 14)),
    ),
    "columns that are left over of windows, in groups": (
        nn.Sequential(nn.Conv1d(88, 100, 9, 2, 4, groups=2), nn.GELU()),
        lines(88),
    ),
    "few features of many": (nn.Conv2d(40, 4, 3, padding=1), planes(40)),
    "transposed": (nn.ConvTranspose2d(6, 8, 3, 2, 1, output_padding=1), planes(6)),
    "transposed in groups": (nn.ConvTranspose2d(6, 6, 4, 2, 1, groups=6), planes(6)[2:]),
    "transposed, 8 apart": (nn.ConvTranspose1d(12, 6, 16, 8, 4), lines(12)),
    "transposed, 5 apart": (nn.ConvTranspose1d(4, 6, 11, 5, 3), lines(4)),
    "transposed, 2 apart, cut": (nn.ConvTranspose1d(4, 8, 3, 2, 1), lines(4)),
    "transposed, wider apart than its kernel": (nn.ConvTranspose1d(4, 8, 2, 5, output_padding=3), lines(4)),
    "transposed, dilated": (nn.ConvTranspose1d(4, 8, 3, 2, 1, 1, dilation=3), lines(4)),
    "transposed, dilated by what it is apart": (
        nn.ConvTranspose2d(5, 6, 3, 2, 2, dilation=2),
        planes(5)[:1] + planes(5)[2:],
    ),
    "transposed by halves, 2x2": (nn.Sequential(nn.ConvTranspose2d(6, 5, 2, 2), nn.GELU()), planes(6)),
    "transposed one way, in groups": (
        nn.ConvTranspose2d(8, 12, (4, 3), (2, 1), (1, 1), groups=2, bias=False),
        planes(8),
    ),
    "gates of an image": (nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.GLU(1)), planes(64)),
    "transposed 3x3x3": (nn.ConvTranspose3d(4, 5, 3, 2, 1, 1), volumes(4)),
    "dilated and causal": (causal(16, 8), lines(16)),
    "3x3 of many features": (
        nn.Sequential(nn.Conv2d(20, 30, 3, padding=1), nn.BatchNorm2d(30), nn.ReLU()),
        planes(20),
    ),
    "3x3 with uneven padding": (
        nn.Sequential(nn.ZeroPad2d((2, 0, 1, 0)), nn.Conv2d(16, 17, 3)),
        images(16, (20, 24), (28, 28), (14, 57)),
    ),
    "largest of 3x3": (nn.MaxPool2d(3, 2, 1), planes(3)),
    "largest of 2x2 dilated": (nn.MaxPool2d(2, 1, dilation=3), images(3, (20, 24), (4, 9), (33, 5))),
    "mean of 3x3": (nn.AvgPool2d(3, 2, 1), planes(3)),
    "mean of 5, then activation": (nn.Sequential(nn.AvgPool1d(5, 1, 2), nn.SiLU()), lines(3)),
}


def compiled(module, example, target, **options):
    return disc.optimize(module, example, options=disc.Options(target=target, threads=2, **options))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_equals_float64(name, target):
    torch.manual_seed(0)
    module, shapes = CASES[name]
    module = module.eval()
    exact = copy.deepcopy(module).double()
    with torch.no_grad():
        fast = compiled(module, torch.randn(shapes[0]), target)
        for shape in shapes:
            x = torch.randn(shape)
            wanted, got = exact(x.double()), fast(x)
            assert got.shape == wanted.shape
            error = (got - wanted).abs().max() / wanted.abs().max()
            assert error <= BOUND, (shape, float(error))


#: Cases whose schedules differ in half precision: words of two elements, where the CPU multiplies
#: them, and Winograd's method.
IN_HALF = (
    "added to, 3x3",
    "depthwise 3x3",
    "3x3 stride 2",
    "1x1 stride 2",
    "7x7 stride 2",
    "9 wide stride 2",
    "filters of several taps that are pages apart",
    "columns that are left over",
    "columns that are left over of windows, in groups",
    "transposed by halves, 2x2",
    "transposed one way, in groups",
    "dilated and causal",
    "3x3 of many features",
    "3x3 with uneven padding",
)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", IN_HALF)
def test_half_precision(name, dtype, target):
    torch.manual_seed(0)
    module, shapes = CASES[name]
    module = copy.deepcopy(module).eval().to(dtype)
    exact = copy.deepcopy(module).double()
    fast = compiled(module, torch.randn(shapes[0]).to(dtype), target)
    for shape in shapes:
        ours, eager = model_check.half_errors(fast, module, exact, (torch.randn(shape).to(dtype),), {})
        assert ours <= 4 * eager + 2e-5, shape


def kinds(fast):
    return disc.report(fast).to_dict()["kernels_by_kind"]


def test_groups_and_pooling_have_kernels_of_their_own():
    x = torch.randn(2, 8, 9, 9)
    block = nn.Sequential(depthwise(nn.Conv2d, 8, 3), nn.ReLU(), nn.MaxPool2d(3, 2)).eval()
    assert kinds(compiled(block, x, None)) == {"convolution": 1, "pooling": 1}
    # Windows side by side are rows.
    assert kinds(compiled(nn.MaxPool2d(2), x, None)) == {"reduction": 1}
    # A window for a whole image is a mean.
    assert kinds(compiled(nn.AdaptiveAvgPool2d(1), x, None)) == {"reduction": 1}


def test_no_planes_are_walked():
    with torch.no_grad():
        fast = compiled(inverted(6, (3, 3)).eval(), torch.randn(2, 6, 20, 24), None)
        assert fast(torch.randn(0, 6, 9, 9)).shape == (0, 6, 9, 9)


def test_winograd_is_a_version_that_an_option_forbids():
    torch.manual_seed(0)
    module, x = nn.Conv2d(32, 32, 3, padding=1).eval(), torch.randn(1, 32, 30, 30)
    with torch.no_grad():
        with_it, without = compiled(module, x, None), compiled(module, x, None, winograd=False)
        assert kinds(with_it) == kinds(without) == {"matmul": 1}
        wanted = copy.deepcopy(module).double()(x.double())
        errors = [(fast(x) - wanted).abs().max().item() for fast in (with_it, without)]
        # The version rounds differently, so that results tell which one ran.
        assert errors[0] != errors[1]
        assert errors[1] < 2e-6
        # Tiles of two by two are no less exact than sums.
        few = torch.randn(1, 32, 7, 7)
        wanted = copy.deepcopy(module).double()(few.double())
        assert not torch.equal(with_it(few), without(few))
        assert (with_it(few) - wanted).abs().max() < 2e-6
        fewest = torch.randn(1, 32, 5, 5)
        assert torch.equal(with_it(fewest), without(fewest))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("padding", [(1, 1), (0, 2)])
def test_small_images_of_all_sizes(target, padding):
    torch.manual_seed(0)
    module = nn.Conv2d(40, 20, 3, padding=padding).eval()
    exact = copy.deepcopy(module).double()
    with torch.no_grad():
        fast = compiled(module, torch.randn(2, 40, 9, 8), target)
        for batch, height, width in itertools.product((1, 3), range(4, 14), range(4, 14)):
            x = torch.randn(batch, 40, height, width)
            wanted = exact(x.double())
            error = (fast(x) - wanted).abs().max() / wanted.abs().max()
            assert error <= BOUND, (batch, height, width, float(error))


def special(shape, *elements):
    x = torch.randn(shape)
    for position, value in elements:
        x[position] = value
    return x


NAN, INF, LARGE = torch.nan, torch.inf, 1e37
#: Inputs whose results are not all finite, or come from numbers that a sum of a whole tile cannot
#: hold.
SPECIALS = {
    "NaN within": special((1, 24, 30, 30), ((0, 3, 8, 9), NAN)),
    "NaN in corners": special(
        (2, 24, 29, 31), ((0, 0, 0, 0), NAN), ((1, 23, 28, 30), NAN), ((1, 5, 0, 30), NAN)
    ),
    "infinities of both signs": special(
        (1, 24, 30, 30), ((0, 3, 8, 9), INF), ((0, 9, 9, 9), -INF), ((0, 9, 29, 3), -INF)
    ),
    "in one of several images": special((3, 24, 14, 14), ((1, 7, 13, 13), INF), ((2, 7, 3, 4), NAN)),
    "a row of them": special((1, 24, 17, 70), ((0, 2, 4), NAN)),
    "a feature of them": special((2, 24, 22, 18), ((1, 11), INF)),
    "nothing else": torch.full((1, 24, 24, 24), INF),
    "all large": torch.full((1, 24, 24, 24), LARGE) * torch.randn(1, 24, 24, 24).sign(),
    "one large": special((1, 24, 24, 24), ((0, 0, 11, 12), 3e38)),
    "sums that overflow": torch.full((1, 24, 20, 20), 2e38),
    "in the last tile": special((1, 24, 33, 65), ((0, 0, 32, 64), NAN)),
    "in small tiles": special((1, 24, 7, 7), ((0, 3, 3, 4), NAN), ((0, 5, 6, 6), INF)),
    "in corners of small tiles": special((3, 24, 9, 6), ((0, 0, 0, 0), INF), ((2, 23, 8, 5), NAN)),
    "large in small tiles": torch.full((1, 24, 8, 8), 2e38),
}


@pytest.mark.parametrize("target", TARGETS)
def test_winograd_keeps_what_is_not_finite_where_a_sum_has_it(target):
    torch.manual_seed(0)
    for features, behind in ((17, nn.Identity()), (40, nn.Sequential(nn.BatchNorm2d(40), nn.ReLU()))):
        module = nn.Sequential(nn.Conv2d(24, features, 3, padding=1), behind).eval()
        with torch.no_grad():
            module[0].weight[1, 2, 0, 1] = 0.0
            x = torch.randn(1, 24, 30, 30)
            fast, plain = compiled(module, x, target), compiled(module, x, target, winograd=False)
            exact = copy.deepcopy(module).double()
            for name, image in SPECIALS.items():
                wanted, got = plain(image), fast(image)
                for same in (torch.isnan, torch.isposinf, torch.isneginf):
                    assert torch.equal(same(got), same(wanted)), name
                finite = wanted.isfinite()
                wanted, largest = (
                    exact(image.double())[finite],
                    image[image.isfinite()].abs().max() if image.isfinite().any() else 0,
                )
                assert ((got[finite] - wanted).abs() <= 3e-5 * max(largest, 1)).all(), name
            assert fast(x).isfinite().all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_winograd_in_half_precision_keeps_what_is_not_finite(dtype, target):
    torch.manual_seed(0)
    module = nn.Conv2d(24, 24, 3, padding=1).eval().to(dtype)
    with torch.no_grad():
        x = torch.randn(1, 24, 32, 32).to(dtype)
        fast, plain = compiled(module, x, target), compiled(module, x, target, winograd=False)
        for name, image in SPECIALS.items():
            wanted, got = plain(image.to(dtype)), fast(image.to(dtype))
            for same in (torch.isnan, torch.isposinf, torch.isneginf):
                assert torch.equal(same(got), same(wanted)), name
            finite = wanted.isfinite()
            torch.testing.assert_close(got[finite], wanted[finite], rtol=2e-2, atol=2e-2, msg=name)
        # Large images take the method, of which the rounding of sums tells; tile registers are
        # faster without it.
        has_tiles = dtype is torch.bfloat16 and "amx-bf16" in disc.report(fast).to_dict()["target"]
        assert torch.equal(fast(x), plain(x)) is has_tiles


@pytest.mark.parametrize("target", TARGETS)
def test_winograd_adds_once_where_results_are_not_finite(target):
    torch.manual_seed(0)
    module = Residual(*(nn.Conv2d(24, 24, 3, padding=1) for _ in range(3))).eval()
    exact = copy.deepcopy(module).double()
    with torch.no_grad():
        fast = compiled(module, torch.randn(1, 24, 30, 30), target)
        for name in (
            "NaN within",
            "NaN in corners",
            "in one of several images",
            "a row of them",
            "in small tiles",
        ):
            x = SPECIALS[name].clone()
            x[x.isinf()] = torch.nan
            wanted, got = exact(x.double()), fast(x)
            assert torch.equal(got.isnan(), wanted.isnan()), name
            assert not wanted.isnan().all()
            finite = wanted.isfinite()
            assert ((got - wanted)[finite].abs() <= 1e-4 * wanted[finite].abs().max()).all(), name


def test_winograd_keeps_weights_that_are_not_finite():
    torch.manual_seed(0)
    module, x = nn.Conv2d(16, 20, 3, padding=1).eval(), torch.randn(2, 16, 21, 21)
    with torch.no_grad():
        module.weight[3, 5, 1, 1], module.weight[19, 0, 0, 2] = torch.nan, torch.inf
        wanted = compiled(module, x, None, winograd=False)(x)
        got = compiled(module, x, None)(x)
        assert torch.equal(got.isnan(), wanted.isnan())
        assert torch.equal(got.isinf(), wanted.isinf())
        torch.testing.assert_close(got[:, :3], module(x)[:, :3])


#: Convolutions by Winograd's method whose results are interleaved with others.
INTERLEAVED = {
    "a phase of four": nn.ConvTranspose2d(24, 17, 5, 2, 2, output_padding=1),
    "a phase of four, cut": nn.ConvTranspose2d(24, 20, 5, 2, 2),
    "all phases": nn.ConvTranspose2d(24, 16, 6, 2, 2),
    "three apart": nn.ConvTranspose2d(24, 16, 7, 3, 2),
    "features as phases": nn.Sequential(nn.Conv2d(24, 36, 3, padding=1), nn.PixelShuffle(2)),
    "features as 3 by 3 phases": nn.Sequential(nn.Conv2d(24, 36, 3, padding=1), nn.PixelShuffle(3)),
    "and more behind": nn.Sequential(nn.ConvTranspose2d(24, 16, 5, 2, 2, 1), nn.BatchNorm2d(16), nn.GELU()),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", INTERLEAVED)
def test_winograd_interleaves(target, name):
    torch.manual_seed(0)
    module = INTERLEAVED[name].eval()
    exact = copy.deepcopy(module).double()
    with torch.no_grad():
        fast, plain = (compiled(module, torch.randn(1, 24, 9, 8), target, winograd=w) for w in (True, False))
        assert kinds(fast) == kinds(plain)
        for batch, height, width in (
            (1, 30, 30),
            (2, 7, 9),
            (3, 12, 5),
            (1, 6, 35),
            (2, 1, 1),
            (0, 8, 8),
            (1, 33, 65),
        ):
            x = torch.randn(batch, 24, height, width)
            wanted, got = exact(x.double()), fast(x)
            assert got.shape == wanted.shape
            assert ((got - wanted).abs() <= 2e-5).all(), (batch, height, width)
        assert not torch.equal(fast(x), plain(x))
        for image in SPECIALS.values():
            wanted, got = plain(image), fast(image)
            assert torch.equal(got.isnan(), wanted.isnan())
            finite = wanted.isfinite()
            largest = max(float(image[image.isfinite()].abs().max()) if image.isfinite().any() else 0, 1)
            assert ((got - wanted)[finite].abs() <= 6e-5 * largest).all()


@pytest.mark.parametrize("target", TARGETS)
def test_transposed_convolutions_multiply_nothing_between_elements(target):
    torch.manual_seed(0)
    for module in (nn.ConvTranspose1d(6, 8, 3, 2, 1), nn.ConvTranspose1d(6, 8, 16, 8, 4)):
        module, x = module.eval(), torch.randn(2, 6, 37)
        x[0, 3, 4], x[1, 0, 36], x[1, 5, 0] = torch.nan, torch.inf, -torch.inf
        with torch.no_grad():
            fast = compiled(module, x, target)
            for line in (x, x[:, :, :5].contiguous(), torch.randn(0, 6, 9)):
                wanted, got = module(line), fast(line)
                for same in (torch.isnan, torch.isposinf, torch.isneginf):
                    assert torch.equal(same(got), same(wanted))


@pytest.mark.parametrize("target", TARGETS)
def test_a_weight_that_is_no_number_stays_where_it_is_used(target):
    torch.manual_seed(0)
    module = nn.ConvTranspose1d(6, 8, 4, 2, 1).eval()
    with torch.no_grad():
        module.weight[2, 3, 1] = torch.nan
        x = torch.randn(2, 6, 37)
        wanted, got = module(x), compiled(module, x, target)(x)
    # Away from the ends, where zeros of the padding are multiplied, every second result of one
    # feature has met it.
    inside = slice(2, -2)
    assert wanted[:, 3, inside].isnan().any()
    assert not wanted[:, 3, inside].isnan().all()
    assert torch.equal(got[..., inside].isnan(), wanted[..., inside].isnan())


def test_transposed_convolutions_of_a_fixed_size():
    module, x = nn.ConvTranspose1d(8, 16, 4, 2, 1).eval(), torch.randn(1, 8, 20)
    with torch.no_grad():
        torch.testing.assert_close(
            disc.optimize(module, x, dims="static")(x), module(x), rtol=1e-4, atol=1e-5
        )


def test_phases_of_transposed_convolutions_are_products():
    module, x = nn.ConvTranspose1d(8, 16, 4, 2, 1).eval(), torch.randn(1, 8, 20)
    # Each stores its results where they belong.
    assert kinds(compiled(module, x, None)) == {"matmul": 2}


def test_padding_is_zero_and_not_a_number_stays_in_its_windows():
    module = depthwise(nn.Conv2d, 2, 3).eval()
    x = torch.randn(1, 2, 20, 20)
    x[0, 1, 4, 5], x[0, 0, 19, 0] = torch.nan, torch.inf
    with torch.no_grad():
        fast = compiled(module, x, None)
        for image in (x, x[:, :, :, :9].contiguous()):
            wanted, got = module(image), fast(image)
            assert torch.equal(got.isnan(), wanted.isnan())
            assert torch.equal(got.isinf(), wanted.isinf())
        pool = nn.MaxPool2d(3, 1, 1)
        assert torch.equal(compiled(pool, x, None)(x).isnan(), pool(x).isnan())
