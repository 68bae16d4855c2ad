"""Core ops of ATen in jax.numpy, by name: those that the suites need.

Arguments are those of ATen. Results may have a wider type than in torch: the caller casts them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import torch
from jax import lax

_DTYPES = {
    torch.float32: jnp.float32, torch.float64: jnp.float32, torch.float16: jnp.float16,
    torch.bfloat16: jnp.bfloat16, torch.int64: jnp.int32, torch.int32: jnp.int32, torch.int16: jnp.int16,
    torch.int8: jnp.int8, torch.uint8: jnp.uint8, torch.bool: jnp.bool_,
}  # fmt: skip


def dtype(of: torch.dtype):
    return _DTYPES[of]


def name_of(target) -> str:
    """The name of an op, without its overload where that changes only the types of arguments.

    >>> name_of(torch.ops.aten.add.Tensor), name_of(torch.ops.aten.max.dim)
    ('add', 'max.dim')
    """
    packet, _, overload = str(target).removeprefix("aten.").rpartition(".")
    return packet if overload not in _MEANINGS else f"{packet}.{overload}"


#: Overloads that mean another op.
_MEANINGS = {"dim", "dims", "correction", "no_stats"}


def table(attention: str | None) -> dict[str, Callable]:
    """The ops, with attention by an implementation of JAX's, or by the one that JAX chooses."""
    return {
        **_OPS,
        "scaled_dot_product_attention": lambda *args, **named: _attention(attention, *args, **named),
    }


def _axes(dim, rank: int) -> tuple[int, ...] | None:
    """Axes to reduce; none means all."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return None
    return tuple(d % rank for d in (dim if isinstance(dim, (list, tuple)) else (dim,)))


def _reduction(function):
    def reduce(x, dim=None, keepdim=False, dtype=None):
        return function(x, axis=_axes(dim, x.ndim), keepdims=keepdim)

    return reduce


def _wide(x):
    """Sums of half types are f32's."""
    return x.astype(jnp.float32) if x.dtype in (jnp.float16, jnp.bfloat16) else x


def _mean(x, dim=None, keepdim=False, dtype=None):
    return jnp.mean(_wide(x), axis=_axes(dim, x.ndim), keepdims=keepdim)


def _variance(x, dim=None, correction=1, keepdim=False):
    axes = _axes(dim, x.ndim)
    return jnp.var(_wide(x), axis=axes, ddof=1 if correction is None else correction, keepdims=keepdim)


def _norm(x, p=2, dim=None, keepdim=False, dtype=None):
    return jnp.linalg.vector_norm(_wide(x), ord=p, axis=_axes(dim, x.ndim), keepdims=keepdim)


def _largest(x, dim, keepdim=False):
    return jnp.max(x, axis=dim, keepdims=keepdim), jnp.argmax(x, axis=dim, keepdims=keepdim)


def _clamp(x, low=None, high=None):
    x = x if low is None else jnp.maximum(x, low)
    return x if high is None else jnp.minimum(x, high)


def _softmax(x, dim, half_to_float=False):
    return jax.nn.softmax(_wide(x), axis=dim)


def _log_softmax(x, dim, half_to_float=False):
    return jax.nn.log_softmax(_wide(x), axis=dim)


def _gelu(x, approximate="none"):
    return jax.nn.gelu(_wide(x), approximate=approximate == "tanh")


def _layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
    wide, axes = _wide(x), tuple(range(x.ndim - len(shape), x.ndim))
    mean = wide.mean(axes, keepdims=True)
    scale = lax.rsqrt(jnp.square(wide - mean).mean(axes, keepdims=True) + eps)
    y = (wide - mean) * scale
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias), mean, scale


def _group_norm(x, weight, bias, n, c, hxw, groups, eps):
    wide = _wide(x).reshape(n, groups, -1)
    mean = wide.mean(2, keepdims=True)
    scale = lax.rsqrt(jnp.square(wide - mean).mean(2, keepdims=True) + eps)
    y = _by_channel(((wide - mean) * scale).reshape(x.shape), weight, bias)
    return y, mean[..., 0], scale[..., 0]


def _by_channel(y, weight, bias):
    shape = (1, -1, *(1,) * (y.ndim - 2))
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def _batch_norm(x, weight, bias, mean, variance, momentum, eps):
    shape = (1, -1, *(1,) * (x.ndim - 2))
    y = (_wide(x) - mean.reshape(shape)) * lax.rsqrt(_wide(variance).reshape(shape) + eps)
    return _by_channel(y, weight, bias), mean, variance


def _batch_norm_of_batch(x, weight, bias, training, momentum, eps):
    axes = (0, *range(2, x.ndim))
    return _batch_norm(x, weight, bias, _wide(x).mean(axes), _wide(x).var(axes), momentum, eps)


def _convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    if transposed:
        raise NotImplementedError("transposed convolutions")
    spatial = x.ndim - 2
    letters = "DHW"[3 - spatial :]
    y = lax.conv_general_dilated(
        x, weight, list(stride), [(p, p) for p in padding], rhs_dilation=list(dilation), feature_group_count=groups,
        dimension_numbers=(f"NC{letters}", f"OI{letters}", f"NC{letters}"),
    )  # fmt: skip
    return _by_channel(y, None, bias)


def _max_pool(x, kernel, stride=None, padding=(0, 0), dilation=(1, 1), ceil_mode=False):
    if ceil_mode:
        raise NotImplementedError("pooling that rounds sizes up")
    window = [2 * list(v) if len(v) == 1 else list(v) for v in (kernel, stride or kernel, padding, dilation)]
    kernel, stride, padding, dilation = window
    least = jnp.array(-jnp.inf, x.dtype)
    pads = [(0, 0), (0, 0), *((p, p) for p in padding)]
    y = lax.reduce_window(x, least, lax.max, (1, 1, *kernel), (1, 1, *stride), pads, None, (1, 1, *dilation))
    return y, None


def _attention(
    implementation, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    q, k, v = (jnp.swapaxes(t, 1, 2) for t in (q, k, v))
    mask = bias = None
    if attn_mask is not None:
        shape = (*(1,) * (4 - attn_mask.ndim), *attn_mask.shape)
        whole = (*shape[:2], q.shape[1], k.shape[1])
        spread = jnp.broadcast_to(attn_mask.reshape(shape), whole)
        mask, bias = (spread, None) if attn_mask.dtype == jnp.bool_ else (None, spread)
    found = jax.nn.dot_product_attention(
        q, k, v, bias, mask, scale=scale, is_causal=is_causal, implementation=implementation
    )
    return jnp.swapaxes(found, 1, 2)


def _embedding(weight, indices, *_):
    return weight[indices]


def _gather(x, dim, index, sparse_grad=False):
    # Torch takes an index that is shorter in the other dims.
    within = [slice(None) if d == dim % x.ndim else slice(size) for d, size in enumerate(index.shape)]
    return jnp.take_along_axis(x[tuple(within)], index, axis=dim)


def _index(x, indices):
    return x[tuple(slice(None) if i is None else i for i in indices)]


def _slice(x, dim=0, start=None, end=None, step=1):
    places = [slice(None)] * x.ndim
    places[dim] = slice(start, None if end is None or end >= x.shape[dim] else end, step)
    return x[tuple(places)]


def _expand(x, sizes, implicit=False):
    fixed = x.shape
    lead = len(sizes) - len(fixed)
    return jnp.broadcast_to(x, [fixed[i - lead] if s == -1 else s for i, s in enumerate(sizes)])


def _split(x, sizes, dim=0):
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]
    return jnp.split(x, ends, axis=dim)


def _pad(x, pads, value=0):
    pairs = [(pads[i], pads[i + 1]) for i in range(0, len(pads), 2)]
    zero = jnp.array(value, x.dtype)
    return lax.pad(x, zero, [(0, 0, 0)] * (x.ndim - len(pairs)) + [(a, b, 0) for a, b in reversed(pairs)])


def _arange(start, end, step=1, dtype=None, **_):
    return jnp.arange(start, end, step, _DTYPES.get(dtype))


def _full(size, value, dtype=None, **_):
    return jnp.full(tuple(size), value, _DTYPES.get(dtype))


def _full_like(x, value, dtype=None, **_):
    return jnp.full(x.shape, value, _DTYPES.get(dtype, x.dtype))


def _to(x, dtype=None, **_):
    return x if dtype is None else x.astype(_DTYPES[dtype])


def _scaled_sum(sign):
    return lambda x, y, alpha=1: x + sign * (y if alpha == 1 else alpha * y)


def _divide(x, y, rounding_mode=None):
    if rounding_mode is None:
        return jnp.true_divide(x, y)
    return jnp.floor_divide(x, y) if rounding_mode == "floor" else jnp.trunc(jnp.true_divide(x, y))


def _power(x, exponent):
    if isinstance(exponent, float) and exponent.is_integer():
        exponent = int(exponent)
    return x**exponent


def _addmm(bias, a, b, beta=1, alpha=1):
    return beta * bias + alpha * (a @ b)


def _squeeze(x, dims):
    return jnp.squeeze(x, tuple(d for d in _axes(dims, x.ndim) or () if x.shape[d] == 1))


def _first(function):
    """An op whose other arguments are about memory or about random numbers."""
    return lambda x, *_, **__: function(x)


def _nothing(*_, **__):
    return None


_OPS: dict[str, Callable] = {
    "_assert_async": _nothing, "_assert_tensor_metadata": _nothing, "_assert_scalar": _nothing,
    "sym_constrain_range_for_size": _nothing,
    "sym_size": lambda x, dim: x.shape[dim], "sym_numel": lambda x: math.prod(x.shape),
    "_log_softmax": _log_softmax, "_softmax": _softmax, "_native_batch_norm_legit.no_stats": _batch_norm_of_batch,
    "_native_batch_norm_legit_no_training": _batch_norm, "_to_copy": _to, "abs": jnp.abs, "add": _scaled_sum(1),
    "addmm": _addmm, "alias": _first(lambda x: x), "amax": _reduction(jnp.max), "amin": _reduction(jnp.min),
    "any": _reduction(jnp.any), "any.dim": _reduction(jnp.any), "any.dims": _reduction(jnp.any),
    "all": _reduction(jnp.all), "arange": _arange,
    "argmax": lambda x, dim=None, keepdim=False: jnp.argmax(x, axis=dim, keepdims=keepdim),
    "bitwise_and": jnp.bitwise_and, "bitwise_not": jnp.bitwise_not, "bitwise_or": jnp.bitwise_or,
    "bmm": jnp.matmul, "cat": lambda tensors, dim=0: jnp.concatenate(tensors, axis=dim), "ceil": jnp.ceil,
    "clamp": _clamp, "clone": _first(lambda x: x), "constant_pad_nd": _pad, "convolution": _convolution, "cos": jnp.cos,
    "cumprod": lambda x, dim, dtype=None: jnp.cumprod(x, axis=dim),
    "cumsum": lambda x, dim, dtype=None: jnp.cumsum(_wide(x), axis=dim), "div": _divide, "embedding": _embedding,
    "eq": jnp.equal, "erf": jax.scipy.special.erf, "exp": jnp.exp, "exp2": jnp.exp2, "expand": _expand,
    "expm1": jnp.expm1, "flip": jnp.flip, "floor": jnp.floor, "fmod": jnp.fmod, "full": _full, "full_like": _full_like,
    "gather": _gather, "ge": jnp.greater_equal,
    "gelu": _gelu, "gt": jnp.greater, "index": _index, "index_select": lambda x, dim, index: jnp.take(x, index, axis=dim),
    "isinf": jnp.isinf, "isnan": jnp.isnan, "le": jnp.less_equal, "linalg_vector_norm": _norm, "log": jnp.log, "log1p": jnp.log1p,
    "logical_and": jnp.logical_and, "logical_not": jnp.logical_not, "logical_or": jnp.logical_or,
    "lt": jnp.less, "max.dim": _largest, "max_pool2d_with_indices": _max_pool, "maximum": jnp.maximum, "mean": _mean,
    "mean.dim": _mean, "minimum": jnp.minimum, "mm": jnp.matmul, "mul": jnp.multiply, "native_group_norm": _group_norm,
    "native_layer_norm": _layer_norm, "ne": jnp.not_equal, "neg": jnp.negative,
    "permute": lambda x, dims: jnp.transpose(x, dims), "pow": _power, "reciprocal": lambda x: 1 / x, "relu": jax.nn.relu,
    "remainder": jnp.remainder, "repeat": lambda x, counts: jnp.tile(x, counts), "rsqrt": lax.rsqrt,
    "scalar_tensor": lambda value, dtype=None, **_: jnp.array(value, _DTYPES.get(dtype)),
    "select": lambda x, dim, index: lax.index_in_dim(x, index, dim, keepdims=False), "sigmoid": jax.nn.sigmoid,
    "sin": jnp.sin, "slice": _slice, "split_with_sizes": _split, "sqrt": jnp.sqrt, "squeeze.dims": _squeeze,
    "squeeze.dim": _squeeze, "sub": _scaled_sum(-1), "sum": _reduction(lambda x, **named: jnp.sum(_wide(x), **named)),
    "tanh": jnp.tanh, "unsqueeze": jnp.expand_dims, "var.correction": _variance,
    "view": lambda x, sizes: jnp.reshape(x, sizes), "where": jnp.where,
    "zeros_like": lambda x, dtype=None, **_: jnp.zeros(x.shape, _DTYPES.get(dtype, x.dtype)),
}  # fmt: skip
