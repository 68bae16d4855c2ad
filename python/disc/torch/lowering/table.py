"""Joins the tables of the families: each ATen overload and the function that lowers it."""

from __future__ import annotations

import torch

from ..graph.in_place import functional_name
from . import (
    activation,
    complex_numbers,
    convolution,
    convolution_backward,
    creation,
    cuda_kernels,
    data_dependent,
    data_movement,
    elementwise,
    embedding_bags,
    experts,
    fft,
    indexing,
    loss,
    matmul,
    normalization,
    pooling,
    recurrent,
    reduction,
    resample,
    signs,
    special,
)

FAMILIES = (
    elementwise,
    signs,
    special,
    activation,
    data_movement,
    creation,
    reduction,
    matmul,
    normalization,
    loss,
    convolution,
    convolution_backward,
    pooling,
    resample,
    indexing,
    embedding_bags,
    recurrent,
    experts,
    fft,
    data_dependent,
    cuda_kernels,
)


#: Overload -> function of the emitter and the overload's arguments.
TABLE = {name: entry for family in FAMILIES for name, entry in family.TABLE.items()}


def serves(op: torch._ops.OpOverload, is_complex: bool) -> bool:
    """Returns true if an op has a lowering; ``is_complex``:
    with complex tensors among its arguments.
    """
    name = str(op)
    if name in TABLE or functional_name(name) in TABLE:
        return not is_complex or complex_numbers.serves(name)
    return name in complex_numbers.TABLE or name in CHECKS or name in ITEMS or "assert" in name


#: Ops without a result that anyone reads: conditions that capture has already proved or turned into
#: facts.
CHECKS = (
    "aten._assert_scalar.default",
    "aten._assert_async.msg",
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range_for_size.default",
    "aten.sym_constrain_range.default",
    "aten._assert_async.default",
)


#: Ops that make a number out of a tensor.
ITEMS = ("aten.item.default", "aten._local_scalar_dense.default")
