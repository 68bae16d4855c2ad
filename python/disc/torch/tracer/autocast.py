"""Converts the arguments of an op as ``torch.autocast`` does;
the tracer records the conversions as ops.

CPUs and CUDA devices have rules of their own. Which ops have a rule is asked of torch; here is
which rule each has, as torch documents it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..devices.autocast_state import State

_PRODUCTS = """
    addbmm addmm baddbmm bmm conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d linalg_vecdot linear
    matmul mm prelu scaled_dot_product_attention einsum linalg_multi_dot chain_matmul
"""
_CUDA_PRODUCTS = """
    addmv addr mv convolution _convolution lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
    _scaled_dot_product_flash_attention
"""
_CUDA_WIDEST = """
    addcdiv addcmul atan2 bilinear cat cross dot grid_sampler index_put scatter_add stack tensordot vdot
"""
_CUDA_OF_DTYPE = "prod softmax log_softmax cumprod cumsum linalg_vector_norm linalg_matrix_norm sum"


@dataclass(frozen=True)
class _Rules:
    """The rules of a type of device."""

    #: The dispatch key of its kernels.
    key: str
    #: Ops that compute in the narrow type, registered or composed of such.
    lower: frozenset[str]
    #: Ops that compute in the widest type of their arguments.
    widest: frozenset[str]


_RULES = {
    "cpu": _Rules(
        "AutocastCPU",
        # The last two are composed of products, and have no rule of their own.
        frozenset((*_PRODUCTS.split(), "tensordot", "bilinear")),
        frozenset(("stack", "cat", "index_copy")),
    ),
    "cuda": _Rules(
        "AutocastCUDA",
        # The last four are composed of cells, or are one op of cuDNN, all of which are narrow.
        frozenset((*_PRODUCTS.split(), *_CUDA_PRODUCTS.split(), "lstm", "gru", "rnn_tanh", "rnn_relu")),
        frozenset(_CUDA_WIDEST.split()),
    ),
}
#: On CUDA devices these give f32, unless their argument ``dtype`` asks for something else.
_OF_DTYPE = frozenset(_CUDA_OF_DTYPE.split())


def kind_of(state: State, arguments) -> str | None:
    """The type of device whose autocast applies to an op with these leaves among its arguments."""
    on = {kind for kind, _ in state}
    # Beside tensors of a GPU, scalars of the CPU have no say.
    types = {x.device.type for x in arguments if isinstance(x, torch.Tensor)} & on
    return max(types, default=None)


def target_of(kind: str, func, arguments, named) -> torch.dtype | None:
    """The type that an op computes in under autocast of a type of device; None: in that of its
    arguments, of which ``arguments`` are the leaves and ``named`` those with names.
    """
    name, rules = func._schema.name.removeprefix("aten::"), _RULES[kind]
    if name in rules.lower:
        return torch.get_autocast_dtype(kind)
    if not torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), rules.key):
        return None
    if name in rules.widest:
        types = {t.dtype for t in arguments if converts(t)}
        return max(types, key=lambda dtype: dtype.itemsize, default=None)
    if kind == "cuda" and name in _OF_DTYPE and _has_dtype(func, arguments, named):
        return None
    return torch.float32


def _has_dtype(func, arguments, named) -> bool:
    return named.get("dtype") is not None or any(isinstance(x, torch.dtype) for x in arguments)


def converts(x) -> bool:
    """Returns true if autocast may convert an argument."""
    return isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64
