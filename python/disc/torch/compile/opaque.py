"""Finds functions of Python in a graph of dynamo's that dynamo was told not to look into."""

from __future__ import annotations

import torch
from torch._dynamo import trace_rules

from ...core.errors import UnsupportedOp

#: Packages whose functions do nothing but compute.
_PURE = ("torch", "einops", "disc")


def refuse_opaque(gm: torch.fx.GraphModule) -> None:
    """Raises for a graph with a function of ``torch._dynamo.allow_in_graph``: a trace would run it
    once, and what it does besides computing would not happen in calls.
    """
    for node in gm.graph.nodes:
        if node.op == "call_function" and id(node.target) in trace_rules._allowed_callable_ids:
            package = (getattr(node.target, "__module__", None) or "").partition(".")[0]
            if package not in _PURE:
                raise UnsupportedOp(
                    f"{getattr(node.target, '__name__', node.target)} runs in each call, as "
                    "torch._dynamo.allow_in_graph says",
                    help="make it an op by torch.library.custom_op, or let dynamo trace it",
                )
