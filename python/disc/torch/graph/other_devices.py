"""Finds the nodes of a graph that are on another device than the module, which torch runs.

A tensor elsewhere that is made of sizes, constants and scalars alone (a mask that a module makes on
the CPU and moves to its GPU) is an exception: compiled code computes it on the device of the
module, as long as nothing but compiled code reads it.

Invariant: no compiled node reads a tensor that torch has on another device, and none gives one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch
from torch.utils import _pytree as pytree

from .exported import Traced

#: Parts of the names of ops that move tensors.
_MOVES = ("to", "_to_copy", "copy", "copy_", "type_as", "cpu", "cuda")


def nodes_elsewhere(
    traced: Traced, device: torch.device, left: Collection[torch.fx.Node] = (), is_part: bool = False
) -> dict[torch.fx.Node, str]:
    """The nodes that torch runs since they give or read tensors on other devices than ``device``,
    and why; with constants and weights elsewhere that are results.

    ``left`` are nodes that torch runs for other reasons. The results of a part of a graph go only
    to compiled code.
    """
    places = {node: _device(node.meta.get("val"), device) for node in traced.graph.nodes}
    if all(place is None for place in places.values()):
        return {}
    found: dict[torch.fx.Node, str] = {}
    returned = () if is_part else {*traced.results, *(value for _, value in traced.assignments)}
    for node, place in places.items():
        if place is not None and node in returned and node not in traced.inputs:
            found[node] = f"the module returns a tensor on {place}"
    while (new := dict(_next(traced.graph, places, {*found, *left}))) and new.keys() - found.keys():
        found |= new
    return {node: why for node, why in found.items() if node not in left}


def _next(graph: torch.fx.Graph, places: dict, left: set) -> Iterator[tuple[torch.fx.Node, str]]:
    """The nodes that belong to torch, since those in ``left`` do."""
    made: set[torch.fx.Node] = set()
    for node in graph.nodes:
        place = places[node]
        if node.op == "placeholder" or node.op == "get_attr":
            made.add(node)
        if node.op != "call_function":
            continue
        sources = [source for source in node.all_input_nodes if _is_tensor(source)]
        read = next((places[s] for s in sources if s in left and places[s] is not None), None)
        is_made = place is not None and all(s in made and places[s] is not None for s in sources)
        if is_made:
            made.add(node)
        if read is None and (place is None or is_made):
            continue
        left.add(node)
        if place is None:
            yield node, f"it {'moves a tensor from' if _moves(node) else 'reads a tensor on'} {read}"
        else:
            arrives = _moves(node) and any(places[s] is None for s in sources)
            yield node, f"it {'moves a tensor to' if arrives else 'computes on'} {place}"
    for node in made:
        if node.op == "call_function" and not left.isdisjoint(node.users):
            yield node, f"it computes on {places[node]}"


def _device(val, device: torch.device) -> torch.device | None:
    """The other device of which a tensor of ``val`` is; a meta tensor stands for a number."""
    if type(val) is torch._subclasses.FakeTensor:
        return val.fake_device if val.fake_device not in (device, _META) else None
    if isinstance(val, (list, tuple)):
        found = (_device(part, device) for part in pytree.tree_leaves(val))
        return next((place for place in found if place is not None), None)
    if isinstance(val, torch.Tensor):
        return val.device if val.device not in (device, _META) else None
    return None


_META = torch.device("meta")


def _is_tensor(node: torch.fx.Node) -> bool:
    val = node.meta.get("val")
    return isinstance(val, torch.Tensor) or (isinstance(val, (list, tuple)) and bool(val))


def _moves(node: torch.fx.Node) -> bool:
    return getattr(node.target, "_opname", None) in _MOVES
