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


def matmul(b, x, y, dtype=None):
    """torch.matmul: ranks 1 and 2, and batches that broadcast; the result is of ``dtype``."""
    if len(x.shape) == 1 and len(y.shape) == 1:
        return b.dot(x, y, contracting=([0], [0]), dtype=dtype)
    if len(y.shape) <= 2:
        # No batch on the right: all axes of the left but the last are rows.
        return b.dot(x, y, contracting=([len(x.shape) - 1], [0]), dtype=dtype)
    if len(x.shape) == 1:
        return b.squeeze(matmul(b, b.unsqueeze(x, 0), y, dtype), -2)
    return _batched(b, x, y, dtype)


def _batched(b, x, y, dtype=None):
    rank = max(len(x.shape), len(y.shape))
    batch = b.common_batch(x, y, rank)
    x = b.expand(x, [*batch, *x.shape[-2:]])
    y = b.expand(y, [*batch, *y.shape[-2:]])
    axes = list(range(rank - 2))
    return b.dot(x, y, batching=(axes, axes), contracting=([rank - 1], [rank - 2]), dtype=dtype)


def int_mm(b, x, y):
    """Sums of int8, or of bytes, by int8 in int32.

    A byte is a number of int8 and 128: what all of them add is a sum of the columns.
    """
    if x.dtype == "u8" and y.dtype == "i8":
        shifted = b.convert(b.sub(b.convert(x, "i32"), 128), "i8")
        columns = b.mul(b.sum(b.convert(y, "i32"), [0]), 128)
        return b.add(int_mm(b, shifted, y), columns)
    return b.dot(x, y, contracting=([1], [0]), dtype="i32")


def linear(b, x, weight, bias=None):
    axes = [len(x.shape) - 1], [0 if len(weight.shape) == 1 else 1]
    if bias is None:
        return b.dot(x, weight, contracting=axes)
    # The bias is added to the sums, and rounded with them.
    y = b.dot(x, weight, contracting=axes, dtype=accumulate(x.dtype))
    return b.convert(b.add(y, b.wide(bias)), x.dtype)


def scaled_sum(b, x, y, beta, alpha):
    """beta * x + alpha * y; beta == 0 hides NaN in x, also where a call says what beta is."""
    y = y if same(alpha, 1) else b.mul(y, b.lift(alpha, y.dtype))
    if same(beta, 0):
        return y
    if isinstance(beta, (int, float)):
        return b.add(x if beta == 1 else b.mul(x, beta), y)
    return b.select(_is_zero(b, beta, x.dtype), y, b.add(b.mul(x, b.lift(beta, x.dtype)), y))


def _is_zero(b, scale, dtype: str):
    return b.compare("EQ", b.lift(scale, dtype), b.lift(0, dtype))


def addmm(b, x, u, v, *, beta=1, alpha=1):
    """Of half types, all is added in f32 and rounded once."""
    y = matmul(b, u, v, accumulate(u.dtype))
    if u.dtype in ("f32", "f64"):
        y, alpha = _hidden_by_zero(b, y, alpha)
    return b.convert(scaled_sum(b, b.wide(x), y, beta, alpha), u.dtype)


def _hidden_by_zero(b, y, alpha):
    """The sums, and their scale: BLAS reads no factors where alpha == 0, so that their NaN are
    hidden.
    """
    zeros = b.full(0, y.shape, y.dtype)
    if isinstance(alpha, (int, float)):
        return (y, alpha) if alpha != 0 else (zeros, 1)
    return b.select(_is_zero(b, alpha, y.dtype), zeros, y), alpha


def outer(b, x, y):
    x, y = b.promote(x, y)
    return b.mul(b.unsqueeze(x, -1), y)


def einsum(b, equation, operands, path=None):
    """Pairs from the left; a label that no later operand and no output has is
    contracted with its last use.
    """
    operands = b.promote(*operands)
    terms, right = _labels(equation.replace(" ", ""), [len(x.shape) for x in operands])
    operands, terms = zip(
        *(_diagonals(b, x, term) for x, term in zip(operands, terms, strict=True)), strict=True
    )
    term, x = terms[0], operands[0]
    for i in range(1, len(operands)):
        needed = set(right).union(*terms[i + 1 :])
        term, x = _contract_pair(b, term, x, terms[i], operands[i], needed)
    gone = [i for i, c in enumerate(term) if c not in right]
    x = b.sum(x, gone)
    term = "".join(c for c in term if c in right)
    return b.transpose(x, [term.index(c) for c in right])


def _labels(equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """The labels of each operand and of the result;
    axes under an ellipsis get capital Greek letters, from the last one on.
    """
    left, arrow, right = equation.partition("->")
    terms, greek = left.split(","), "".join(chr(0x391 + i) for i in range(17))
    hidden = max(rank - len(t) + 3 if "..." in t else 0 for t, rank in zip(terms, ranks, strict=True))

    def spelled(term: str, count: int) -> str:
        return term.replace("...", greek[17 - count :])

    terms = [spelled(t, rank - len(t) + 3) for t, rank in zip(terms, ranks, strict=True)]
    if not arrow:
        once = sorted(c for c in set("".join(terms)) - set(greek) if "".join(terms).count(c) == 1)
        right = "..." + "".join(once)
    return terms, spelled(right, hidden)


def _diagonals(b, x, term: str):
    """A label that an operand has twice: its diagonal."""
    for label in dict.fromkeys(term):
        while term.count(label) > 1:
            i = term.index(label)
            j = term.index(label, i + 1)
            same_index = b.compare("EQ", b.iota(x.shape, i, "i64"), b.iota(x.shape, j, "i64"))
            b.require(x.shape[i], "==", x.shape[j])
            # One element of each sum is not zero.
            x = b.sum(b.select(same_index, x, b.lift(0, x.dtype)), [j])
            term = term[:j] + term[j + 1 :]
    return x, term


def _contract_pair(b, s, x, t, y, needed):
    """Labels of one operand alone that nobody needs are summed first;
    shared labels are batch or contracted.
    """
    x, s = _sum_out(b, x, s, set(t) | needed)
    y, t = _sum_out(b, y, t, set(s) | needed)
    shared = [c for c in s if c in t]
    batch, contracted = [c for c in shared if c in needed], [c for c in shared if c not in needed]
    # A size of 1 is repeated.
    x, y = _repeated(b, x, s, y, t), _repeated(b, y, t, x, s)
    z = b.dot(
        x,
        y,
        batching=([s.index(c) for c in batch], [t.index(c) for c in batch]),
        contracting=([s.index(c) for c in contracted], [t.index(c) for c in contracted]),
    )
    free = [c for c in s if c not in shared] + [c for c in t if c not in shared]
    return "".join([*batch, *free]), z


def _repeated(b, x, s, y, t):
    sizes = [
        y.shape[t.index(c)] if c in t and same(size, 1) else size for c, size in zip(s, x.shape, strict=True)
    ]
    return b.expand(x, sizes)


def _sum_out(b, x, term, kept):
    gone = [i for i, c in enumerate(term) if c not in kept]
    return b.sum(x, gone), "".join(c for c in term if c in kept)


def bilinear(b, x, y, weight, bias=None):
    left = b.dot(x, weight, contracting=([len(x.shape) - 1], [1]))
    value = b.sum(b.mul(left, b.unsqueeze(y, -2)), [len(left.shape) - 1])
    return value if bias is None else b.add(value, bias)


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
    result = _batched(b, b.convert(weights, dtype), value)
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
    return scaled_sum(b, x, outer(b, u, v), beta, alpha)


def kron(b, x, y):
    x, y = b.promote(x, y)
    rank = max(len(x.shape), len(y.shape))
    x, y = (b.reshape(t, [1] * (rank - len(t.shape)) + list(t.shape)) for t in (x, y))
    spread = b.reshape(x, [s for size in x.shape for s in (size, 1)])
    return b.reshape(b.mul(spread, b.reshape(y, [s for size in y.shape for s in (1, size)])), b.shape)


TABLE = {
    "aten.matmul.default": matmul,
    "aten.mm.default": matmul,
    "aten._int_mm.default": int_mm,
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
    "aten.bilinear.default": bilinear,
    "aten.scaled_dot_product_attention.default": attention,
    "aten._scaled_dot_product_flash_attention_for_cpu.default": flash_for_cpu,
    "aten._scaled_dot_product_efficient_attention.default": attention_with_extras,
    "aten._cdist_forward.default": cdist,
    "aten._pdist_forward.default": pairwise_norm,
    "aten.pdist.default": pairwise_norm,
}
