"""Contractions of torch: products of matrices, linear layers, einsum, attention.

Attention is written in primitive ops: the compiler finds the pattern again.
"""

from __future__ import annotations

import math

from ...lowering import dtypes
from ...lowering.sizes import same

INF = math.inf


def accumulate(dtype: str) -> str:
    """The type that products of half types are summed in."""
    return "f32" if dtype in dtypes.HALVES else dtype


def matmul(b, x, y):
    return b.compose("matmul", x, y)


def linear(b, x, weight, bias=None):
    return b.compose("linear", x, weight, bias)


def addmm(b, x, u, v, *, beta=1, alpha=1):
    return b.compose("gemm", x, u, v, beta, alpha)


def outer(b, x, y):
    return b.compose("outer", *b.promote(x, y))


def einsum(b, equation, operands, path=None):
    return b.compose("einsum", *b.promote(*operands), equation=equation)


# Attention.


def attention(b, query, key, value, mask=None, dropout=0.0, causal=False, *, scale=None, enable_gqa=False):
    """softmax(query key^T * scale + mask) value; a row without any allowed key,
    or of which all logits are -inf, gives zeros.
    """
    if dropout != 0.0:
        raise b.unsupported("attention with dropout needs random numbers", help="call module.eval() first")
    dtype = query.dtype
    grouped = _grouped_heads(b, query, key, value, mask, enable_gqa)
    if grouped is not None:
        query, key, value, mask = grouped
    scores = _scores(b, query, key, scale)
    if causal:
        scores = b.select(_causal(b, scores), scores, b.lift(-INF, scores.dtype))
    if mask is not None:
        hidden = mask.dtype == "i1"
        scores = (
            b.select(mask, scores, b.lift(-INF, scores.dtype))
            if hidden
            else b.add(scores, b.convert(mask, scores.dtype))
        )
    weights = safe_softmax(b, scores)
    result = matmul(b, b.convert(weights, dtype), value)
    if grouped is None:
        return result
    *lead, heads, times, rows, columns = result.shape
    return b.reshape(result, [*lead, heads * times, rows, columns])


def _scores(b, query, key, scale):
    rank = max(len(query.shape), len(key.shape))
    batch = b.common_batch(query, key, rank)
    query, key = (b.expand(t, [*batch, *t.shape[-2:]]) for t in (query, key))
    axes = list(range(rank - 2))
    wide = accumulate(query.dtype)
    scores = b.dot(query, key, batching=(axes, axes), contracting=([rank - 1], [rank - 1]), dtype=wide)
    return b.mul(scores, _scale(b, query.shape[-1], wide) if scale is None else b.lift(scale, wide))


def _scale(b, depth, dtype):
    if isinstance(depth, int):
        return b.lift(1 / math.sqrt(depth) if depth else INF, dtype)
    return b.op("rsqrt", b.lift(depth, dtype))


def _grouped_heads(b, query, key, value, mask, enable_gqa: bool):
    """With an axis for the heads that share their keys,
    so that these are read in place, and not repeated.
    """
    if enable_gqa:
        if same(query.shape[-3], key.shape[-3]) and same(query.shape[-3], value.shape[-3]):
            return None
        key, value = (b.unsqueeze(t, -3) for t in (key, value))
    else:
        key, value = b.before_repeats(key), b.before_repeats(value)
        if key is None or value is None or not same(key.shape[-4], value.shape[-4]):
            return None
    *lead, heads, rows, depth = query.shape
    own = key.shape[-4]
    times = heads // own
    b.require(times * own, "==", heads)
    if not same(own, value.shape[-4]):
        b.require(value.shape[-4], "==", own)
    if mask is not None and len(mask.shape) > 2:
        *outer, each, down, across = mask.shape
        shared = same(each, 1)
        mask = b.reshape(mask, [*outer, 1 if shared else own, 1 if shared else times, down, across])
    return b.reshape(query, [*lead, own, times, rows, depth]), key, value, mask


def _causal(b, scores):
    plane = scores.shape[-2:]
    return b.compare("GE", b.iota(plane, 0, "i64"), b.iota(plane, 1, "i64"))


def safe_softmax(b, x):
    """A row that is all -inf gives zeros, as in torch's attention."""
    axis = len(x.shape) - 1
    top = b.reduce(x, [axis], "maximum", True)
    empty = b.compare("EQ", top, b.lift(-INF, x.dtype))
    powers = b.op("exponential", b.sub(x, b.select(empty, b.lift(0, x.dtype), top)))
    total = b.sum(powers, [axis], True)
    return b.div(powers, b.select(empty, b.lift(1, x.dtype), total))


def attention_with_extras(b, query, key, value, *args, **kwargs):
    """The private forms: the other results serve training and are not computed."""
    names = ("attn_bias", "compute_log_sumexp", "dropout_p", "is_causal")
    given = dict(zip(names, args, strict=False)) | kwargs
    return (
        attention(
            b,
            query,
            key,
            value,
            given.get("attn_bias"),
            given.get("dropout_p", 0.0),
            given.get("is_causal", False),
            scale=given.get("scale"),
        ),
        *(None,) * 3,
    )


def flash_for_cpu(b, query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    """Heads are grouped where the numbers of queries' and keys' differ: nothing else brings such
    tensors here.
    """
    grouped = not same(query.shape[1], key.shape[1])
    result = attention(b, query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=grouped)
    return result, None


# Distances.


def cdist(b, x, y, p=2.0, compute_mode=None):
    distance = b.sub(b.unsqueeze(x, -2), b.unsqueeze(y, -3))
    found = _norm_last(b, distance, p)
    # The largest of no differences is no distance.
    return b.maximum(found, 0.0) if p == math.inf else found


def pairwise_norm(b, x, p=2.0):
    """_pdist_forward: the distances of rows i < j, row by row."""
    n = x.shape[0]
    count = b.shape[0]
    pair = b.iota([count], 0, "i64")
    # Row i starts at i * n - i * (i + 1) / 2: count the rows that start at or before each pair.
    rows = b.iota([count, n], 1, "i64")
    start = b.sub(b.mul(rows, b.lift(n, "i64")), b.div(b.mul(rows, b.add(rows, 1)), 2))
    started = b.convert(b.compare("LE", start, b.unsqueeze(pair, -1)), "i64")
    i = b.minimum(b.sub(b.sum(started, [1]), 1), b.lift(n - 1, "i64"))
    first = b.sub(b.mul(i, b.lift(n, "i64")), b.div(b.mul(i, b.add(i, 1)), 2))
    j = b.add(b.add(b.sub(pair, first), i), 1)
    distance = b.sub(b.take(x, 0, i, "clamp"), b.take(x, 0, j, "clamp"))
    return _norm_last(b, distance, p)


def _norm_last(b, x, p):
    if p == 0:
        # Counts the elements that differ; a difference of NaN makes the count NaN.
        x = b.minimum(b.op("ceil", b.op("abs", x)), 1.0)
        return b.sum(x, [len(x.shape) - 1])
    return b.compose("lp_norm", x, order=p, axes=[-1], keep=False, dtype=x.dtype)


def addr(b, x, u, v, *, beta=1, alpha=1):
    return b.compose("scaled_sum", x, outer(b, u, v), beta, alpha)


def kron(b, x, y):
    x, y = b.promote(x, y)
    rank = max(len(x.shape), len(y.shape))
    x, y = (b.reshape(t, [1] * (rank - len(t.shape)) + list(t.shape)) for t in (x, y))
    spread = b.reshape(x, [s for size in x.shape for s in (size, 1)])
    return b.reshape(b.mul(spread, b.reshape(y, [s for size in y.shape for s in (1, size)])), b.shape)


TABLE = {
    "aten.matmul.default": matmul,
    "aten.mm.default": matmul,
    "aten._int_mm.default": lambda b, x, y: b.compose("integer_matmul", x, y),
    "aten.bmm.default": matmul,
    "aten.mv.default": matmul,
    "aten.dot.default": matmul,
    "aten.vdot.default": matmul,
    "aten.linear.default": linear,
    "aten.addmm.default": addmm,
    "aten.addmv.default": addmm,
    "aten.baddbmm.default": addmm,
    "aten.addr.default": addr,
    "aten.outer.default": outer,
    "aten.ger.default": outer,
    "aten.kron.default": kron,
    "aten.einsum.default": einsum,
    "aten.bilinear.default": lambda b, x, y, weight, bias=None: b.compose("bilinear", x, y, weight, bias),
    "aten.scaled_dot_product_attention.default": attention,
    "aten._scaled_dot_product_flash_attention_for_cpu.default": flash_for_cpu,
    "aten._scaled_dot_product_efficient_attention.default": attention_with_extras,
    "aten._cdist_forward.default": cdist,
    "aten._pdist_forward.default": pairwise_norm,
    "aten.pdist.default": pairwise_norm,
}
