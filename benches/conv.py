"""Convolutions of ResNet-50, MobileNet, conformers, WaveNet-like networks, U-Nets and vocoders at
several sizes.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from case import Case
from torch import nn

#: Sides that a 224 pixel image has at this depth of ResNet-50, and neighbours.
SIDES = {2: (112, 97, 128), 4: (56, 49, 64), 8: (28, 25, 33), 16: (14, 13, 17), 32: (7, 6, 9)}
LENGTHS = (50, 127, 200, 333, 512, 800)

RESNET = (
    ("7x7 stride 2, 3 to 64", {"i": 3, "o": 64, "k": 7, "stride": 2}, (224, 193, 256)),
    ("1x1, 64 to 64", {"i": 64, "o": 64, "k": 1}, SIDES[4]),
    ("3x3, 64", {"i": 64, "o": 64, "k": 3}, SIDES[4]),
    ("1x1, 64 to 256", {"i": 64, "o": 256, "k": 1}, SIDES[4]),
    ("3x3 stride 2, 128", {"i": 128, "o": 128, "k": 3, "stride": 2}, SIDES[4]),
    ("3x3, 128", {"i": 128, "o": 128, "k": 3}, SIDES[8]),
    ("1x1, 512 to 128", {"i": 512, "o": 128, "k": 1}, SIDES[8]),
    ("1x1 stride 2, 512 to 1024", {"i": 512, "o": 1024, "k": 1, "stride": 2}, SIDES[8]),
    ("3x3, 256", {"i": 256, "o": 256, "k": 3}, SIDES[16]),
    ("1x1, 1024 to 256", {"i": 1024, "o": 256, "k": 1}, SIDES[16]),
    ("3x3, 512", {"i": 512, "o": 512, "k": 3}, SIDES[32]),
    ("1x1, 512 to 2048", {"i": 512, "o": 2048, "k": 1}, SIDES[32]),
)
MOBILENET = (
    ("3x3 depthwise, 32", {"i": 32, "o": 32, "k": 3, "groups": 32}, SIDES[2]),
    ("3x3 depthwise stride 2, 96", {"i": 96, "o": 96, "k": 3, "stride": 2, "groups": 96}, SIDES[2]),
    ("3x3 depthwise, 384", {"i": 384, "o": 384, "k": 3, "groups": 384}, SIDES[16]),
    ("1x1, 384 to 96", {"i": 384, "o": 96, "k": 1}, SIDES[16]),
)
LINES = (
    ("conformer: depthwise 31, 256", {"i": 256, "o": 256, "k": 31, "groups": 256}),
    ("conformer: 1 wide, 256 to 512", {"i": 256, "o": 512, "k": 1}),
    ("conformer: 3 stride 2, 80 to 256", {"i": 80, "o": 256, "k": 3, "stride": 2}),
    ("WaveNet: 3 dilated by 4, 64 to 128", {"i": 64, "o": 128, "k": 3, "dilation": 4}),
    ("WaveNet: 3 dilated by 32, 64 to 128", {"i": 64, "o": 128, "k": 3, "dilation": 32}),
)
#: Transposed ones: output features, width and step, and what is cut off at both ends.
VOCODERS = (
    ("HiFi-GAN: transposed 16 by 8, 512 to 256", {"i": 512, "o": 256, "k": 16, "stride": 8}, (50, 127, 200)),
    ("HiFi-GAN: transposed 4 by 2, 128 to 64", {"i": 128, "o": 64, "k": 4, "stride": 2}, (3200, 1111, 6400)),
    ("Encodec: transposed 10 by 5, 256 to 128", {"i": 256, "o": 128, "k": 10, "stride": 5}, (300, 127, 800)),
)
UNETS = (
    ("U-Net: transposed 2x2 by 2, 256 to 128", {"i": 256, "o": 128, "k": 2, "stride": 2}, (28, 25, 56)),
    ("U-Net: transposed 4x4 by 2, 128 to 64", {"i": 128, "o": 64, "k": 4, "stride": 2}, (32, 29, 56)),
)


def layer(kind, i: int, o: int, k: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Module:
    padding = dilation * (k // 2)
    return kind(i, o, k, stride, padding, dilation=dilation, groups=groups).eval()


def flops(axes: int, i: int, o: int, k: int, stride: int = 1, groups: int = 1, dilation: int = 1):
    return lambda side: 2 * o * (i // groups) * k**axes * (-(-side // stride)) ** axes


def transposed(kind, i: int, o: int, k: int, stride: int) -> nn.Module:
    """As many results for each element as they are apart."""
    extra = (k - stride) % 2
    return kind(i, o, k, stride, (k - stride + 1) // 2, output_padding=extra).eval()


def transposed_flops(axes: int, i: int, o: int, k: int, stride: int):
    return lambda side: 2 * o * i * k**axes * side**axes


def cases() -> Iterator[Case]:
    for family, rows in (("ResNet", RESNET), ("MobileNet", MOBILENET)):
        for name, shape, sides in rows:

            def image(side: int, channels=shape["i"]):
                return (torch.randn(1, channels, side, side),)

            sizes = tuple((side,) for side in sides)
            yield Case(f"{family}: {name}", layer(nn.Conv2d, **shape), sizes, image, flops(2, **shape))
    for name, shape in LINES:

        def line(length: int, channels=shape["i"]):
            return (torch.randn(1, channels, length),)

        sizes = tuple((length,) for length in LENGTHS)
        yield Case(name, layer(nn.Conv1d, **shape), sizes, line, flops(1, **shape))
    for rows, kind, axes in ((VOCODERS, nn.ConvTranspose1d, 1), (UNETS, nn.ConvTranspose2d, 2)):
        for name, shape, sides in rows:

            def spread(side: int, channels=shape["i"], axes=axes):
                return (torch.randn(1, channels, *[side] * axes),)

            sizes = tuple((side,) for side in sides)
            yield Case(name, transposed(kind, **shape), sizes, spread, transposed_flops(axes, **shape))
