"""Names torch's element types, and chooses the types of results as torch does."""

from __future__ import annotations

import torch

from ...core.errors import UnsupportedOp
from ...lowering.dtypes import category

NAMES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.bool: "i1",
}
DTYPES = {name: dtype for dtype, name in NAMES.items()}


def name_of(dtype: torch.dtype) -> str:
    """Our name of a torch dtype.

    >>> name_of(torch.bfloat16)
    'bf16'
    """
    if dtype not in NAMES:
        raise UnsupportedOp(f"tensors of type {dtype} are not supported", code="E0401")
    return NAMES[dtype]


class TorchPromotion:
    """The promotion rules of torch, as ``disc.lowering.dtypes.Promotion`` wants them."""

    @staticmethod
    def default_float() -> str:
        return NAMES[torch.get_default_dtype()]

    @classmethod
    def scalar_type(cls, value) -> str:
        if isinstance(value, bool):
            return "i1"
        return cls.default_float() if isinstance(value, float) else "i64"

    @staticmethod
    def promote(tensors: list[str], scalars: list[str], numbers: list[str]) -> str:
        """``torch.result_type`` of tensors with dimensions, tensors without,
        and Python numbers, given by type.

        A group of lower standing changes the type only where its category (bool, integer, float) is
        higher.

        >>> promote = TorchPromotion.promote
        >>> promote(["f16"], ["f32"], ["i64"]), promote(["i32"], [], ["f32"])
        ('f16', 'f32')
        >>> promote([], ["f64"], ["f32"])
        'f64'
        """
        result: str | None = None
        for group in (tensors, scalars, numbers):
            lower: str | None = None
            for name in group:
                lower = _join(lower, name)
            if result is None:
                result = lower
            elif lower is not None and category(lower) > category(result):
                result = _join(result, lower)
        if result is None:
            raise ValueError("nothing to promote")
        return result


def _join(a: str | None, b: str | None) -> str | None:
    """The promoted type of two types of equal standing."""
    if a is None or b is None:
        return a or b
    return a if a == b else NAMES[torch.promote_types(DTYPES[a], DTYPES[b])]
