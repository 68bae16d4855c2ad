//! Declares attention, in primitive ops: the compiler finds the pattern again.
use super::{Composed, contraction::matmul_of};
use crate::emit::{Dot, Emitter, Operand, Sign, sum_type};
use disc_ir::{Code, DType, Diagnostic, Dim, OpKind, Value, ops::DTypeClass};

const FLOAT: DTypeClass = DTypeClass::FLOAT;

composition! {
    /// `softmax(query key^T * scale + mask) value`; a row without any allowed key, or of which all
    /// logits are `-inf`, gives zeros. Without `scale`, it is `1 / sqrt(depth)`. With `causal`, row
    /// `i` sees the keys up to `i`.
    ///
    /// (C1) `query` is `[.., rows, depth]`, `key` `[.., columns, depth]`, `value` `[.., columns,
    /// width]`; their leading axes broadcast.
    /// (C2) `mask` broadcasts to `[.., rows, columns]`: truth values allow a key, numbers are
    /// added.
    /// (C3) Keys and values of one axis more, `[.., heads, 1, columns, depth]`, are each shared by
    /// equally many heads of `query`, which are neighbours.
    Attention = "attention"(query: one(FLOAT), key: one(FLOAT), value: one(FLOAT), mask: maybe(DTypeClass::ANY),
        scale: maybe_scalar(DTypeClass::NUMBER)) { causal: bool } -> (y) in attention;
}

fn attention(b: &Emitter<'_>, Attention { query, key, value, mask, scale, causal }: Attention) -> Composed {
    let dtype = b.dtype(query);
    if [query, key, value].into_iter().any(|x| b.rank(x) < 2) {
        return Err(Diagnostic::new(Code::E0207, "(C1) `query`, `key` and `value` have at least 2 axes"));
    }
    let is_shared = b.rank(key) == b.rank(query) + 1;
    let (query, mask) = if is_shared { with_shared_axis(b, query, key, value, mask)? } else { (query, mask) };
    let mut scores = scores(b, query, key, scale)?;
    let hidden = |b: &Emitter<'_>| b.lift(f64::NEG_INFINITY, sum_type(dtype));
    if causal {
        scores = b.select(is_seen(b, scores)?, scores, hidden(b)?)?;
    }
    if let Some(mask) = mask {
        scores = match b.dtype(mask) {
            DType::I1 => b.select(mask, scores, hidden(b)?)?,
            _ => b.add(scores, b.convert(mask, b.dtype(scores))?)?,
        };
    }
    let weights = softmax_or_zeros(b, scores)?;
    let result = matmul_of(b, b.convert(weights, dtype)?, value, None)?;
    if !is_shared {
        return Ok(vec![result]);
    }
    match &b.shape(result)[..] {
        [lead @ .., heads, times, rows, width] => {
            Ok(vec![b.reshape(result, &[lead, &[heads * times, rows.clone(), width.clone()]].concat())?])
        }
        _ => Err(too_few_axes()),
    }
}

fn too_few_axes() -> Diagnostic {
    Diagnostic::new(Code::E0207, "(C3) shared keys need an axis of heads")
}

/// The query and the mask with an axis for the heads that share their keys, so that these are read
/// in place, and not repeated.
fn with_shared_axis(
    b: &Emitter<'_>,
    query: Value,
    key: Value,
    value: Value,
    mask: Option<Value>,
) -> Result<(Value, Option<Value>), Diagnostic> {
    let (sizes, keys, values) = (b.shape(query), b.shape(key), b.shape(value));
    let ([lead @ .., heads, rows, depth], [.., own, _, _, _], [.., other, _, _, _]) = (&sizes[..], &keys[..], &values[..]) else {
        return Err(too_few_axes());
    };
    let times = heads.floor_div(own);
    b.require(&(&times * own), Sign::Eq, heads)?;
    if own != other {
        b.require(other, Sign::Eq, own)?;
    }
    let grouped = |mask: Value| match &b.shape(mask)[..] {
        [outer @ .., each, down, across] => {
            let one = Dim::constant(1);
            let pair = if each.is_const(1) { [one.clone(), one] } else { [own.clone(), times.clone()] };
            b.reshape(mask, &[outer, &pair, &[down.clone(), across.clone()]].concat())
        }
        _ => Ok(mask),
    };
    let mask = mask.map(grouped).transpose()?;
    let shape = [lead, &[own.clone(), times.clone(), rows.clone(), depth.clone()]].concat();
    Ok((b.reshape(query, &shape)?, mask))
}

fn scores(b: &Emitter<'_>, query: Value, key: Value, scale: Option<Operand>) -> Result<Value, Diagnostic> {
    let rank = b.rank(query).max(b.rank(key));
    let batch = b.common_batch(query, key, rank);
    let expanded = |value: Value| {
        let sizes = b.shape(value);
        b.expand(value, &[&batch[..], &sizes[sizes.len() - 2..]].concat())
    };
    let (query, key) = (expanded(query)?, expanded(key)?);
    let (axes, wide) = ((0..rank - 2).collect::<Vec<usize>>(), sum_type(b.dtype(query)));
    let form = Dot { batching: (&axes, &axes), contracting: (&[rank - 1], &[rank - 1]), dtype: Some(wide) };
    let scores = b.dot(query, key, &form)?;
    let scale = match scale {
        Some(scale) => b.lift(scale, wide)?,
        None => root_of_depth(b, &b.shape(query)[rank - 1], wide)?,
    };
    b.mul(scores, scale)
}

/// `1 / sqrt(depth)`.
fn root_of_depth(b: &Emitter<'_>, depth: &Dim, dtype: DType) -> Result<Value, Diagnostic> {
    match depth.as_const() {
        Some(0) => b.lift(f64::INFINITY, dtype),
        Some(depth) => b.lift(1.0 / (depth as f64).sqrt(), dtype),
        None => b.op(OpKind::Rsqrt, &[b.lift(depth, dtype)?]),
    }
}

/// The plane of a causal mask.
fn is_seen(b: &Emitter<'_>, scores: Value) -> Result<Value, Diagnostic> {
    let sizes = b.shape(scores);
    let plane = &sizes[sizes.len() - 2..];
    b.compare("GE", b.iota(plane, 0, DType::I64)?, b.iota(plane, 1, DType::I64)?)
}

/// The softmax of rows; one that is all `-inf` gives zeros.
fn softmax_or_zeros(b: &Emitter<'_>, x: Value) -> Result<Value, Diagnostic> {
    let (last, dtype) = (b.rank(x) - 1, b.dtype(x));
    let top = b.reduce(x, &[last], OpKind::Maximum, true)?;
    let empty = b.compare("EQ", top, f64::NEG_INFINITY)?;
    let top = b.select(empty, b.lift(0, dtype)?, top)?;
    let powers = b.op(OpKind::Exponential, &[b.sub(x, top)?])?;
    let total = b.sum(powers, &[last], true)?;
    b.div(powers, b.select(empty, b.lift(1, dtype)?, total)?)
}
