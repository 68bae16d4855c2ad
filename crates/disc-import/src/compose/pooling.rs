//! Declares pooling: windows of one size over the last axes of an image.
use super::{
    Composed,
    windows::{Windows, offsets},
};
use crate::emit::{Emitter, lowest};
use disc_ir::{Code, DType, Diagnostic, Dim, OpKind, Value, ops::DTypeClass};

const NUMBER: DTypeClass = DTypeClass::NUMBER;

composition! {
    /// The greatest element of each window. With `ceil`, windows may reach beyond the padded image,
    /// as long as they start in the image or in `padding_low`.
    ///
    /// (C1) Each list has one entry per axis that windows slide over, the last axes of `x`.
    MaxPool = "max_pool"(x: one(NUMBER)) {
            kernel: Vec<i64>, strides: Vec<i64>, padding_low: Vec<i64>, padding_high: Vec<i64>, dilations: Vec<i64>, ceil: bool
        } -> (y) in max_pool;
}

fn max_pool(b: &Emitter<'_>, given: MaxPool) -> Composed {
    let MaxPool { x, kernel, strides, padding_low, padding_high, dilations, ceil } = given;
    let windows = Windows::new(b, x, &kernel, &strides, (&padding_low, &padding_high), &dilations, (ceil, true))?;
    Ok(vec![windows.pool(b, x, OpKind::Maximum)?])
}

composition! {
    /// As `max_pool`, with the positions of the elements in the image (i64, row-major over the axes
    /// that windows slide over): of the first greatest one, or of the last NaN.
    ///
    /// (C1) Each list has one entry per axis that windows slide over, the last axes of `x`.
    MaxPoolPlaces = "max_pool_places"(x: one(NUMBER)) {
            kernel: Vec<i64>, strides: Vec<i64>, padding_low: Vec<i64>, padding_high: Vec<i64>, dilations: Vec<i64>, ceil: bool
        } -> (y, places) in max_pool_places;
}

fn max_pool_places(b: &Emitter<'_>, given: MaxPoolPlaces) -> Composed {
    let MaxPoolPlaces { x, kernel, strides, padding_low, padding_high, dilations, ceil } = given;
    // Each offset of a window is written out: their number is known.
    let windows = Windows::new(b, x, &kernel, &strides, (&padding_low, &padding_high), &dilations, (ceil, false))?;
    let values = windows.pool(b, x, OpKind::Maximum)?;
    Ok(vec![values, places_in_windows(b, x, &windows, &kernel)?])
}

/// The positions of the greatest elements: large windows axis after axis, in each row the position
/// of its first greatest element, then the first row that has it.
fn places_in_windows(b: &Emitter<'_>, x: Value, windows: &Windows, kernel: &[i64]) -> Result<Value, Diagnostic> {
    let (rank, n) = (b.rank(x), kernel.len());
    let lead = rank - n;
    let sizes = b.shape(x);
    let plane = [&vec![Dim::constant(1); lead][..], &sizes[lead..]].concat();
    let mut place = b.full(0, &plane, DType::I64)?;
    for (axis, size) in sizes.iter().enumerate().skip(lead) {
        place = b.add(b.mul(place, b.lift(size, DType::I64)?)?, b.iota(&plane, axis, DType::I64)?)?;
    }
    let at_once = windows.is_small(kernel);
    let groups: Vec<Vec<usize>> =
        if at_once { vec![(lead..rank).collect()] } else { (lead..rank).rev().map(|axis| vec![axis]).collect() };
    let mut x = x;
    for axes in groups {
        let edge = |side: fn(&(Dim, Dim)) -> &Dim| -> Vec<Dim> {
            let of = |axis: usize| if axes.contains(&axis) { side(&windows.edges[axis]).clone() } else { Dim::constant(0) };
            (0..rank).map(of).collect()
        };
        let (low, high) = (edge(|edge| &edge.0), edge(|edge| &edge.1));
        let padded = b.pad(x, b.lift(lowest(b.dtype(x)), b.dtype(x))?, &low, &high)?;
        let places = b.pad(place, b.lift(-1, DType::I64)?, &low, &high)?;
        let mut best: Option<(Value, Value)> = None;
        let own: Vec<i64> = axes.iter().map(|&axis| kernel[axis - lead]).collect();
        for offset in offsets(&own)? {
            let value = windows.elements_at(b, padded, axes[0], &offset)?;
            let at = windows.elements_at(b, places, axes[0], &offset)?;
            let at = b.expand(at, &b.shape(value))?;
            best = Some(best.map_or(Ok((value, at)), |best| larger(b, best, (value, at)))?);
        }
        (x, place) = best.ok_or_else(|| Diagnostic::new(Code::E0202, "(C1) the window has no elements"))?;
    }
    Ok(place)
}

/// Of two elements with their positions the larger one, the last NaN; a position below 0 is none.
fn larger(b: &Emitter<'_>, best: (Value, Value), new: (Value, Value)) -> Result<(Value, Value), Diagnostic> {
    let ((best, place), (value, at)) = (best, new);
    let greater = b.compare("GT", value, best)?;
    let mut better = b.map(OpKind::Or, &[greater, b.compare("LT", place, 0)?])?;
    if b.dtype(value).is_float() {
        better = b.map(OpKind::Or, &[better, b.is_nan(value)?])?;
    }
    let better = b.map(OpKind::And, &[better, b.compare("GE", at, 0)?])?;
    Ok((b.select(better, value, best)?, b.select(better, at, place)?))
}

composition! {
    /// The mean of each window: of the elements of the image in it, or, with `count_padding`, of
    /// these and the stated padding; or the sum divided by `divisor`. Half types are summed in f32.
    ///
    /// (C1) Each list has one entry per axis that windows slide over, the last axes of `x`.
    AveragePool = "average_pool"(x: one(NUMBER)) {
            kernel: Vec<i64>, strides: Vec<i64>, padding_low: Vec<i64>, padding_high: Vec<i64>, ceil: bool, count_padding: bool,
            divisor: Option<i64>
        } -> (y) in average_pool;
}

fn average_pool(b: &Emitter<'_>, given: AveragePool) -> Composed {
    let AveragePool { x, kernel, strides, padding_low, padding_high, ceil, count_padding, divisor } = given;
    let dtype = b.dtype(x);
    let wide = b.wide(x)?;
    let dilations = vec![1; kernel.len()];
    let windows = Windows::new(b, wide, &kernel, &strides, (&padding_low, &padding_high), &dilations, (ceil, true))?;
    let total = windows.pool(b, wide, OpKind::Add)?;
    let is_bare = padding_low.iter().chain(&padding_high).all(|&padding| padding == 0);
    let mean = match divisor {
        Some(divisor) => b.div(total, divisor)?,
        None if !ceil && (count_padding || is_bare) => b.div(total, kernel.iter().map(|&size| size as f64).product::<f64>())?,
        None => {
            let stated = count_padding.then_some((&padding_low[..], &padding_high[..]));
            b.div(total, counts(b, wide, windows, stated)?)?
        }
    };
    Ok(vec![b.convert(mean, dtype)?])
}

/// Counts the elements of each window: those of the image, and its stated padding if it counts.
fn counts(b: &Emitter<'_>, x: Value, mut windows: Windows, stated: Option<(&[i64], &[i64])>) -> Result<Value, Diagnostic> {
    let (sizes, dtype) = (b.shape(x), b.dtype(x));
    let lead = sizes.len() - windows.n;
    let plane = [&vec![Dim::constant(1); lead][..], &sizes[lead..]].concat();
    let mut ones = b.full(1, &plane, dtype)?;
    if let Some((low, high)) = stated {
        let all = |own: &[i64]| -> Vec<Dim> { vec![0; lead].iter().chain(own).map(|&padding| Dim::constant(padding)).collect() };
        let (low, high) = (all(low), all(high));
        ones = b.pad(ones, b.lift(1, dtype)?, &low, &high)?;
        for ((edge, low), high) in windows.edges.iter_mut().zip(&low).zip(&high) {
            *edge = (&edge.0 - low, &edge.1 - high);
        }
    }
    windows.pool(b, ones, OpKind::Add)
}
