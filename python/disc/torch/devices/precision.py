"""Reads how exact torch lets products of float32 be on a GPU."""

from __future__ import annotations

import dataclasses

import torch

from ...core.options import Options


def process_precision() -> str:
    """Returns ``"high"`` if torch may round float32 operands of matmuls to tf32 on a GPU, else
    ``"highest"``.

    That is ``torch.backends.cuda.matmul.fp32_precision``, or ``allow_tf32`` and
    ``torch.set_float32_matmul_precision`` where nobody set it.
    """
    # An older torch has no such setting, and a newer one raises for the older one if both are set.
    asked = getattr(torch.backends.cuda.matmul, "fp32_precision", "none")
    if asked == "none":
        asked = "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    return "high" if asked == "tf32" else "highest"


def with_precision(options: Options) -> Options:
    """The options with torch's precision, where none was chosen and a GPU computes."""
    if options.matmul_precision is not None or options.device in (None, "cpu"):
        return options
    from .float_rules import float_rules

    # Convolutions are matmuls here: where they may not be rounded, nothing is.
    precision = process_precision() if float_rules().convolution == "tf32" else "highest"
    return dataclasses.replace(options, matmul_precision=precision)
