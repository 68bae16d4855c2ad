"""Bridges the differences between the versions of torch that disc works with (2.7 and later).

A version is recognized by what it has, not by its number; the comments name the versions that were
looked at (2.7.1, 2.9.1 and 2.13.0). What an older torch lacks is given here in terms of what it
has, or the feature that needs it takes the general path. Nothing here acts on the newest version.
"""

from __future__ import annotations

import functools
import inspect
import sys

import torch
from torch._guards import Source
from torch._subclasses import FakeTensor, fake_impls
from torch.utils import _pytree as pytree

aten = torch.ops.aten

# Slices. A function of fake_impls says where one begins and ends (2.9 lacks it, 2.13 has it);
# without it, the decomposition of the op asks which sizes it has, and so fixes the answers for the
# example's.

#: The begin of ``x[index:]``, if torch knows it, else None. None itself if torch lacks the
#: function.
known_slice_index = getattr(fake_impls, "_compute_slice_index", None)


def slice_replacement(slice_index):
    """The replacement that makes torch ask ``slice_index(size, index)`` for the bounds of slices:
    owner, name, function.
    """
    if known_slice_index is not None:
        return fake_impls, "_compute_slice_index", slice_index
    import torch._decomp.decompositions

    before = torch._decomp.decomposition_table[aten.slice.Tensor]

    def steps(x, dim=0, start=None, end=None, step=1):
        if not isinstance(x, FakeTensor) or x.dim() == 0:
            return before(x, dim, start, end, step)
        return _slice(slice_index, x, dim, start, end, step)

    return torch._decomp.decomposition_table, aten.slice.Tensor, steps


def plain_slice_index(size, index):
    """``_compute_slice_index`` as torch 2.13 has it."""
    if known_slice_index is not None:
        return known_slice_index(size, index)
    from torch.fx.experimental.symbolic_shapes import statically_known_true as holds

    if holds(index >= 0) and holds(index <= size):
        return index
    if holds(index < 0) and holds(index >= -size):
        return index + size
    if holds(index < -size):
        return 0
    if holds(index > size):
        return size
    if holds(index >= 0):
        return torch.sym_min(index, size)
    if holds(index < 0):
        return torch.sym_max(index + size, 0)
    return None


def _slice(slice_index, x, dim, start, end, step):
    """A slice as torch 2.13 describes it."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true as holds

    from .symbolic.expressions import shortened

    axis = torch._prims_common.canonicalize_dim(x.dim(), dim)
    sizes, strides, env = list(x.shape), list(x.stride()), x.fake_mode.shape_env
    size = sizes[axis]
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    low = 0 if start is None else slice_index(size, start)
    high = size if end is None or holds(end == sys.maxsize) else slice_index(size, end)
    if low is None or high is None:
        count = env.create_unbacked_symint()
        torch._check(count >= 0)
        torch._check(count <= size)
    elif holds(low >= high):
        count = 0
    else:
        length = shortened(high - low if holds(high >= low) else torch.sym_max(high - low, 0))
        count = (length + step - 1) // step
    if low is None:
        offset = env.create_unbacked_symint()
        torch._check(offset >= 0)
    else:
        offset = x.storage_offset() + low * strides[axis]
    sizes[axis], strides[axis] = count, strides[axis] * step
    return x.as_strided(sizes, strides, offset)


# A minimum or maximum of sizes is an expression (in 2.9 and 2.13); torch 2.7 asks which is smaller,
# and so fixes the answer of the example.


def extremes_replacements() -> list[tuple]:
    if known_slice_index is not None:
        return []
    from torch.fx.experimental import sym_node

    asked = getattr(sym_node, "alternate_impl_if_hinted_methods", {})
    return [(asked, name, None) for name in ("sym_max", "sym_min") if name in asked]


# The name of a source of sizes is a method in 2.9, and a property in 2.13.


class NamedSource(Source):
    """A source of sizes that has only a name."""

    def __init__(self, place: str):
        self.place = place

    if inspect.isfunction(Source.__dict__["name"]):

        def name(self) -> str:
            return self.place

    else:

        @property
        def _name_template(self) -> str:
            return self.place


# A ShapeEnv writes assertions about values to the graph if asked to (2.7 lacks that, 2.9 has it),
# else refuses what is not known.


@functools.cache
def asserting() -> dict[str, bool]:
    """The settings of a ShapeEnv that writes assertions to the graph."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    return {"trace_asserts": True} if "trace_asserts" in inspect.signature(ShapeEnv._init).parameters else {}


# The children of a spec are an attribute in 2.9, and a method in 2.13.


def children_of(spec: pytree.TreeSpec) -> list[pytree.TreeSpec]:
    return spec.children() if hasattr(spec, "children") else list(spec.children_specs)
