"""The types of elements that are measured; ``tf32`` is f32 whose products may round to tf32."""

from __future__ import annotations

import torch

#: By name: the type of tensors, and the largest difference from f64 that is no error, relative to
#: the largest result.
DTYPES: dict[str, tuple[torch.dtype, float]] = {
    "f32": (torch.float32, 1e-4),
    "tf32": (torch.float32, 1e-2),
    "f16": (torch.float16, 1e-2),
    "bf16": (torch.bfloat16, 5e-2),
}


def apply_tf32(name: str) -> None:
    """Allows tf32 in torch's products and convolutions for ``tf32``, and forbids it otherwise."""
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    torch.backends.cudnn.allow_tf32 = name == "tf32"


def cast(tensors, name: str) -> tuple[torch.Tensor, ...]:
    """The tensors, those of floats in the type ``name``."""
    return tuple(t.to(DTYPES[name][0]) if t.is_floating_point() else t for t in tensors)
