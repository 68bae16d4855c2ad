"""Defines what the lowering leaves beside the ops of a program:
how a call's tensors and results belong to them.

It is apart from the lowering, which a capture from disk does not need.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from .model_files import Files

if TYPE_CHECKING:
    import sympy


@dataclass
class Program:
    """Holds what the lowering leaves beside the ops in the builder."""

    #: Names and tensors; the form on disk has no tensors.
    weights: list[tuple[str, torch.Tensor | None]] = field(default_factory=list)
    #: One per leaf of the module's result: an index into the outputs, or a constant.
    outputs: list[tuple[str, Any]] = field(default_factory=list)
    #: Names of parameters and buffers that are inputs, after those of the call: calls change them.
    state: list[str] = field(default_factory=list)
    #: The inputs that are written to, and those of them that have to be contiguous.
    written: list[int] = field(default_factory=list)
    dense: list[int] = field(default_factory=list)
    #: The buffers that are assigned anew: a name, and what it becomes ("value" and an output, or
    #: "input" and an input).
    assigned: list[tuple[str, str, int]] = field(default_factory=list)
    dims: list[list[str]] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    #: Conditions that the compiler's facts cannot say, with their text: checked in Python at each
    #: call.
    checks: list[tuple[sympy.Basic, str]] = field(default_factory=list)
    #: The lines of the model that ask for a fact or a check, as far as they are known.
    asked_at: dict[str, str] = field(default_factory=dict)
    #: The files of the model whose lines the ops have.
    files: Files = field(default_factory=Files)
    operations: int = 0
