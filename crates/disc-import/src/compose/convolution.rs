//! Declares convolutions of images in NCHW, `[N, C, ..]`, and im2col with its inverse.
use super::Composed;
use crate::emit::{Convolution as Form, Emitter, Sign, sum_type};
use disc_ir::{Code, DType, Diagnostic, Dim, Value, ops::DTypeClass};

const NUMBER: DTypeClass = DTypeClass::NUMBER;

composition! {
    /// Convolves each image by the filters of `w`, and adds the bias of each feature. Half types
    /// are summed in f32, with the bias.
    ///
    /// (C1) `w` is `[O, C / groups, ..]`; `x` is `[N, C, ..]`, or one image `[C, ..]`.
    /// (C2) Each list has one entry per spatial axis.
    /// (C3) `bias` is `[O]`.
    Convolution = "convolution"(x: one(NUMBER), w: one(NUMBER), bias: maybe(NUMBER)) {
            strides: Vec<i64>, padding_low: Vec<Dim>, padding_high: Vec<Dim>, dilations: Vec<i64>, groups: i64
        } -> (y) in convolution;
}

fn convolution(b: &Emitter<'_>, given: Convolution) -> Composed {
    let Convolution { x, w, bias, strides, padding_low, padding_high, dilations, groups } = given;
    let n = spatial_axes(b, w, &[strides.len(), padding_low.len(), padding_high.len(), dilations.len()])?;
    let padding = padding_low.into_iter().zip(padding_high).collect();
    let dilations = (vec![1; n], dilations);
    of_batch(b, x, n, bias, |x, dtype| b.convolution(x, w, &Form { strides, padding, dilations, groups, dtype: Some(dtype) }))
}

composition! {
    /// The convolution whose gradient `convolution` is: each element of `x` adds the filters of `w`
    /// to the image, `strides` apart. `padding_low` and `padding_high` are cut off the image, and
    /// `output_padding` is added at its end.
    ///
    /// (C1) `w` is `[C, O / groups, ..]`; `x` is `[N, C, ..]`, or one image `[C, ..]`, with
    /// elements along each spatial axis.
    /// (C2) Each list has one entry per spatial axis.
    /// (C3) `bias` is `[O]`.
    TransposedConvolution = "transposed_convolution"(x: one(NUMBER), w: one(NUMBER), bias: maybe(NUMBER)) {
            strides: Vec<i64>, padding_low: Vec<Dim>, padding_high: Vec<Dim>, output_padding: Vec<Dim>, dilations: Vec<i64>, groups: i64
        } -> (y) in transposed_convolution;
}

fn transposed_convolution(b: &Emitter<'_>, given: TransposedConvolution) -> Composed {
    let TransposedConvolution { x, w, bias, strides, padding_low, padding_high, output_padding, dilations, groups } = given;
    let lists = [strides.len(), padding_low.len(), padding_high.len(), output_padding.len(), dilations.len()];
    let n = spatial_axes(b, w, &lists)?;
    of_batch(b, x, n, bias, |x, dtype| {
        for size in b.shape(x).iter().skip(2) {
            // Frameworks refuse an empty image too, and what a window leaves of it has no simple
            // form.
            b.require(size, Sign::Ge, &Dim::constant(1))?;
        }
        let sizes = b.shape(w);
        let kernel = &sizes[2..];
        let reaches: Vec<Dim> = kernel.iter().zip(&dilations).map(|(size, &dilation)| (size - 1) * dilation).collect();
        let low = reaches.iter().zip(&padding_low).map(|(reach, padding)| reach - padding);
        let cut = reaches.iter().zip(&padding_high).map(|(reach, padding)| reach - padding);
        let high = cut.zip(&output_padding).map(|(edge, extra)| edge + extra);
        let padding = low.zip(high).collect();
        let turned = transposed_filters(b, w, groups)?;
        let form = Form { strides: vec![1; n], padding, dilations: (strides, dilations), groups, dtype: Some(dtype) };
        b.convolution(x, turned, &form)
    })
}

/// `[C, O / groups, ..]` as the filters `[O, C / groups, ..]` of a convolution, mirrored.
fn transposed_filters(b: &Emitter<'_>, w: Value, groups: i64) -> Result<Value, Diagnostic> {
    let sizes = b.shape(w);
    let groups = Dim::constant(groups);
    let (own, out, kernel) = (sizes[0].floor_div(&groups), &sizes[1], &sizes[2..]);
    let w = b.reshape(w, &[&[groups.clone(), own.clone(), out.clone()], kernel].concat())?;
    let order: Vec<usize> = [0, 2, 1].into_iter().chain(3..3 + kernel.len()).collect();
    let w = b.reshape(b.transpose(w, &order)?, &[&[groups * out, own], kernel].concat())?;
    let spatial: Vec<usize> = (2..2 + kernel.len()).collect();
    b.reverse(w, &spatial)
}

/// Applies `f` to a batch, or to one image as a batch of one, and adds the bias of each feature to
/// the sums, which half types round afterwards.
fn of_batch(
    b: &Emitter<'_>,
    x: Value,
    n: usize,
    bias: Option<Value>,
    f: impl FnOnce(Value, DType) -> Result<Value, Diagnostic>,
) -> Composed {
    let (dtype, rank) = (b.dtype(x), b.rank(x));
    if rank != n + 1 && rank != n + 2 {
        let message = format!("(C1) `x` has {rank} axes, expected {} or {} beside filters of {} axes", n + 1, n + 2, n + 2);
        return Err(Diagnostic::new(Code::E0207, message));
    }
    let is_single = rank == n + 1;
    let batch = if is_single { b.unsqueeze(x, &[0])? } else { x };
    let mut y = f(batch, if bias.is_none() { dtype } else { sum_type(dtype) })?;
    if let Some(bias) = bias {
        let sizes = b.shape(y);
        y = b.convert(b.add(y, b.broadcast(b.wide(bias)?, &sizes, &[1])?)?, dtype)?;
    }
    Ok(vec![if is_single { b.squeeze(y, &[0])? } else { y }])
}

fn spatial_axes(b: &Emitter<'_>, w: Value, lists: &[usize]) -> Result<usize, Diagnostic> {
    let rank = b.rank(w);
    let Some(n) = rank.checked_sub(2) else {
        return Err(Diagnostic::new(Code::E0207, format!("(C1) `w` has {rank} axes, expected at least 2")));
    };
    match lists.iter().find(|&&length| length != n) {
        Some(length) => Err(Diagnostic::new(Code::E0202, format!("(C2) a list has {length} entries, expected {n}"))),
        None => Ok(n),
    }
}
