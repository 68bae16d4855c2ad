//! Declares normalisations. Half types are computed in f32.
//!
//! The mean is computed in two passes, and what its rounding left is added: it is wrong by up to an
//! ULP of the values, and where these are equal, a multiple of that would be all there is.
use super::{
    Composed, axes_of,
    reduction::{Moments, count},
};
use crate::emit::{Emitter, Operand};
use disc_ir::{Code, DType, Diagnostic, Dim, OpKind, Value, ops::DTypeClass};

const FLOAT: DTypeClass = DTypeClass::FLOAT;

composition! {
    /// `(x - mean) / sqrt(variance + epsilon) * scale + bias` over `axes`, and mean and
    /// `1 / sqrt(variance + epsilon)` with the axes kept: in the type of `x` if scale and bias have
    /// it too, else as they are computed.
    ///
    /// (C1) `axes` are distinct axes of `x`.
    /// (C2) `scale` and `bias` broadcast to `x`.
    LayerNorm = "layer_norm"(x: one(FLOAT), scale: maybe(FLOAT), bias: maybe(FLOAT), epsilon: scalar(FLOAT)) { axes: Vec<i64> }
        -> (y, mean, deviation) in layer_norm;
}

fn layer_norm(b: &Emitter<'_>, LayerNorm { x, scale, bias, epsilon, axes }: LayerNorm) -> Composed {
    let axes = axes_of(b, x, &axes)?;
    let wide = b.wide(x)?;
    let norm = normalised(b, wide, &axes, epsilon)?;
    let [mean, deviation] = rounded(b, x, [norm.mean, norm.deviation], &[scale, bias])?;
    let y = b.convert(affine(b, norm.y, scale, bias, None)?, b.dtype(x))?;
    Ok(vec![y, mean, deviation])
}

composition! {
    /// `x / sqrt(mean(x^2) + epsilon) * scale` over `axes`.
    ///
    /// (C1) `axes` are distinct axes of `x`.
    /// (C2) `scale` broadcasts to `x`.
    RmsNorm = "rms_norm"(x: one(FLOAT), scale: maybe(FLOAT), epsilon: scalar(FLOAT)) { axes: Vec<i64> } -> (y) in rms_norm;
}

fn rms_norm(b: &Emitter<'_>, RmsNorm { x, scale, epsilon, axes }: RmsNorm) -> Composed {
    let axes = axes_of(b, x, &axes)?;
    let wide = b.wide(x)?;
    let square = b.div(b.sum(b.mul(wide, wide)?, &axes, true)?, count(b, wide, &axes)?)?;
    let y = b.mul(wide, b.op(OpKind::Rsqrt, &[b.add(square, epsilon)?])?)?;
    Ok(vec![b.convert(affine(b, y, scale, None, None)?, b.dtype(x))?])
}

composition! {
    /// `g * v / |v|`, with one norm for each index of the `kept` axes.
    ///
    /// (C1) `kept` are distinct axes of `v`.
    /// (C2) `g` broadcasts to `v`.
    WeightNorm = "weight_norm"(v: one(FLOAT), g: one(FLOAT)) { kept: Vec<i64> } -> (y) in weight_norm;
}

fn weight_norm(b: &Emitter<'_>, WeightNorm { v, g, kept }: WeightNorm) -> Composed {
    let kept = axes_of(b, v, &kept)?;
    let wide = b.wide(v)?;
    let others: Vec<usize> = (0..b.rank(v)).filter(|axis| !kept.contains(axis)).collect();
    let norm = b.op(OpKind::Sqrt, &[b.sum(b.mul(wide, wide)?, &others, true)?])?;
    Ok(vec![b.convert(b.mul(wide, b.div(b.wide(g)?, norm)?)?, b.dtype(v))?])
}

composition! {
    /// The norm of each of `groups` groups of features, with scale and bias for each feature, and
    /// mean and `1 / sqrt(variance + epsilon)` for each group, as `layer_norm` has them.
    ///
    /// (C1) `x` is `[N, C, ..]`, and `groups` divides `C`.
    /// (C2) `scale` and `bias` are `[C]`.
    GroupNorm = "group_norm"(x: one(FLOAT), scale: maybe(FLOAT), bias: maybe(FLOAT), epsilon: scalar(FLOAT)) { groups: i64 }
        -> (y, mean, deviation) in group_norm;
}

fn group_norm(b: &Emitter<'_>, GroupNorm { x, scale, bias, epsilon, groups }: GroupNorm) -> Composed {
    let wide = b.wide(x)?;
    let sizes = b.shape(x);
    let [batch, features, rest @ ..] = &sizes[..] else { return Err(too_few_axes(1, 2, sizes.len())) };
    let groups = Dim::constant(groups);
    let group = features.floor_div(&groups) * Dim::product(rest.iter().cloned());
    let grouped = b.reshape(wide, &[batch.clone(), groups, group])?;
    let norm = normalised(b, grouped, &[2], epsilon)?;
    let y = affine(b, b.reshape(norm.y, &sizes)?, scale, bias, Some(1))?;
    let [mean, deviation] = rounded(b, x, [norm.mean, norm.deviation], &[scale, bias])?;
    Ok(vec![b.convert(y, b.dtype(x))?, b.squeeze(mean, &[2])?, b.squeeze(deviation, &[2])?])
}

composition! {
    /// `(x - mean) / sqrt(variance + epsilon)` over `axes`, with scale and bias for each feature;
    /// and mean and `1 / sqrt(variance + epsilon)` as they are computed, with the axes kept. Over
    /// the spatial axes it is the norm of instances, with axis 0 that of a batch.
    ///
    /// (C1) `axes` are distinct axes of `x`, which is `[N, C, ..]`.
    /// (C2) `scale` and `bias` are `[C]`.
    FeatureNorm = "feature_norm"(x: one(FLOAT), scale: maybe(FLOAT), bias: maybe(FLOAT), epsilon: scalar(FLOAT)) { axes: Vec<i64> }
        -> (y, mean, deviation) in feature_norm;
}

fn feature_norm(b: &Emitter<'_>, FeatureNorm { x, scale, bias, epsilon, axes }: FeatureNorm) -> Composed {
    let axes = axes_of(b, x, &axes)?;
    let norm = normalised(b, b.wide(x)?, &axes, epsilon)?;
    let y = b.convert(affine(b, norm.y, scale, bias, Some(1))?, b.dtype(x))?;
    Ok(vec![y, norm.mean, norm.deviation])
}

composition! {
    /// `(x - mean) / sqrt(variance + epsilon) * scale + bias` for each feature.
    ///
    /// (C1) `x` is `[N, C, ..]`.
    /// (C2) `scale`, `bias`, `mean` and `variance` are `[C]`.
    BatchNorm = "batch_norm"(x: one(FLOAT), scale: maybe(FLOAT), bias: maybe(FLOAT), mean: one(FLOAT), variance: one(FLOAT),
        epsilon: scalar(FLOAT)) -> (y) in batch_norm;
}

fn batch_norm(b: &Emitter<'_>, BatchNorm { x, scale, bias, mean, variance, epsilon }: BatchNorm) -> Composed {
    let wide = b.wide(x)?;
    // One factor and one summand for each feature.
    let mut factor = b.op(OpKind::Rsqrt, &[b.add(b.wide(variance)?, epsilon)?])?;
    if let Some(scale) = scale {
        factor = b.mul(factor, b.wide(scale)?)?;
    }
    let mut shift = b.neg(b.mul(b.wide(mean)?, factor)?)?;
    if let Some(bias) = bias {
        shift = b.add(shift, b.wide(bias)?)?;
    }
    let dtype = b.dtype(wide);
    let (factor, shift) = (b.convert(factor, dtype)?, b.convert(shift, dtype)?);
    Ok(vec![b.convert(affine(b, wide, Some(factor), Some(shift), Some(1))?, b.dtype(x))?])
}

/// A normalised tensor, with its mean and `1 / sqrt(variance + epsilon)`, axes kept.
struct Norm {
    y: Value,
    mean: Value,
    deviation: Value,
}

fn normalised(b: &Emitter<'_>, x: Value, axes: &[usize], epsilon: Operand) -> Result<Norm, Diagnostic> {
    let number = count(b, x, axes)?;
    let Moments { mean, squares, distances } = Moments::of(b, x, axes)?;
    let deviation = b.op(OpKind::Rsqrt, &[b.add(b.div(squares, number)?, epsilon)?])?;
    let mean = b.add(mean, b.div(distances, number)?)?;
    let y = b.mul(b.sub(x, mean)?, deviation)?;
    Ok(Norm { y, mean, deviation })
}

/// Times weight plus bias, along one axis, or along the last ones.
fn affine(
    b: &Emitter<'_>,
    x: Value,
    scale: Option<Value>,
    bias: Option<Value>,
    axis: Option<usize>,
) -> Result<Value, Diagnostic> {
    let (dtype, sizes) = (b.dtype(x), b.shape(x));
    let placed = |factor: Value| {
        let factor = b.convert(factor, dtype)?;
        axis.map_or(Ok(factor), |axis| b.broadcast(factor, &sizes, &[axis]))
    };
    let scaled = scale.map_or(Ok(x), |scale| b.mul(x, placed(scale)?))?;
    bias.map_or(Ok(scaled), |bias| b.add(scaled, placed(bias)?))
}

/// Statistics of half precision only if all parameters are.
fn rounded(b: &Emitter<'_>, x: Value, statistics: [Value; 2], parameters: &[Option<Value>]) -> Result<[Value; 2], Diagnostic> {
    let dtype = b.dtype(x);
    let is_half = parameters.iter().flatten().all(|&parameter| b.dtype(parameter) == dtype);
    let [mean, deviation] = statistics;
    let to = |value: Value| -> DType { if is_half { dtype } else { b.dtype(value) } };
    Ok([b.convert(mean, to(mean))?, b.convert(deviation, to(deviation))?])
}

fn too_few_axes(constraint: u32, expected: usize, came: usize) -> Diagnostic {
    Diagnostic::new(Code::E0207, format!("(C{constraint}) `x` has {came} axes, expected at least {expected}"))
}
