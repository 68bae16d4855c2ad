"""The graphs of ``memory.py``, each at two sizes: one whose tensors fit in the second-level cache,
and one whose tensors are several times as large.
"""

from __future__ import annotations

import memory

from .cases import GpuCase, Size

#: Some 6 MB and 200 MB in f32, by the kind of inputs; no size is round in all dims.
BY_MAKER: dict[object, tuple[Size, Size]] = {
    memory.scores: ((2, 251), (16, 509)),
    memory.images: ((4, 90, 91), (64, 129, 130)),
    memory.lookups: ((4, 499), (131, 500)),
    memory.classes: ((4, 650), (85, 1021)),
    memory.rows_and_ids: ((5, 500), (85, 1021)),
    memory.lookup_ids: ((4, 1250), (165, 1021)),
    memory.heads: ((4, 499), (64, 1021)),
    memory.lstm_inputs: ((4, 499), (64, 1021)),
}
TOKENS: tuple[Size, Size] = ((4, 499), (64, 1021))
#: Graphs whose results or values in between are larger than their inputs, or which have wide rows.
BY_NAME: dict[str, tuple[Size, Size]] = {
    "distances": ((6, 499), (48, 1021)),
    "pairwise_distances": ((3, 251), (12, 1021)),
    "bias_gelu": ((1, 499), (16, 1021)),
    "swiglu": ((1, 499), (24, 1021)),
    "outer_axes": ((4, 650), (85, 1021)),
}
SMALL = {2: ((2, 7), (3, 20)), 3: ((2, 7, 5), (1, 12, 9))}


def cases() -> list[GpuCase]:
    return [_case(*graph) for graph in memory.GRAPHS]


def _case(function, make, sizes) -> GpuCase:
    name = function.__name__
    ours = BY_NAME.get(name) or BY_MAKER.get(make, TOKENS)
    module = memory.Function(function).eval()
    return GpuCase(name, lambda _: module, make, ours, SMALL[len(sizes[0])], ties=name == "best")
