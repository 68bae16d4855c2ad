"""Graphs that order elements or go to places that data names: sort, top-k, gather, scatter,
embeddings, compaction, caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from case import Case, Function
from torch.nn import functional as F

#: Rows and length of what is sorted: many short rows up to one long one.
ROWS = ((4096, 8), (1000, 33), (128, 300), (16, 4096), (3, 50257), (1, 1_000_000))
#: Rows of scores over a vocabulary.
VOCABULARY = ((1, 50257), (4, 32000), (16, 30522), (3, 151_936))
#: Updates or look-ups, and the length of what is indexed.
PLACES = ((64, 1000), (1000, 5000), (20_000, 3000), (100_003, 50_000))
LENGTHS = ((100,), (4097,), (65_536,), (1_000_003,))
CACHE = ((1, 128), (2, 511), (4, 1024), (1, 2048))
WIDTH = 256


def rows(r: int, n: int):
    return (torch.randn(r, n),)


def integers(r: int, n: int):
    return (torch.randint(-(1 << 40), 1 << 40, (r, n)),)


def few_values(r: int, n: int):
    return (torch.randint(0, 50, (r, n)).float(),)


def columns(r: int, n: int):
    return (torch.randn(n, r),)


def table(k: int, n: int):
    return torch.randn(n, WIDTH), torch.randint(0, n, (k,))


def updates(k: int, n: int):
    return torch.randn(n, WIDTH), torch.randint(0, n, (k,)), torch.randn(k, WIDTH)


def single_updates(k: int, n: int):
    return torch.randn(n), torch.randint(0, n, (k,)), torch.randn(k)


def picks(k: int, n: int):
    return torch.randn(n, 16), torch.randint(0, n, (k, 16))


def pick_updates(k: int, n: int):
    return torch.randn(n, 16), torch.randint(0, n, (k, 16)), torch.randn(k, 16)


def mask(n: int):
    return torch.randn(n), torch.rand(n) < 0.3


def labels(n: int):
    return (torch.randint(0, 1000, (n,)),)


def searched(n: int):
    return torch.randn(1000).sort().values, torch.randn(n)


def cache(b: int, s: int):
    # The cache, one new position, and where it goes.
    return torch.randn(b, 8, s, 64), torch.randn(b, 8, 1, 64), torch.tensor([s // 2])


def bags(k: int, n: int):
    return torch.randint(0, n, (k // 8, 8)), torch.randn(n, WIDTH)


def lookups(k: int, n: int):
    return torch.randint(0, n, (k,)), torch.randn(n, WIDTH), torch.randn(WIDTH), torch.randn(WIDTH)


def embed_and_normalise(index, weight, scale, bias):
    return F.layer_norm(F.embedding(index, weight), (WIDTH,), scale, bias)


def write_cache(cache, new, place):
    cache = cache.clone()
    cache[:, :, place] = new
    return cache


def sample(x):
    """The scores of a top-k filter, as generation does it."""
    least = torch.topk(x, 50).values[:, -1:]
    return torch.softmax(torch.where(x < least, -torch.inf, x), -1)


def nucleus(x):
    """The scores of a top-p filter."""
    values, places = torch.sort(x, descending=True, dim=-1)
    passed = torch.softmax(values, -1).cumsum(-1)
    return torch.where(passed - torch.softmax(values, -1) > 0.9, -torch.inf, values), places


FUNCTIONS: tuple[tuple[str, Callable, tuple, Callable], ...] = (
    ("sort", lambda x: torch.sort(x, dim=-1), ROWS, rows),
    ("sort, stable, descending", lambda x: torch.sort(x, dim=-1, descending=True, stable=True), ROWS, rows),
    ("sort i64", lambda x: torch.sort(x, dim=-1), ROWS, integers),
    ("sort of few values", lambda x: torch.sort(x, dim=-1, stable=True), ROWS, few_values),
    ("sort along the first axis", lambda x: torch.sort(x, dim=0), ROWS, columns),
    ("argsort", lambda x: torch.argsort(x, dim=-1), ROWS, rows),
    ("median", lambda x: torch.median(x, dim=-1), ROWS[:4], rows),
    ("top 1", lambda x: torch.topk(x, 1), VOCABULARY, rows),
    ("top 10", lambda x: torch.topk(x, 10), VOCABULARY, rows),
    ("top 64", lambda x: torch.topk(x, 64), VOCABULARY, rows),
    ("top 1000", lambda x: torch.topk(x, 1000), VOCABULARY, rows),
    ("top 2 of 64", lambda x: torch.topk(x, 2), ((1, 64), (77, 64), (2048, 64)), rows),
    ("argmax", lambda x: torch.argmax(x, -1), VOCABULARY, rows),
    ("sampling: top-k filter", sample, VOCABULARY, rows),
    ("sampling: top-p filter", nucleus, VOCABULARY, rows),
    ("embedding", lambda w, i: F.embedding(i, w), PLACES, table),
    ("embedding and layer norm", embed_and_normalise, PLACES, lookups),
    ("embedding bag, sum", lambda i, w: F.embedding_bag(i, w, mode="sum"), PLACES, bags),
    ("embedding bag, mean", lambda i, w: F.embedding_bag(i, w, mode="mean"), PLACES, bags),
    ("index_select", lambda x, i: torch.index_select(x, 0, i), PLACES, table),
    ("index_select of columns", lambda x, i: torch.index_select(x.t(), 1, i), PLACES, table),
    ("gather", lambda x, i: torch.gather(x, 0, i), PLACES, picks),
    ("scatter", lambda x, i, u: torch.scatter(x, 0, i, u), PLACES, pick_updates),
    ("scatter_add", lambda x, i, u: torch.scatter_add(x, 0, i, u), PLACES, pick_updates),
    ("index_add of rows", lambda x, i, u: torch.index_add(x, 0, i, u), PLACES, updates),
    ("index_add of elements", lambda x, i, u: torch.index_add(x, 0, i, u), PLACES, single_updates),
    ("index_put, accumulated", lambda x, i, u: torch.index_put(x, (i,), u, accumulate=True), PLACES, updates),
    ("index_copy", lambda x, i, u: torch.index_copy(x, 0, i, u), PLACES, updates),
    ("nonzero", lambda x, m: torch.nonzero(m), LENGTHS, mask),
    ("masked_select", lambda x, m: torch.masked_select(x, m), LENGTHS, mask),
    ("unique", lambda x: torch.unique(x, return_inverse=True, return_counts=True), LENGTHS, labels),
    ("bincount", lambda x: torch.bincount(x, minlength=1000), LENGTHS, labels),
    ("bucketize", lambda edges, x: torch.bucketize(x, edges), LENGTHS, searched),
    ("one_hot", lambda x: F.one_hot(x, 1000), LENGTHS[:2], labels),
    ("write into a cache", write_cache, CACHE, cache),
)


def cases() -> Iterator[Case]:
    for name, function, sizes, make in FUNCTIONS:
        yield Case(name, Function(function), sizes, make)
