"""Containers of transformers as pytrees: caches of keys and values, as arguments and as results.

A cache is its tensors; what else it notes (types of layers, a window, flags) must be the same in each call, as its structure.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.utils import _pytree as pytree

#: Set by the layer itself, out of its other attributes.
_WINDOW = "_sliding_window_tensor"
_SEEN = "cumulative_length"
_ALL_HELD = "as many as there are keys"


def register(value) -> bool:
    """Makes the class of ``value`` a pytree, if it is one that this file knows; False if it is not."""
    caches = sys.modules.get("transformers.cache_utils")
    if caches is None or type(value) in pytree.SUPPORTED_NODES:
        return False
    if isinstance(value, caches.EncoderDecoderCache):
        flatten, unflatten, keys = _flatten_pair, _unflatten_pair, ("self", "cross")
    elif isinstance(value, caches.Cache):
        flatten, unflatten, keys = _flatten_cache, _unflatten_cache, None
    else:
        return False

    def with_keys(cache):
        children, context = flatten(cache)
        names = keys or range(len(children))
        return [(pytree.SequenceKey(n), c) for n, c in zip(names, children, strict=True)], context

    pytree.register_pytree_node(type(value), flatten, unflatten, flatten_with_keys_fn=with_keys)
    return True


def flatten(tree) -> tuple[list, pytree.TreeSpec]:
    """``tree_flatten``, for which containers of this file are no leaves."""
    leaves, spec = pytree.tree_flatten(tree)
    while sum(map(register, leaves)):
        leaves, spec = pytree.tree_flatten(tree)
    return leaves, spec


def _flatten_pair(cache):
    context = type(cache), tuple(sorted(cache.is_updated.items()))
    return [cache.self_attention_cache, cache.cross_attention_cache], context


def _unflatten_pair(children, context):
    kind, updated = context
    made = kind.__new__(kind)
    made.self_attention_cache, made.cross_attention_cache = children
    made.is_updated = dict(updated)
    return made


class _Options(dict):
    """How a cache grows, which no compiled call asks: two caches do not differ by it."""

    __hash__ = None

    def __eq__(self, other):
        return isinstance(other, _Options)


def _flatten_cache(cache):
    """One child per layer: its tensors by name."""
    held, notes = zip(*map(_layer, cache.layers), strict=True) if cache.layers else ((), ())
    rest = {name: value for name, value in vars(cache).items() if name != "layers"}
    return list(held), (type(cache), notes, _Options(rest))


def _unflatten_cache(children, context):
    kind, notes, rest = context
    made = kind.__new__(kind)
    vars(made).update(rest)
    made.layers = [_made_layer(held, note) for held, note in zip(children, notes, strict=True)]
    return made


def _layer(layer) -> tuple[dict[str, Any], tuple]:
    """What of a layer is data, and the rest."""
    held, rest = {}, {}
    for name, value in vars(layer).items():
        if name == _WINDOW:
            continue
        if name == _SEEN and isinstance(value, int) and value == _length(layer):
            rest[name] = _ALL_HELD
        elif any(isinstance(x, (torch.Tensor, torch.SymInt)) for x in pytree.tree_leaves(value)):
            held[name] = value
        else:
            rest[name] = value
    return held, (type(layer), tuple(sorted(rest.items(), key=lambda pair: pair[0])))


def _length(layer) -> int | None:
    keys = getattr(layer, "keys", None)
    if not isinstance(keys, torch.Tensor):
        return None
    return keys.shape[-2] if keys.dim() > 1 else 0


def _made_layer(held: dict[str, Any], note: tuple):
    kind, rest = note
    made = kind.__new__(kind)
    vars(made).update(held)
    vars(made).update(rest)
    if vars(made).get(_SEEN) == _ALL_HELD:
        made.cumulative_length = _length(made)
    if hasattr(made, "sliding_window"):
        made._sliding_window_tensor = torch.tensor(made.sliding_window, dtype=torch.long)
    return made
