"""Tells which nodes of a graph draw random numbers."""

from __future__ import annotations

import torch

#: Arguments that switch the randomness of an op off, if they are 0 or false.
_SWITCHES = ("dropout_p", "dropout", "train", "training")
#: Ops around a random one of a checkpoint: the first keeps the state of the generator that it drew
#: by, the second draws by that state once more.
DRAWN_AGAIN = ("run_and_save_rng_state", "run_with_rng_state")


def draws(node: torch.fx.Node) -> bool:
    """Returns true if a node draws from torch's generator: dropout does only in training mode."""
    if str(node.target) in DRAWN_AGAIN:
        return True
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    # ``p`` of another op (``bernoulli``) is the probability of what is drawn.
    switches = (*_SWITCHES, "p") if "dropout" in node.target._opname else _SWITCHES
    for i, argument in enumerate(node.target._schema.arguments):
        if argument.name not in switches:
            continue
        default = node.kwargs.get(argument.name, argument.default_value)
        if (node.args[i] if i < len(node.args) else default) in (0, False, None):
            return False
    return True
