"""Containers of transformers as pytrees: caches of keys and values, as arguments and as results.

A cache is its tensors; what else it notes (types of layers, a window, flags) must be the same in
each call, as its structure. The number of words that a layer has seen and no longer holds, after
its window, is the length of a tensor that is read by nobody: a size.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..compat import children_of

#: Set by the layer itself, out of its other attributes.
_WINDOW = "_sliding_window_tensor"
_SEEN = "cumulative_length"
_ALL_HELD = "as many as there are keys"
#: Stands for ``_SEEN``: a tensor with one element for each word that was seen and is not held.
_DROPPED = "dropped"
#: The number of words that a static layer with a window has seen, and the tensor for it.
_COUNTED, _COUNT = "cumulative_length_int", "count"
#: The method that a layer in a trace answers itself.
_ANSWERS = "get_mask_sizes"


def register(value) -> bool:
    """Makes the class of ``value`` a pytree,
    if it is one that this file knows; False if it is not.
    """
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
    """Says how a cache grows, which no compiled call asks: two caches do not differ by it."""

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
    """Splits a layer into its data and the rest."""
    held, rest = {}, {}
    for name, value in vars(layer).items():
        if name in (_WINDOW, _ANSWERS):
            continue
        if name == _SEEN and (dropped := _dropped(layer)) is not None:
            held[_DROPPED] = torch.zeros(dropped, dtype=torch.bool)
        elif name == _COUNTED and isinstance(value, (int, torch.SymInt)):
            held[_COUNT] = torch.zeros(value, dtype=torch.bool)
        elif name == _SEEN and isinstance(value, int) and value == _length(layer):
            rest[name] = _ALL_HELD
        elif any(isinstance(x, (torch.Tensor, torch.SymInt)) for x in pytree.tree_leaves(value)):
            held[name] = value
        else:
            rest[name] = value
    return dict(sorted(held.items())), (type(layer), tuple(sorted(rest.items(), key=lambda pair: pair[0])))


def _dropped(layer) -> int | None:
    """The number of words that a layer has seen and no longer holds; None,
    if it does not hold what its window asks for.
    """
    seen, window = vars(layer)[_SEEN], getattr(layer, "sliding_window", None)
    keys = getattr(layer, "keys", None)
    if type(layer).__name__ != "DynamicSlidingWindowLayer" or not isinstance(seen, int):
        return None
    if type(keys) is not torch.Tensor or keys.dim() < 2 or getattr(layer, "record_past", False):
        return None
    return seen - keys.shape[-2] if keys.shape[-2] == min(seen, window - 1) else None


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
    dropped = vars(made).pop(_DROPPED, None)
    if dropped is not None:
        made.cumulative_length = made.keys.shape[-2] + dropped.shape[0]
        if isinstance(made.cumulative_length, torch.SymInt):
            setattr(made, _ANSWERS, functools.partial(_mask_sizes, made))
    if (count := vars(made).pop(_COUNT, None)) is not None:
        made.cumulative_length_int = count.shape[0]
    if vars(made).get(_SEEN) == _ALL_HELD:
        made.cumulative_length = _length(made)
    if hasattr(made, "sliding_window"):
        made._sliding_window_tensor = torch.tensor(made.sliding_window, dtype=torch.long)
    return made


def leaves_of_caches(spec: pytree.TreeSpec, start: int = 0) -> list[int]:
    """The leaves that are in a cache."""
    if isinstance(spec.context, tuple) and isinstance(spec.context[-1] if spec.context else None, _Options):
        return list(range(start, start + spec.num_leaves))
    found = []
    for child in children_of(spec):
        found += leaves_of_caches(child, start)
        start += child.num_leaves
    return found


def _mask_sizes(layer, query_length) -> tuple:
    """Answers ``get_mask_sizes`` for a layer that holds what its window asks for,
    without a question about sizes.
    """
    held = layer.keys.shape[-2]
    return held + query_length, layer.cumulative_length - held


def difference(found: pytree.TreeSpec, wanted: pytree.TreeSpec, path: str = "") -> tuple[str, str, str]:
    """The first place where two structures differ, and what is there in each."""
    ours, theirs = children_of(found), children_of(wanted)
    if found.type != wanted.type or len(ours) != len(theirs):
        return path, _kind(found), _kind(wanted)
    if found.context != wanted.context:
        return _context_difference(found, wanted, path)
    names = found.context if found.type is dict else range(len(ours))
    pairs = ((n, a, b) for n, a, b in zip(names, ours, theirs, strict=True) if a != b)
    name, a, b = next(pairs)
    return difference(a, b, f"{path}.{name}")


def _kind(spec: pytree.TreeSpec) -> str:
    if spec.type is None:
        return "a tensor or a constant"
    return f"{spec.type.__name__} of {len(children_of(spec))}"


def _context_difference(found, wanted, path: str) -> tuple[str, str, str]:
    a, b = found.context, wanted.context
    if isinstance(a, tuple) and len(a) == 3 and isinstance(a[2], _Options):
        for i, (ours, theirs) in enumerate(zip(a[1], b[1], strict=True)):
            if ours[0] is not theirs[0]:
                return f"{path}.{i}", ours[0].__name__, theirs[0].__name__
            noted, other = dict(ours[1]), dict(theirs[1])
            for name in {**noted, **other}:
                values = [repr(notes.get(name, "missing")) for notes in (noted, other)]
                if values[0] != values[1]:
                    return f"{path}.{i}.{name}", *values
    if found.type is dict:
        return path, f"dict with the keys {list(a)}", f"one with {list(b)}"
    return path, f"{_kind(found)} ({a!r})", f"{_kind(wanted)} ({b!r})"
