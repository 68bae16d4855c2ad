//! Declares convolutions of images in NCHW, `[N, C, ..]`, and im2col with its inverse.
use super::Composed;
use crate::{
    emit::{Convolution as Form, Emitter, Sign},
    sizes::product,
};
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

/// The type that half types are summed in.
pub(super) fn sum_type(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
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

composition! {
    /// The windows of each image as columns: `[N, C * window, count]`. The image is padded by
    /// zeros.
    ///
    /// (C1) `x` is `[N, C, ..]`, or one image `[C, ..]`, with as many spatial axes as `kernel` has
    /// entries.
    /// (C2) Each list has one entry per spatial axis.
    ImageToColumns = "image_to_columns"(x: one(DTypeClass::ANY)) {
            kernel: Vec<i64>, strides: Vec<i64>, padding: Vec<i64>, dilations: Vec<i64>
        } -> (y) in image_to_columns;
}

fn image_to_columns(b: &Emitter<'_>, ImageToColumns { x, kernel, strides, padding, dilations }: ImageToColumns) -> Composed {
    let windows = Windows::new(kernel, strides, padding, dilations)?;
    let n = windows.kernel.len();
    let is_single = b.rank(x) == n + 1;
    let x = if is_single { b.unsqueeze(x, &[0])? } else { x };
    let sizes = b.shape(x);
    let [batch, features, image @ ..] = &sizes[..] else { return Err(too_few(sizes.len())) };
    if image.len() != n {
        return Err(too_few(sizes.len()));
    }
    let counts = windows.counts(image);
    let edges: Vec<Dim> = [0, 0].iter().chain(&windows.padding).map(|&padding| Dim::constant(padding)).collect();
    let x = b.pad(x, b.lift(0, b.dtype(x))?, &edges, &edges)?;
    let parts: Vec<Value> = windows
        .offsets()
        .iter()
        .map(|offset| b.unsqueeze(windows.elements_at(b, x, offset, &counts)?, &[2]))
        .collect::<Result<_, _>>()?;
    let depth = features * Dim::constant(windows.kernel.iter().product());
    let y = b.reshape(b.concatenate(&parts, 2)?, &[batch.clone(), depth, product(&counts)])?;
    Ok(vec![if is_single { b.squeeze(y, &[0])? } else { y }])
}

composition! {
    /// The inverse of `image_to_columns`: every column is a window that is added to its position in
    /// the image, whose spatial sizes are `sizes`.
    ///
    /// (C1) `x` is `[N, C * window, count]`, or one image without the first axis.
    /// (C2) Each list has one entry per spatial axis.
    ColumnsToImage = "columns_to_image"(x: one(DTypeClass::ANY)) {
            sizes: Vec<Dim>, kernel: Vec<i64>, strides: Vec<i64>, padding: Vec<i64>, dilations: Vec<i64>
        } -> (y) in columns_to_image;
}

fn columns_to_image(b: &Emitter<'_>, given: ColumnsToImage) -> Composed {
    let ColumnsToImage { x, sizes, kernel, strides, padding, dilations } = given;
    let windows = Windows::new(kernel, strides, padding, dilations)?;
    let n = windows.kernel.len();
    let is_single = b.rank(x) == 2;
    let x = if is_single { b.unsqueeze(x, &[0])? } else { x };
    let own = b.shape(x);
    let ([batch, depth, _], true) = (&own[..], sizes.len() == n) else { return Err(too_few(own.len())) };
    let counts = windows.counts(&sizes);
    let features = depth.floor_div(&Dim::constant(windows.kernel.iter().product()));
    let kernel: Vec<Dim> = windows.kernel.iter().map(|&size| Dim::constant(size)).collect();
    let x = b.reshape(x, &[vec![batch.clone(), features], kernel, counts.clone()].concat())?;
    let mut total: Option<Value> = None;
    for offset in windows.offsets() {
        let mut part = x;
        for (i, &at) in offset.iter().enumerate() {
            part = b.slice(part, 2 + i, &Dim::constant(at), &Dim::constant(at + 1), 1)?;
        }
        let part = b.squeeze(part, &(2..2 + n).collect::<Vec<_>>())?;
        let part = windows.spread(b, part, &offset, &sizes, &counts)?;
        total = Some(total.map_or(Ok(part), |total| b.add(total, part))?);
    }
    let Some(mut total) = total else { return Err(Diagnostic::new(Code::E0202, "(C2) the window has no elements")) };
    for (i, (size, &padding)) in sizes.iter().zip(&windows.padding).enumerate() {
        let start = Dim::constant(padding);
        total = b.slice(total, 2 + i, &start, &(&start + size), 1)?;
    }
    Ok(vec![if is_single { b.squeeze(total, &[0])? } else { total }])
}

fn too_few(rank: usize) -> Diagnostic {
    Diagnostic::new(Code::E0207, format!("(C1) `x` has {rank} axes, which do not fit the window"))
}

/// Windows over the spatial axes of an image, axes 2 and on.
struct Windows {
    kernel: Vec<i64>,
    strides: Vec<i64>,
    padding: Vec<i64>,
    dilations: Vec<i64>,
}

impl Windows {
    fn new(kernel: Vec<i64>, strides: Vec<i64>, padding: Vec<i64>, dilations: Vec<i64>) -> Result<Self, Diagnostic> {
        let n = kernel.len();
        match [strides.len(), padding.len(), dilations.len()].into_iter().find(|&length| length != n) {
            Some(length) => Err(Diagnostic::new(Code::E0202, format!("(C2) a list has {length} entries, expected {n}"))),
            None => Ok(Self { kernel, strides, padding, dilations }),
        }
    }

    /// The number of windows along each axis.
    fn counts(&self, sizes: &[Dim]) -> Vec<Dim> {
        let count = |i: usize| {
            let left = &sizes[i] + 2 * self.padding[i] - self.dilations[i] * (self.kernel[i] - 1) - 1;
            left.floor_div(&Dim::constant(self.strides[i])) + 1
        };
        (0..sizes.len()).map(count).collect()
    }

    /// The offsets of a window's elements, in row-major order.
    fn offsets(&self) -> Vec<Vec<i64>> {
        let longer = |offsets: Vec<Vec<i64>>, &size: &i64| {
            offsets.iter().flat_map(|offset| (0..size).map(move |at| [&offset[..], &[at]].concat())).collect()
        };
        self.kernel.iter().fold(vec![Vec::new()], longer)
    }

    /// The element at `offset` of every window.
    fn elements_at(&self, b: &Emitter<'_>, x: Value, offset: &[i64], counts: &[Dim]) -> Result<Value, Diagnostic> {
        let mut x = x;
        for (i, &at) in offset.iter().enumerate() {
            let start = Dim::constant(at * self.dilations[i]);
            let limit = &start + (&counts[i] - 1) * self.strides[i] + 1;
            x = b.slice(x, 2 + i, &start, &limit, self.strides[i])?;
        }
        Ok(x)
    }

    /// The elements at `offset` of all windows, put where they are in the padded image.
    fn spread(&self, b: &Emitter<'_>, x: Value, offset: &[i64], sizes: &[Dim], counts: &[Dim]) -> Result<Value, Diagnostic> {
        let zero = Dim::constant(0);
        let (mut low, mut high, mut interior) = (vec![zero.clone(); 2], vec![zero; 2], vec![0; 2]);
        for (i, &at) in offset.iter().enumerate() {
            let start = at * self.dilations[i];
            let reach = Dim::constant(start) + (&counts[i] - 1) * self.strides[i] + 1;
            low.push(Dim::constant(start));
            high.push(&sizes[i] + 2 * self.padding[i] - reach);
            interior.push(self.strides[i] - 1);
        }
        b.pad_apart(x, b.lift(0, b.dtype(x))?, &low, &high, &interior)
    }
}
