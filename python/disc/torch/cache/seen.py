"""Tells modules apart by what is quick to read: where no module of a structure was asked for, no
capture of one is stored, and no key has to be made to look for it.

Two modules with one key have one structure. The opposite does not matter: it costs the key.
"""

from __future__ import annotations

import hashlib
import sys

import torch

from ..graph import weight_names


def structure_of(module: torch.nn.Module, files: tuple, like: tuple) -> bytes:
    """The hash of the classes of a module's parts, of the kinds of its weights, of ``like``, and of
    the versions of what captures.
    """
    kinds = [f"{type(m).__module__}.{type(m).__qualname__}" for m in module.modules()]
    weights = [(name, type(t).__qualname__, _sizes(t)) for name, t in weight_names.named(module)]
    said = repr((sys.version, str(torch.__version__), files, kinds, weights, like))
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=32).digest()


def _sizes(t: torch.Tensor) -> tuple | None:
    """The type and sizes of a tensor; None for one that has none yet."""
    return (t.dtype, tuple(t.shape)) if type(t) in weight_names.PLAIN else None
