"""Computes the floor of a call: the least time that bytes, operations and launches allow."""

from __future__ import annotations

import torch
from torch import nn


def tensor_bytes(tensors) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def work(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[int, int]:
    """Floating-point operations of products and convolutions in a call, and the bytes of weights
    that it reads at least: of a table of embeddings, the rows that it picks, each once.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    rows: dict[int, int] = {}

    def picks(table: nn.Module, arguments: tuple) -> None:
        rows[id(table.weight)] = rows.get(id(table.weight), 0) + arguments[0].unique().numel()

    tables = [part for part in module.modules() if isinstance(part, nn.Embedding)]
    hooks = [table.register_forward_pre_hook(picks) for table in tables]
    counter = FlopCounterMode(display=False)
    try:
        with counter, sdpa_kernel(SDPBackend.MATH):
            module(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return counter.get_total_flops(), _weight_bytes(module, rows)


def _weight_bytes(module: nn.Module, rows: dict[int, int]) -> int:
    counted: dict[int, int] = {}
    for part in module.modules():
        for parameter in part.parameters(recurse=False):
            size = parameter.numel() * parameter.element_size()
            if isinstance(part, nn.Embedding):
                picked = rows.get(id(parameter), 0) * parameter.shape[1] * parameter.element_size()
                size = min(size, picked)
            # A table that is also the matrix of the last layer is read as a matrix.
            counted[id(parameter)] = max(size, counted.get(id(parameter), 0))
    return sum(counted.values())


def floor(ceilings: dict, dtype: str, moved: int, flops: int, kernels: float | None) -> dict:
    """The floor of a call in microseconds, and the resource that sets it; terms whose ceiling was
    not measured are left out.
    """
    terms: dict[str, float] = {}
    if ceilings.get("copy_gbs"):
        terms["bytes"] = moved / ceilings["copy_gbs"] / 1e3
    if rate := (ceilings.get("products") or {}).get(dtype):
        terms["products"] = flops / rate / 1e6
    if kernels and ceilings.get("kernel_us"):
        terms["launches"] = kernels * ceilings["kernel_us"]
    bound = max(terms, key=lambda name: terms[name], default=None)
    return {
        "us": round(terms[bound], 2) if bound else None,
        "bound": bound,
        "terms_us": {name: round(us, 2) for name, us in terms.items()},
    }
