"""Counts a write to an argument once below AOTAutograd, whose wrapper counts it too."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.autograd.grad_mode import _unsafe_preserve_version_counter


def counted_by_aot(call: Callable, metadata, graph: torch.fx.Graph) -> Callable:
    """``call``, the function of a graph of AOTAutograd's, which leaves the versions of the
    arguments that the wrapper counts as they were.
    """
    counted = metadata.mutated_graph_handled_indices_seen_by_autograd
    arguments = sum(node.op == "placeholder" for node in graph.nodes)
    if not counted or len(metadata.input_info) != arguments:
        # Other arguments than the wrapper's: parts of tensor subclasses, or tokens of effects.
        return call

    def run(*args):
        kept = _unsafe_preserve_version_counter(tuple(args[i] for i in counted if not args[i].is_inference()))
        results = call(*args)
        # A call that raised may have written: its count stays.
        kept.__exit__()
        return results

    return run
