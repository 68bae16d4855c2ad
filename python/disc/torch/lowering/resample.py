"""Resampling of torch: interpolation to other sizes, and sampling at positions."""

from __future__ import annotations


def _sizes_and_scales(b, n: int, scales, more) -> tuple[list, list]:
    """The sizes of the result, and the scales: the .vec forms give a list, the others one number
    per axis.
    """
    given = list(scales) if isinstance(scales, (list, tuple)) else [scales, *more]
    return b.shape[-n:], (given + [None] * n)[:n]


def upsample_nearest(n: int, exact: bool = False):
    # torch has a kernel that copies or doubles the cells of two axes, whatever the scale is.
    copies = [1, 2] if n == 2 and not exact else []
    form = {"coordinates": "centers" if exact else "asymmetric", "rounding": "floor", "exact": copies}

    def entry(b, x, size=None, scales=None, *more):
        sizes, scales = _sizes_and_scales(b, n, scales, more)
        return b.compose("resize_nearest", x, *scales, sizes=sizes, **form)

    return entry


def _coordinates(align_corners: bool) -> str:
    return "align_corners" if align_corners else "half_pixel"


def upsample_linear(n: int):
    def entry(b, x, size, align_corners, scales=None, *more):
        sizes, scales = _sizes_and_scales(b, n, scales, more)
        form = {"sizes": sizes, "coordinates": _coordinates(align_corners)}
        # torch copies the cells of an axis that stays as long as it is, whatever the scale is.
        return b.compose("resize_linear", x, *scales, exact=[1], **form)

    return entry


def upsample_cubic(b, x, size, align_corners, scales=None, *more):
    sizes, scales = _sizes_and_scales(b, 2, scales, more)
    return b.compose("resize_cubic", x, *scales, sizes=sizes, coordinates=_coordinates(align_corners))


def affine_grid(b, theta, size, align_corners):
    return b.compose("affine_grid", theta, sizes=b.shape[1:-1], align_corners=align_corners)


_INTERPOLATIONS = ("linear", "nearest", "cubic")
_BEYOND = ("zeros", "border", "reflection")


def grid_sample(b, x, grid, mode=0, padding=0, align_corners=False):
    if len(x.shape) != 4:
        raise b.unsupported("grid_sampler: only images with two spatial axes are supported")
    form = {"interpolation": _INTERPOLATIONS[mode], "beyond": _BEYOND[padding]}
    return b.compose("grid_sample", x, grid, align_corners=bool(align_corners), **form)


TABLE = {
    "aten.upsample_nearest1d.default": upsample_nearest(1),
    "aten.upsample_nearest1d.vec": upsample_nearest(1),
    "aten.upsample_nearest2d.default": upsample_nearest(2),
    "aten.upsample_nearest2d.vec": upsample_nearest(2),
    "aten.upsample_nearest3d.vec": upsample_nearest(3),
    "aten._upsample_nearest_exact1d.vec": upsample_nearest(1, exact=True),
    "aten._upsample_nearest_exact2d.vec": upsample_nearest(2, exact=True),
    "aten.upsample_linear1d.vec": upsample_linear(1),
    "aten.upsample_bilinear2d.vec": upsample_linear(2),
    "aten.upsample_bilinear2d.default": upsample_linear(2),
    "aten.upsample_trilinear3d.vec": upsample_linear(3),
    "aten.upsample_bicubic2d.vec": upsample_cubic,
    "aten.upsample_bicubic2d.default": upsample_cubic,
    "aten.affine_grid_generator.default": affine_grid,
    "aten.grid_sampler_2d.default": grid_sample,
    "aten.grid_sampler.default": grid_sample,
}
