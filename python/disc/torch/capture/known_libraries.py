"""Recognizes lines of transformers and torch whose questions about sizes change no result."""

from __future__ import annotations

import linecache
import os
import re
from pathlib import Path

from ..symbolic.source_lines import TORCH, Place

#: Python code inside torch that branches like a model does.
MODEL_LIKE = (os.path.join(TORCH, "nn") + os.sep,)


def resamples_all(place: Place | None) -> bool:
    """Whether a line leaves out what changes nothing: vision models of transformers keep embeddings of positions for images of
    the size that they were made for, and resample them to that very size else. Others may mean something else by such a line."""
    if place is None or "transformers" not in Path(place[0]).parts:
        return False
    return "num_patches == num_positions and height == width" in linecache.getline(*place)


def is_dropped(place: Place | None) -> bool:
    """Whether what a line asks for is never used while a model is traced: transformers cuts a mask to see what it may leave out,
    and leaves out nothing then."""
    if place is None or os.path.basename(place[0]) != "masking_utils.py":
        return False
    asked, after = (
        "if padding_mask is not None and padding_mask.shape[-1] > kv_length:",
        "padding_mask = padding_mask[:, mask_indices]",
    )
    return asked in linecache.getline(*place) and after in linecache.getline(place[0], place[1] + 2)


def is_harmless(place: Place | None, causal_free: bool) -> bool:
    """Branches of well-known libraries whose two sides compute the same at length 0 and 1, or one of which is an error.

    transformers asks ``q_length > 1`` only to switch causal masking off for one query: nothing changes where no attention is
    causal. Its ``q_length == 1 and not is_torchdynamo_compiling()`` is never taken while a model is traced.
    """
    source = linecache.getline(*place) if place is not None else ""
    if re.search(r"if size_prods == 1:", source) and place[0].startswith(MODEL_LIKE):
        return True
    if re.search(r"q_length == 1 and not is_torchdynamo_compiling\(\)", source):
        return True
    return causal_free and re.search(r"is_causal = (query\.shape\[2\]|q_length) > 1 and ", source) is not None
