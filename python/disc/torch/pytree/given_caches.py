"""Gives a call the caches of keys and values back that it passed: a module of transformers writes
to the cache that it gets, and returns it.

A trace notes which cache of the result is which one of the arguments. A call of compiled code makes
a new cache, and the caller's takes over what that one holds.

Invariant: a capture fails where a module changes a cache that it does not return.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...core.errors import Error


def is_cache(value) -> bool:
    """Returns true for a cache of transformers."""
    caches = sys.modules.get("transformers.cache_utils")
    return caches is not None and isinstance(value, (caches.Cache, caches.EncoderDecoderCache))


def caches_in(tree) -> list:
    """The caches in a tree of arguments or results, in order; a pair of them is one."""
    found: list = []
    if (caches := sys.modules.get("transformers.cache_utils")) is not None:
        _collect(tree, (caches.Cache, caches.EncoderDecoderCache), found)
    return found


def _collect(tree, kinds: tuple[type, ...], found: list) -> None:
    if isinstance(tree, kinds):
        found.append(tree)
    elif isinstance(tree, (dict, list, tuple)):
        # Pytrees take several times as long, which counts in each call.
        for value in tree.values() if isinstance(tree, dict) else tree:
            if not isinstance(value, torch.Tensor):
                _collect(value, kinds, found)
    elif type(tree) in pytree.SUPPORTED_NODES:
        leaves = pytree.tree_leaves(tree, is_leaf=lambda value: isinstance(value, kinds))
        found += [leaf for leaf in leaves if isinstance(leaf, kinds)]


class Watched:
    """The caches that a trace passes to a module, and what they held before it."""

    def __init__(self, arguments):
        self._caches = caches_in(arguments)
        self._before = [_state(cache) for cache in self._caches]

    def returned(self, result) -> tuple[int | None, ...]:
        """For each cache of the result: which one of the arguments it is, or None."""
        numbers = {id(cache): i for i, cache in enumerate(self._caches)}
        found = tuple(numbers.get(id(cache)) for cache in caches_in(result))
        for i, (cache, before) in enumerate(zip(self._caches, self._before, strict=True)):
            if i not in found and not _is_same(before, _state(cache)):
                raise Error(
                    f"a {type(cache).__name__} among the arguments is changed and is not returned",
                    code="E0404",
                    help="return the cache, as the models of transformers do with use_cache=True",
                )
        return found if any(number is not None for number in found) else ()


def hand_back(result, arguments, returned: tuple[int | None, ...]):
    """The result with the caches of the caller, which hold what those of the result hold."""
    given = caches_in(arguments)
    made = caches_in(result)
    own = {}
    for cache, number in zip(made, returned, strict=True):
        if number is not None:
            own[id(cache)] = given[number]
            _take_over(given[number], cache)
    if isinstance(result, dict):
        # The usual result, in place: to make it anew costs more than the rest of a call.
        direct = [(name, value) for name, value in result.items() if id(value) in own]
        if len(direct) == len(own):
            for name, value in direct:
                result[name] = own[id(value)]
            return result
    return pytree.tree_map(lambda leaf: own.get(id(leaf), leaf), result, is_leaf=is_cache)


def _state(cache) -> list[tuple[str, Any]]:
    if not hasattr(cache, "layers") or hasattr(cache, "self_attention_cache"):
        inner = [*_state(cache.self_attention_cache), *_state(cache.cross_attention_cache)]
        return [*inner, *cache.is_updated.items()]
    return [item for layer in cache.layers for item in vars(layer).items()]


def _is_same(before: list, after: list) -> bool:
    """Returns true without a question about sizes: these are compared by identity."""
    plain = (int, float, str, bool, tuple)
    return len(before) == len(after) and all(
        name == other and (a is b or (type(a) is type(b) and isinstance(a, plain) and a == b))
        for (name, a), (other, b) in zip(before, after, strict=True)
    )


def _take_over(own, made) -> None:
    if hasattr(own, "self_attention_cache"):
        _take_over(own.self_attention_cache, made.self_attention_cache)
        _take_over(own.cross_attention_cache, made.cross_attention_cache)
        own.is_updated.update(made.is_updated)
        return
    for layer, new in zip(own.layers, made.layers, strict=False):
        vars(layer).update(vars(new))
    own.layers.extend(made.layers[len(own.layers) :])
