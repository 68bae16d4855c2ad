"""Reads which products of f32 tensors a CUDA device may compute from operands rounded to tf32.

The rule is that of torch, and is read when a module is compiled: matmuls are exact unless the user
allows tf32, convolutions and recurrent layers are rounded unless the user forbids it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .precision import process_precision


@dataclass(frozen=True)
class FloatRules:
    """For each kind of product "ieee" or "tf32", the precision of its operands."""

    matmul: str
    convolution: str
    recurrent: str


def float_rules() -> FloatRules:
    """The rules in force in this process."""
    cudnn = torch.backends.cudnn
    return FloatRules(
        "tf32" if process_precision() == "high" else "ieee",
        _of(getattr(cudnn, "conv", None), lambda: cudnn.allow_tf32),
        _of(getattr(cudnn, "rnn", None), lambda: cudnn.allow_tf32),
    )


def _of(switches, allows_tf32) -> str:
    # Up to torch 2.8 there is only the flag; later ones refuse to read it where a program has set
    # both.
    if switches is not None and hasattr(switches, "fp32_precision"):
        return "tf32" if switches.fp32_precision == "tf32" else "ieee"
    return "tf32" if allows_tf32() else "ieee"
