"""Decomposition of the gradients of ``grid_sample`` of images."""

from __future__ import annotations

import torch

aten = torch.ops.aten
BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)
#: The parameter of torch's cubic polynomials.
_A = -0.75


def _backward(grad, x, grid, interpolation_mode, padding_mode, align_corners, output_mask):
    """Of the images [n, features, height, width] and of the grid [n, rows, columns, 2]."""
    dtype, wide = grad.dtype, _wide(grad.dtype)
    x, grid = x.to(wide), grid.to(wide)
    features, sizes = x.shape[1], x.shape[2:]
    # A grid names the column first.
    axes = [_Axis(grid[..., 1 - i], sizes[i], padding_mode, align_corners) for i in range(2)]
    if interpolation_mode != BICUBIC:
        for axis in axes:
            axis.move_inside()
    # Axes of what follows: n, features, taps of the rows, taps of the columns, places.
    rows, columns = axes[0].taps(interpolation_mode, 3), axes[1].taps(interpolation_mode, 2)
    is_inside = rows.is_inside & columns.is_inside
    cells = torch.where(is_inside, rows.cell * sizes[1] + columns.cell, 0)
    cells = cells.flatten(2).expand(-1, features, -1)
    of_each = grad.to(wide).flatten(2)[:, :, None, None]
    planes = x.flatten(2)
    of_x = of_grid = None
    if output_mask[0]:
        shares = torch.where(is_inside, of_each * (rows.weight * columns.weight), 0)
        of_x = torch.zeros_like(planes).scatter_add(2, cells, shares.flatten(2))
        of_x = of_x.view(x.shape).to(dtype)
    if output_mask[1]:
        of_grid = torch.zeros_like(grid)
        if interpolation_mode != NEAREST:
            read = planes.gather(2, cells).view([*planes.shape[:2], *is_inside.shape[2:]])
            of_weight = torch.where(is_inside, of_each * read, 0).sum(1, keepdim=True)
            slopes = rows.slope * columns.weight, rows.weight * columns.slope
            of_place = [(of_weight * slope).sum([1, 2, 3]).view(grid.shape[:3]) for slope in slopes]
            of_grid = torch.stack(
                [part * axis.speed for part, axis in zip(of_place, axes, strict=True)][::-1], -1
            )
        of_grid = of_grid.to(dtype)
    return of_x, of_grid


def _wide(dtype):
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


class _Taps:
    """The cells that the places of an axis read, their weights, and the derivatives of these by the
    place: [n, 1, taps, 1, places] or [n, 1, 1, taps, places], where ``absent`` is the axis of the
    other's taps.
    """

    def __init__(self, size, absent, cells, weights, slopes):
        places, self.weight, self.slope = (
            torch.stack(parts, 1).flatten(2).unsqueeze(1).unsqueeze(absent)
            for parts in (cells, weights, slopes)
        )
        self.is_inside = (places >= 0) & (places < size)
        self.cell = torch.where(self.is_inside, places, 0).to(torch.int64)


class _Axis:
    """The places of a grid along an axis of ``size`` cells; ``speed`` is their derivative by the
    coordinates, which reach from -1 to 1.
    """

    def __init__(self, coordinates, size, padding_mode, align_corners):
        self.size, self.padding_mode, self.align_corners = size, padding_mode, align_corners
        self.place = ((coordinates + 1) * (size - 1) if align_corners else (coordinates + 1) * size - 1) / 2
        self.speed = torch.ones_like(coordinates) * ((size - 1) if align_corners else size) / 2

    def move_inside(self):
        """Moves places beyond the border inside, as the padding mode has it."""
        self.place, sign = self._inside(self.place)
        self.speed = self.speed * sign

    def _inside(self, place):
        """Each place inside the image, and the derivative of that by the place."""
        if self.padding_mode == ZEROS:
            return place, torch.ones_like(place)
        last = self.size - 1
        sign = torch.ones_like(place)
        if self.padding_mode == REFLECTION:
            low, span = (0.0, torch.sym_max(last, 1)) if self.align_corners else (-0.5, self.size)
            sign = torch.where(place < low, -1.0, 1.0)
            distance = (place - low).abs()
            rest, is_odd = distance.remainder(span), (distance / span).floor().remainder(2) != 0
            place = torch.where(is_odd, span - rest, rest) + low
            sign = torch.where(is_odd, -sign, sign)
        # A place on the border counts as one beyond it.
        sign = torch.where((place > 0) & (place < last), sign, 0.0)
        return place.clamp(min=0.0).clamp(max=last), sign

    def taps(self, interpolation_mode, absent):
        one = torch.ones_like(self.place)
        if interpolation_mode == NEAREST:
            return _Taps(self.size, absent, [self.place.round()], [one], [one - one])
        low = self.place.floor()
        t = self.place - low
        if interpolation_mode == BILINEAR:
            return _Taps(self.size, absent, [low, low + 1], [1 - t, t], [-one, one])
        # A cell that is moved inside keeps its weight.
        cells = [self._inside(low + i)[0] for i in range(-1, 3)]
        return _Taps(self.size, absent, cells, *zip(*_cubic(t), strict=True))


def _cubic(t):
    """Weights of the cells at distance t + 1, t, 1 - t and 2 - t, with their derivatives by t."""

    def near(x):
        return ((_A + 2) * x - (_A + 3)) * x * x + 1, (3 * (_A + 2) * x - 2 * (_A + 3)) * x

    def far(x):
        return ((_A * x - 5 * _A) * x + 8 * _A) * x - 4 * _A, (3 * _A * x - 10 * _A) * x + 8 * _A

    behind = [(weight, -slope) for weight, slope in (near(1 - t), far(2 - t))]
    return [far(t + 1), near(t), *behind]


OWN = {aten.grid_sampler_2d_backward.default: _backward}
