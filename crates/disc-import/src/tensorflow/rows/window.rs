//! Lowers convolutions and pools. Features are the last axis of an image, or axis 1; padding SAME
//! gives as many results as strides.
use super::{
    super::row::{Items, Lower, Row, one},
    shape::{to_features_first, to_features_last},
};
use crate::{
    compose::{Convolution, TransposedConvolution},
    emit::Window,
};
use disc_ir::{Code, Diagnostic, Dim, OpKind, Value};

pub(in super::super) const ROWS: &[(&str, Lower)] = &[
    ("AvgPool", Lower::Row(average_pool)),
    ("AvgPool3D", Lower::Row(average_pool)),
    ("Conv2D", Lower::Row(convolution)),
    ("Conv2DBackpropInput", Lower::Row(transposed_convolution)),
    ("Conv3D", Lower::Row(convolution)),
    ("DepthwiseConv2dNative", Lower::Row(depthwise_convolution)),
    ("MaxPool", Lower::Row(max_pool)),
    ("MaxPool3D", Lower::Row(max_pool)),
];

/// The layout of an image, and the spatial part of the attributes that have an entry for each axis.
struct Layout {
    rank: usize,
    features_first: bool,
}

impl Layout {
    fn of(row: &Row<'_, '_>, x: Value) -> Result<Self, Diagnostic> {
        let rank = row.b.rank(x);
        let default = if rank == 5 { "NDHWC" } else { "NHWC" };
        let features_first = row.attrs.text("data_format", default)?.starts_with("NC");
        if rank < 3 {
            return Err(Diagnostic::new(Code::E1004, format!("expected an image of at least 3 axes, got {rank}")));
        }
        Ok(Self { rank, features_first })
    }

    fn first_spatial(&self) -> usize {
        if self.features_first { 2 } else { 1 }
    }

    /// The entries of an attribute for the spatial axes.
    fn spatial<T: Clone>(&self, all: &[T]) -> Vec<T> {
        let first = self.first_spatial();
        all.get(first..first + self.rank - 2).map(<[T]>::to_vec).unwrap_or_default()
    }

    /// The spatial part of a list attribute; all 1 if it is absent.
    fn ints(&self, row: &Row<'_, '_>, name: &str) -> Result<Vec<i64>, Diagnostic> {
        let all = row.attrs.ints(name)?;
        if all.is_empty() {
            return Ok(vec![1; self.rank - 2]);
        }
        let first = self.first_spatial();
        let is_spatial = |axis: usize| (first..first + self.rank - 2).contains(&axis);
        if all.len() != self.rank || all.iter().enumerate().any(|(axis, &entry)| !is_spatial(axis) && entry != 1) {
            return Err(Diagnostic::new(
                Code::E1004,
                format!("`{name}` is {all:?}: only spatial axes can have other entries than 1"),
            ));
        }
        Ok(self.spatial(&all))
    }

    fn features_first(&self, row: &Row<'_, '_>, x: Value) -> Result<Value, Diagnostic> {
        if self.features_first { Ok(x) } else { row.b.transpose(x, &to_features_first(self.rank)) }
    }

    fn restored(&self, row: &Row<'_, '_>, x: Value) -> Result<Value, Diagnostic> {
        if self.features_first { Ok(x) } else { row.b.transpose(x, &to_features_last(self.rank)) }
    }
}

/// The padding before and after each spatial axis of sizes `sizes`.
fn padding(
    row: &Row<'_, '_>,
    layout: &Layout,
    sizes: &[Dim],
    reach: &[i64],
    strides: &[i64],
) -> Result<(Vec<Dim>, Vec<Dim>), Diagnostic> {
    let explicit = row.attrs.ints("explicit_paddings")?;
    let zeros = || vec![Dim::constant(0); sizes.len()];
    match row.attrs.text("padding", "VALID")? {
        "VALID" => Ok((zeros(), zeros())),
        "SAME" => {
            let total = sizes.iter().zip(reach).zip(strides).map(|((size, &reach), &stride)| same_padding(size, reach, stride));
            let total: Vec<Dim> = total.collect();
            let low: Vec<Dim> = total.iter().map(|total| total.floor_div(&Dim::constant(2))).collect();
            let high = total.iter().zip(&low).map(|(total, low)| total - low).collect();
            Ok((low, high))
        }
        "EXPLICIT" if explicit.len() == 2 * layout.rank => {
            let of = |side: usize| -> Vec<i64> { explicit.iter().skip(side).step_by(2).copied().collect() };
            let dims = |side| layout.spatial(&of(side)).into_iter().map(Dim::from).collect();
            Ok((dims(0), dims(1)))
        }
        "EXPLICIT" => {
            let message = format!("expected `explicit_paddings` of {} entries, got {}", 2 * layout.rank, explicit.len());
            Err(Diagnostic::new(Code::E1004, message))
        }
        other => Err(Diagnostic::new(Code::E1004, format!("expected the padding SAME, VALID or EXPLICIT, got {other}"))),
    }
}

/// The padding of an axis that gives `ceil(size / stride)` results.
fn same_padding(size: &Dim, reach: i64, stride: i64) -> Dim {
    if stride == 1 {
        return Dim::from(reach) - 1;
    }
    let count = size.ceil_div(&Dim::from(stride));
    Dim::max(&((count - 1) * stride + reach - size), &Dim::constant(0))
}

fn reach(kernel: &[i64], dilations: &[i64]) -> Vec<i64> {
    kernel
        .iter()
        .zip(dilations)
        .map(|(kernel, dilation)| kernel.saturating_sub(1).saturating_mul(*dilation).saturating_add(1))
        .collect()
}

/// The spatial sizes of a filter, its first axes.
fn kernel_of(row: &Row<'_, '_>, w: Value, spatial: usize) -> Result<Vec<i64>, Diagnostic> {
    let shape = row.b.shape(w);
    let sizes = shape.iter().take(spatial).map(Dim::as_const).collect::<Option<Vec<i64>>>();
    let sizes = sizes.filter(|sizes| sizes.len() == spatial && shape.len() == spatial + 2);
    sizes.ok_or_else(|| {
        Diagnostic::new(Code::E1004, format!("expected a filter of {} axes, and sizes that are known", spatial + 2))
    })
}

fn convolution(row: &Row<'_, '_>) -> Items {
    row.attrs.ignore(&["use_cudnn_on_gpu"]);
    let (b, x, w) = (row.b, row.tensor(0)?, row.tensor(1)?);
    let spatial = b.rank(x).saturating_sub(2);
    // [.., C, O] to [O, C, ..]
    let order: Vec<usize> = [spatial + 1, spatial].into_iter().chain(0..spatial).collect();
    let kernel = kernel_of(row, w, spatial)?;
    let filters = b.transpose(w, &order)?;
    let groups = groups(row, x, b.size_of(filters, 1)?)?;
    convolved(row, x, filters, &kernel, groups)
}

/// The number of groups: features of the image over those of a filter.
fn groups(row: &Row<'_, '_>, x: Value, of_filter: Dim) -> Result<i64, Diagnostic> {
    let layout = Layout::of(row, x)?;
    let features = row.b.size_of(x, if layout.features_first { 1 } else { layout.rank - 1 })?;
    match (features.as_const(), of_filter.as_const()) {
        (Some(all), Some(one)) if one > 0 && all % one == 0 => Ok(all / one),
        (Some(all), Some(one)) => Err(Diagnostic::new(Code::E1004, format!("{all} features of the image, {one} of the filter"))),
        _ => Ok(1),
    }
}

fn depthwise_convolution(row: &Row<'_, '_>) -> Items {
    let (b, x, w) = (row.b, row.tensor(0)?, row.tensor(1)?);
    let kernel = kernel_of(row, w, 2)?;
    // [H, W, C, M] to [C * M, 1, H, W]
    let moved = b.transpose(w, &[2, 3, 0, 1])?;
    let [c, m, h, v]: [Dim; 4] =
        b.shape(moved).try_into().map_err(|_| Diagnostic::new(Code::E1004, "expected a filter of 4 axes"))?;
    let groups = c.as_const().ok_or_else(|| Diagnostic::new(Code::E1006, "the number of features has to be known"))?;
    let filters = b.reshape(moved, &[c * m, Dim::constant(1), h, v])?;
    convolved(row, x, filters, &kernel, groups)
}

fn convolved(row: &Row<'_, '_>, x: Value, w: Value, kernel: &[i64], groups: i64) -> Items {
    let (b, layout) = (row.b, Layout::of(row, x)?);
    let (strides, dilations) = (layout.ints(row, "strides")?, layout.ints(row, "dilations")?);
    let image = layout.features_first(row, x)?;
    let sizes = b.shape(image).split_off(2);
    let (padding_low, padding_high) = padding(row, &layout, &sizes, &reach(kernel, &dilations), &strides)?;
    let y = row.compose(Convolution { x: image, w, bias: None, strides, padding_low, padding_high, dilations, groups })?;
    one(layout.restored(row, y)?)
}

/// The gradient of a convolution by its image: inputs are its sizes, the filters, and the gradient
/// of the result.
fn transposed_convolution(row: &Row<'_, '_>) -> Items {
    row.attrs.ignore(&["use_cudnn_on_gpu"]);
    let (b, wanted, w, x) = (row.b, row.sizes(0)?, row.tensor(1)?, row.tensor(2)?);
    let layout = Layout::of(row, x)?;
    let kernel = kernel_of(row, w, 2)?;
    let (strides, dilations) = (layout.ints(row, "strides")?, layout.ints(row, "dilations")?);
    let out = layout.spatial(&wanted.dims);
    let reach = reach(&kernel, &dilations);
    let (padding_low, padding_high) = padding(row, &layout, &out, &reach, &strides)?;
    let image = layout.features_first(row, x)?;
    let sizes = b.shape(image).split_off(2);
    // What the stated sizes have beyond those that follow from the gradient's.
    let axes = out.iter().zip(&sizes).zip(strides.iter().zip(&reach)).zip(padding_low.iter().zip(&padding_high));
    let output_padding =
        axes.map(|(((out, size), (&stride, &reach)), (low, high))| out - ((size - 1) * stride + reach - low - high)).collect();
    // [H, W, O, C] to [C, O, H, W]
    let w = b.transpose(w, &[3, 2, 0, 1])?;
    let y = row.compose(TransposedConvolution {
        x: image,
        w,
        bias: None,
        strides,
        padding_low,
        padding_high,
        output_padding,
        dilations,
        groups: 1,
    })?;
    one(layout.restored(row, y)?)
}

/// The windows of a pool, with features where they are.
fn windows(row: &Row<'_, '_>, x: Value) -> Result<Window, Diagnostic> {
    let layout = Layout::of(row, x)?;
    let (kernel, strides) = (layout.ints(row, "ksize")?, layout.ints(row, "strides")?);
    let first = layout.first_spatial();
    let sizes = layout.spatial(&row.b.shape(x));
    let (low, high) = padding(row, &layout, &sizes, &kernel, &strides)?;
    let all = |spatial: &[i64]| -> Vec<i64> {
        let mut all = vec![1; layout.rank];
        all.splice(first..first + spatial.len().min(layout.rank - first), spatial.iter().copied());
        all
    };
    let mut padding = vec![(Dim::constant(0), Dim::constant(0)); layout.rank];
    for (edges, own) in padding.iter_mut().skip(first).zip(low.into_iter().zip(high)) {
        *edges = own;
    }
    Ok(Window {
        sizes: all(&kernel).into_iter().map(Dim::from).collect(),
        strides: all(&strides),
        dilations: vec![1; layout.rank],
        padding,
    })
}

fn max_pool(row: &Row<'_, '_>) -> Items {
    let x = row.tensor(0)?;
    one(row.b.reduce_window(x, OpKind::Maximum, &windows(row, x)?)?)
}

/// The mean of the elements of the image in each window.
fn average_pool(row: &Row<'_, '_>) -> Items {
    let (b, x) = (row.b, row.tensor(0)?);
    let window = windows(row, x)?;
    let wide = b.wide(x)?;
    let sums = b.reduce_window(wide, OpKind::Add, &window)?;
    let is_padded = window.padding.iter().any(|(low, high)| !low.is_const(0) || !high.is_const(0));
    let count = if is_padded {
        b.reduce_window(b.full(1, &b.shape(wide), b.dtype(wide))?, OpKind::Add, &window)?
    } else {
        let elements: f64 = window.sizes.iter().filter_map(Dim::as_const).map(|n| n as f64).product();
        b.full(elements, &[], b.dtype(wide))?
    };
    one(b.convert(b.div(sums, count)?, b.dtype(x))?)
}
