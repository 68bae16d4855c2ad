"""Tells which nodes of a graph draw random numbers."""

from __future__ import annotations

import torch

#: Arguments that switch the randomness of an op off, if they are 0 or false.
_SWITCHES = ("p", "dropout_p", "dropout", "train", "training")


def draws(node: torch.fx.Node) -> bool:
    """Returns true if a node draws from torch's generator: dropout does in training mode alone."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    for i, argument in enumerate(node.target._schema.arguments):
        if argument.name in _SWITCHES:
            given = (
                node.args[i] if i < len(node.args) else node.kwargs.get(argument.name, argument.default_value)
            )
            if given in (0, False, None):
                return False
    return True
