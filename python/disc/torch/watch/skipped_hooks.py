"""Refuses modules of which PyTorch skips hooks: layers of transformers take a path of their own in
evaluation, which calls none of their parts, also where hooks of all modules are on.

Not here: hooks of a part, for which PyTorch leaves that path.
"""

from __future__ import annotations

import torch
import torch.nn.modules.module as modules

from ...core.errors import Error

_KINDS = (torch.nn.TransformerEncoderLayer, torch.nn.MultiheadAttention)


class Skipped(Error):
    """A trace would call hooks that PyTorch does not call."""

    default_code = "E0404"


def refuse_skipped(module: torch.nn.Module) -> None:
    """Raises if hooks of all modules are on that PyTorch skips for a part of ``module``."""
    if not modules._global_forward_hooks and not modules._global_forward_pre_hooks:
        return
    found = next((type(m).__name__ for m in module.modules() if isinstance(m, _KINDS)), None)
    if found is not None:
        raise Skipped(f"hooks of all modules are on, which PyTorch skips for the parts of a {found}")
