"""Describes an attribute of a module that a call changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..symbolic.source_lines import Place


@dataclass
class Change:
    """One attribute that a call changed.

    ``kind``: a parameter, a buffer, a submodule, or a plain attribute.
    """

    module: torch.nn.Module
    name: str
    attribute: str
    kind: str
    then: Any
    now: Any
    place: Place | None
