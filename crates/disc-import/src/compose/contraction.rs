//! Declares contractions: matmuls by NumPy's rules, linear layers, sums of products.
use super::Composed;
use crate::emit::{Dot, Emitter, Operand, sum_type};
use disc_ir::{Code, DType, Diagnostic, Value, ops::DTypeClass};

const NUMBER: DTypeClass = DTypeClass::NUMBER;

composition! {
    /// The matmul of `x` and `y` by NumPy's rules: vectors are rows or columns, batches broadcast.
    /// `dtype`: the type of the result, if it is not that of the operands.
    ///
    /// (C1) `x` and `y` have at least one axis.
    Matmul = "matmul"(x: one(NUMBER), y: one(NUMBER)) { dtype: Option<DType> } -> (result) in matmul;
}

fn matmul(b: &Emitter<'_>, Matmul { x, y, dtype }: Matmul) -> Composed {
    Ok(vec![matmul_of(b, x, y, dtype)?])
}

pub(super) fn matmul_of(b: &Emitter<'_>, x: Value, y: Value, dtype: Option<DType>) -> Result<Value, Diagnostic> {
    match (b.rank(x), b.rank(y)) {
        (0, _) | (_, 0) => Err(Diagnostic::new(Code::E0207, "(C1) a scalar has no axis to contract")),
        // No batch on the right: all axes of the left but the last are rows.
        (rank, 1 | 2) => b.dot(x, y, &Dot { contracting: (&[rank - 1], &[0]), dtype, ..Dot::default() }),
        (1, rank) => b.squeeze(matmul_of(b, b.unsqueeze(x, &[0])?, y, dtype)?, &[rank - 2]),
        _ => batched(b, x, y, dtype),
    }
}

fn batched(b: &Emitter<'_>, x: Value, y: Value, dtype: Option<DType>) -> Result<Value, Diagnostic> {
    let rank = b.rank(x).max(b.rank(y));
    let batch = b.common_batch(x, y, rank);
    let expanded = |value: Value| {
        let sizes = b.shape(value);
        b.expand(value, &[&batch[..], &sizes[sizes.len() - 2..]].concat())
    };
    let (x, y) = (expanded(x)?, expanded(y)?);
    let axes: Vec<usize> = (0..rank - 2).collect();
    b.dot(x, y, &Dot { batching: (&axes, &axes), contracting: (&[rank - 1], &[rank - 2]), dtype })
}

composition! {
    /// `x` times the transposed `weight`, plus the bias, which is added to the sums and rounded
    /// with them.
    ///
    /// (C1) `weight` is `[out, in]`, or `[in]` for one feature; `bias` broadcasts to the result.
    Linear = "linear"(x: one(NUMBER), weight: one(NUMBER), bias: maybe(NUMBER)) -> (y) in linear;
}

fn linear(b: &Emitter<'_>, Linear { x, weight, bias }: Linear) -> Composed {
    let (dtype, rank) = (b.dtype(x), b.rank(x));
    let (Some(last), Some(inner)) = (rank.checked_sub(1), b.rank(weight).checked_sub(1)) else {
        return Err(Diagnostic::new(Code::E0207, "(C1) a scalar has no axis to contract"));
    };
    let contracting = (&[last][..], &[inner.min(1)][..]);
    let Some(bias) = bias else { return Ok(vec![b.dot(x, weight, &Dot { contracting, ..Dot::default() })?]) };
    let y = b.dot(x, weight, &Dot { contracting, dtype: Some(sum_type(dtype)), ..Dot::default() })?;
    Ok(vec![b.convert(b.add(y, b.wide(bias)?)?, dtype)?])
}

composition! {
    /// `beta * x + alpha * y`; a `beta` of 0 hides NaN in `x`, also where it is a value.
    ///
    /// (C1) `x` and `y` broadcast to one shape.
    ScaledSum = "scaled_sum"(x: one(NUMBER), y: one(NUMBER), beta: scalar(NUMBER), alpha: scalar(NUMBER)) -> (z) in scaled_sum;
}

fn scaled_sum(b: &Emitter<'_>, ScaledSum { x, y, beta, alpha }: ScaledSum) -> Composed {
    Ok(vec![scaled_sum_of(b, x, y, &beta, &alpha)?])
}

fn scaled_sum_of(b: &Emitter<'_>, x: Value, y: Value, beta: &Operand, alpha: &Operand) -> Result<Value, Diagnostic> {
    let y = if alpha.as_f64() == Some(1.0) { y } else { b.mul(y, b.lift(alpha, b.dtype(y))?)? };
    match beta.as_f64() {
        Some(0.0) => Ok(y),
        Some(1.0) => b.add(x, y),
        Some(_) => b.add(b.mul(x, beta)?, y),
        None => {
            let is_zero = is_zero(b, beta, b.dtype(x))?;
            b.select(is_zero, y, b.add(b.mul(x, b.lift(beta, b.dtype(x))?)?, y)?)
        }
    }
}

fn is_zero(b: &Emitter<'_>, scale: &Operand, dtype: DType) -> Result<Value, Diagnostic> {
    b.compare("EQ", b.lift(scale, dtype)?, b.lift(0, dtype)?)
}

composition! {
    /// `beta * x + alpha * (u matmul v)`. Of half types, all is added in f32 and rounded once. An
    /// `alpha` of 0 hides NaN in factors of f32 and f64, a `beta` of 0 those in `x`.
    ///
    /// (C1) `u` and `v` have at least one axis; `x` broadcasts to their matmul.
    Gemm = "gemm"(x: one(NUMBER), u: one(NUMBER), v: one(NUMBER), beta: scalar(NUMBER), alpha: scalar(NUMBER)) -> (y) in gemm;
}

fn gemm(b: &Emitter<'_>, Gemm { x, u, v, beta, alpha }: Gemm) -> Composed {
    let dtype = b.dtype(u);
    let mut y = matmul_of(b, u, v, Some(sum_type(dtype)))?;
    let mut alpha = alpha;
    if matches!(dtype, DType::F32 | DType::F64) {
        // BLAS reads no factors where alpha is 0.
        let zeros = b.full(0, &b.shape(y), dtype)?;
        match alpha.as_f64() {
            Some(0.0) => (y, alpha) = (zeros, 1.into()),
            Some(_) => {}
            None => y = b.select(is_zero(b, &alpha, dtype)?, zeros, y)?,
        }
    }
    Ok(vec![b.convert(scaled_sum_of(b, b.wide(x)?, y, &beta, &alpha)?, dtype)?])
}

composition! {
    /// The matmul of integers of 8 bits, summed in i32.
    ///
    /// (C1) `x` is `[M, K]` of i8 or u8, `y` is `[K, N]` of i8 or of the type of `x`.
    IntegerMatmul = "integer_matmul"(x: one(BYTES), y: one(BYTES)) -> (sums) in integer_matmul;
}

const BYTES: DTypeClass = DTypeClass::of(&[DType::I8, DType::U8]);

fn integer_matmul(b: &Emitter<'_>, IntegerMatmul { x, y }: IntegerMatmul) -> Composed {
    let form = Dot { contracting: (&[1], &[0]), dtype: Some(DType::I32), ..Dot::default() };
    if (b.dtype(x), b.dtype(y)) != (DType::U8, DType::I8) {
        return Ok(vec![b.dot(x, y, &form)?]);
    }
    // A byte is a number of i8 and 128: what all of them add is a sum of the columns.
    let shifted = b.convert(b.sub(b.convert(x, DType::I32)?, 128)?, DType::I8)?;
    let columns = b.mul(b.sum(b.convert(y, DType::I32)?, &[0], false)?, 128)?;
    Ok(vec![b.add(b.dot(shifted, y, &form)?, columns)?])
}

composition! {
    /// `x[.., i] * weight[k, i, j] * y[.., j]`, summed over `i` and `j`, plus the bias of each `k`.
    ///
    /// (C1) `weight` is `[K, I, J]`; `x` and `y` have one shape but for their last axes, `I` and
    /// `J`.
    Bilinear = "bilinear"(x: one(NUMBER), y: one(NUMBER), weight: one(NUMBER), bias: maybe(NUMBER)) -> (z) in bilinear;
}

fn bilinear(b: &Emitter<'_>, Bilinear { x, y, weight, bias }: Bilinear) -> Composed {
    let (Some(last), Some(inner), 3) = (b.rank(x).checked_sub(1), b.rank(y).checked_sub(1), b.rank(weight)) else {
        return Err(Diagnostic::new(Code::E0207, "(C1) `weight` has 3 axes, `x` and `y` at least one"));
    };
    let left = b.dot(x, weight, &Dot { contracting: (&[last], &[1]), ..Dot::default() })?;
    let right = b.unsqueeze(y, &[inner])?;
    let value = b.sum(b.mul(left, right)?, &[b.rank(left) - 1], false)?;
    Ok(vec![bias.map_or(Ok(value), |bias| b.add(value, bias))?])
}

composition! {
    /// The outer product of vectors; `x` may have more axes, which come first.
    Outer = "outer"(x: one(NUMBER), y: one(NUMBER)) -> (z) in outer;
}

fn outer(b: &Emitter<'_>, Outer { x, y }: Outer) -> Composed {
    Ok(vec![b.mul(b.unsqueeze(x, &[b.rank(x)])?, y)?])
}

/// `x` times the transposed `weight`, in the type of `x`, plus a bias.
pub(super) fn linear_sums(b: &Emitter<'_>, x: Value, weight: Value, bias: Option<Value>) -> Result<Value, Diagnostic> {
    let sums = b.dot(x, weight, &Dot { contracting: (&[1], &[1]), ..Dot::default() })?;
    bias.map_or(Ok(sums), |bias| b.add(sums, bias))
}
