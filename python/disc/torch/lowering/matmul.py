"""Contractions of torch: matmuls, linear layers, einsum, attention.

Attention is written in primitive ops: the compiler finds the pattern again.
"""

from __future__ import annotations

from ...lowering import dtypes
from ...lowering.emitter import composed
from ...lowering.sizes import same


def accumulate(dtype: str) -> str:
    """The type that products of half types are summed in."""
    return "f32" if dtype in dtypes.HALVES else dtype


def addmm(b, x, u, v, *, beta=1, alpha=1):
    return b.compose("gemm", x, u, v, beta, alpha)


def outer(b, x, y):
    return b.compose("outer", *b.promote(x, y))


def einsum(b, equation, operands, path=None):
    return b.compose("einsum", *b.promote(*operands), equation=equation)


# Attention.


def attention(b, query, key, value, mask=None, dropout=0.0, causal=False, *, scale=None, enable_gqa=False):
    if dropout != 0.0:
        raise b.unsupported("attention with dropout needs random numbers", help="call module.eval() first")
    key, value = _shared(b, query, key, value, enable_gqa) or (key, value)
    return b.compose("attention", query, key, value, mask, scale, causal=causal)


def _shared(b, query, key, value, enable_gqa: bool):
    """Keys and values before they are repeated for each head, with an axis of size 1 after their
    heads; None where each head has its own.
    """
    if enable_gqa:
        if same(query.shape[-3], key.shape[-3]) and same(query.shape[-3], value.shape[-3]):
            return None
        return [b.unsqueeze(t, -3) for t in (key, value)]
    key, value = b.before_repeats(key), b.before_repeats(value)
    if key is None or value is None or not same(key.shape[-4], value.shape[-4]):
        return None
    return key, value


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
    return b.compose("distances", x, y, order=p)


def pairwise_norm(b, x, p=2.0):
    return b.compose("pair_distances", x, order=p)


def addr(b, x, u, v, *, beta=1, alpha=1):
    return b.compose("scaled_sum", x, outer(b, u, v), beta, alpha)


def kron(b, x, y):
    x, y = b.promote(x, y)
    rank = max(len(x.shape), len(y.shape))
    x, y = (b.reshape(t, [1] * (rank - len(t.shape)) + list(t.shape)) for t in (x, y))
    spread = b.reshape(x, [s for size in x.shape for s in (size, 1)])
    return b.reshape(b.mul(spread, b.reshape(y, [s for size in y.shape for s in (1, size)])), b.shape)


TABLE = {
    "aten.matmul.default": composed("matmul"),
    "aten.mm.default": composed("matmul"),
    "aten._int_mm.default": composed("integer_matmul"),
    "aten.bmm.default": composed("matmul"),
    "aten.mv.default": composed("matmul"),
    "aten.dot.default": composed("matmul"),
    "aten.vdot.default": composed("matmul"),
    "aten.linear.default": composed("linear"),
    "aten.addmm.default": addmm,
    "aten.addmv.default": addmm,
    "aten.baddbmm.default": addmm,
    "aten.addr.default": addr,
    "aten.outer.default": outer,
    "aten.ger.default": outer,
    "aten.kron.default": kron,
    "aten.einsum.default": einsum,
    "aten.bilinear.default": composed("bilinear"),
    "aten.scaled_dot_product_attention.default": attention,
    "aten._scaled_dot_product_flash_attention_for_cpu.default": flash_for_cpu,
    "aten._scaled_dot_product_efficient_attention.default": attention_with_extras,
    "aten._cdist_forward.default": cdist,
    "aten._pdist_forward.default": pairwise_norm,
    "aten.pdist.default": pairwise_norm,
}
