"""Pooling at sizes that one compilation has not seen, beside torch:
windows that end after the input, or in its padding.
"""

from __future__ import annotations

import disc
import pytest
import torch
from torch import nn

SIZES = {
    1: [(20,), (7,), (33,), (12,), (11,), (64,), (4,), (5,), (6,)],
    2: [(20, 24), (7, 9), (33, 12), (11, 10), (14, 15), (4, 5), (6, 31)],
    3: [(8, 9, 10), (7, 7, 7), (11, 6, 13), (5, 12, 4)],
}
#: Window, stride, padding. Between padding and stride, a last window may begin after the input or
#: not, depending on the size.
FORMS = ((3, 2, 1), (2, 2, 0), (3, 2, 0), (3, 3, 1), (2, 3, 1), (4, 3, 2), (4, 1, 2))


def of(name: str, n: int):
    return getattr(nn, f"{name}{n}d")


def pools(n: int):
    for form in FORMS:
        for ceil in (False, True):
            yield of("MaxPool", n)(*form, ceil_mode=ceil)
            yield of("AvgPool", n)(*form, ceil_mode=ceil, count_include_pad=ceil)
        yield of("AvgPool", n)(*form, ceil_mode=True, count_include_pad=False)
    yield of("LPPool", n)(2, 3, 2)
    yield of("LPPool", n)(1, 3, 2, ceil_mode=True)
    yield of("MaxPool", n)(2, 3, 1, dilation=3, ceil_mode=True)
    for out in (1, 3):
        yield of("AdaptiveAvgPool", n)(out)
        yield of("AdaptiveMaxPool", n)(out)


def large():
    """Windows that are cut to the image, taken axis by axis, or side by side."""
    yield nn.AvgPool2d(1280, ceil_mode=True)
    yield nn.AvgPool2d(20, padding=3, ceil_mode=True)
    yield nn.AvgPool2d((40, 17), stride=(30, 5), padding=2, ceil_mode=True, count_include_pad=False)
    yield nn.MaxPool2d(25, padding=2, ceil_mode=True)
    yield nn.AvgPool2d(9, 3, padding=4)
    yield nn.MaxPool2d((11, 10), 1, padding=5)
    yield nn.MaxPool2d((4, 7))
    yield nn.MaxPool2d((2, 3), dilation=3)
    yield nn.MaxPool2d(9, dilation=2)
    yield nn.AvgPool2d((1, 6))
    yield nn.AvgPool2d((5, 1))
    yield nn.LPPool2d(2, 9, ceil_mode=True)


def uneven():
    yield nn.AvgPool2d((1, 3), stride=(2, 1), padding=(0, 1))
    yield nn.AvgPool2d((3, 2), stride=(1, 3), padding=(1, 1), divisor_override=5, ceil_mode=True)
    yield nn.MaxPool2d((2, 3), stride=(3, 1), padding=(1, 0), ceil_mode=True)
    yield nn.AdaptiveAvgPool2d((None, 2))
    yield nn.AdaptiveMaxPool2d((3, 2))


class Together(nn.Module):
    """All pools of one rank: one compilation."""

    def __init__(self, parts):
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x):
        return tuple(part(x) for part in self.parts)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_equals_torch_at_all_sizes(n):
    module = Together([*pools(n), *(uneven() if n == 2 else ())])
    check(module, SIZES[n])


@pytest.mark.parametrize("make", [nn.MaxPool2d, nn.AvgPool2d])
def test_a_last_window_that_ends_behind_the_input_needs_no_padded_copy(make):
    fast = disc.optimize(make(3, 2, ceil_mode=True), torch.randn(2, 3, 24, 27))
    # An average divides by how many elements each window has, which another kernel counts.
    assert disc.report(fast).to_dict()["kernels"] == (1 if make is nn.MaxPool2d else 2)


def test_places_equal_torch_at_all_sizes():
    parts = [nn.MaxPool2d(*form, ceil_mode=True, return_indices=True) for form in FORMS[:5]]
    parts += [nn.AdaptiveMaxPool2d(out, return_indices=True) for out in (1, 3, (2, 4))]
    check(Together(parts), SIZES[2])


def test_places_in_large_windows_equal_torch_at_all_sizes():
    parts = [
        nn.MaxPool2d(17, ceil_mode=True, return_indices=True),
        nn.MaxPool2d((2, 18), stride=(2, 7), padding=(0, 9), ceil_mode=True, return_indices=True),
        nn.MaxPool2d((18, 1), return_indices=True),
        nn.MaxPool2d(9, stride=2, padding=4, dilation=(1, 2), return_indices=True),
        nn.MaxPool2d(16, stride=5, padding=8, ceil_mode=True, return_indices=True),
    ]
    check(Together(parts), [(30, 40), (24, 30), (33, 70), (18, 17), (19, 51)])


def test_large_windows_equal_torch_at_all_sizes():
    check(Together(large()), [(30, 40), (24, 30), (33, 70), (47, 24), (64, 51)])


def test_a_window_of_all_costs_no_more_than_the_image():
    # EfficientNet pools by a window as long as it has features.
    module = nn.AvgPool2d(2560, ceil_mode=True)
    fast = disc.optimize(module, torch.randn(1, 3, 7, 9))
    for size in ((2, 40, 7, 7), (1, 2, 1, 3), (1, 1, 100, 90)):
        x = torch.randn(size)
        torch.testing.assert_close(fast(x), module(x))
    assert disc.report(fast).to_dict()["peak_arena_bytes"] < 100_000


def check(module, sizes):
    torch.manual_seed(0)
    fast = disc.optimize(module, torch.randn(2, 3, *sizes[0]), options=disc.Options(threads=2))
    for batch, size in enumerate(sizes):
        x = torch.randn(batch % 3 + 1, 3, *size)
        # The first feature stays as it is.
        x[0, 1].view(-1)[3::7], x[0, 2].view(-1)[0] = torch.nan, -torch.inf
        wanted, got = module(x), fast(x)
        for part, (a, b) in zip(module.parts, zip(got, wanted, strict=True), strict=True):
            pairs = zip(a, b, strict=True) if isinstance(b, tuple) else [(a, b)]
            for one, other in pairs:
                assert one.shape == other.shape, (part, size)
                torch.testing.assert_close(
                    one, other, equal_nan=True, msg=lambda m, p=part, s=size: f"{p} {s}: {m}"
                )


def test_a_size_too_small_for_a_window_is_refused_as_torch_does():
    module = nn.MaxPool1d(4, 2)
    fast = disc.optimize(module, torch.randn(1, 2, 9))
    with pytest.raises(RuntimeError):
        module(torch.randn(1, 2, 3))
    with pytest.raises(disc.Error):
        fast(torch.randn(1, 2, 3))
