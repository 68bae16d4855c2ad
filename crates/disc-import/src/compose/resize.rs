//! Declares resizing: each cell of the result reads computed positions of each axis of the image.
//!
//! Enlarging by a small whole factor computes the cells that one cell becomes side by side, so that
//! nothing is gathered.
use super::{
    Composed,
    positions::{Axis, Coordinates},
};
use crate::emit::{Emitter, Operand, Sign};
use disc_ir::{Code, DType, Diagnostic, Dim, OpKind, Value, ops::DTypeClass};

const FLOAT: DTypeClass = DTypeClass::FLOAT;
const ANY: DTypeClass = DTypeClass::ANY;

/// Factors whose weights are exact and whose vectors can be interleaved.
const PHASES: [i64; 2] = [2, 4];

/// Cells for which the repetition of cells is compared with the rounding of f32.
const CHECKED: i64 = 1 << 20;

words! {
    /// The cell that is nearest to a position.
    Rounding { Floor = "floor", Ceil = "ceil", HalfDown = "half_down", HalfUp = "half_up" }
}

composition! {
    /// An image with other sizes, each cell that of `x` nearest to its position, which is rounded
    /// by `rounding`. For cell `i` and `step = 1 / scale` the position is `(i + 0.5) * step - 0.5`
    /// (half_pixel), `i * step` (asymmetric), `(i + 0.5) * step` (centers), or such that the first
    /// and the last cells of both images coincide (align_corners). It is computed in f32.
    ///
    /// (C1) `sizes` are those of the result along the last axes of `x`; none of these is empty.
    /// (C2) `scales` are the numbers of cells of the result for each cell of `x`, one for each of
    /// these axes. An absent one, or one that is not positive, is the quotient of the sizes. If an
    /// axis has grown by a factor of `exact`, a given scale of up to 1 more is that factor.
    ResizeNearest = "resize_nearest"(x: one(ANY), scales: scalars(FLOAT)) {
            sizes: Vec<Dim>, coordinates: Coordinates, rounding: Rounding, exact: Option<Vec<i64>>
        } -> (y) in resize_nearest;
}

fn resize_nearest(b: &Emitter<'_>, given: ResizeNearest) -> Composed {
    let ResizeNearest { x, scales, sizes, coordinates, rounding, exact } = given;
    let exact = exact.unwrap_or_default();
    resized(b, x, (&sizes, &scales, &exact), coordinates, |b, x, axis, factor| match factor {
        Some(factor) if repeats_cells(factor, coordinates, rounding) => repeat_cells(b, x, axis.axis, factor),
        _ => nearest_cell(b, x, axis, rounding),
    })
}

composition! {
    /// An image with other sizes, each cell the mean of the nearest two cells along each axis,
    /// weighted by their distances from its position, which is as in `resize_nearest`. Beyond an
    /// end is the last cell. Half types are computed in f32.
    ///
    /// (C1) `sizes` are those of the result along the last axes of `x`; none of these is empty.
    /// (C2) `scales` and `exact` are as in `resize_nearest`.
    ResizeLinear = "resize_linear"(x: one(FLOAT), scales: scalars(FLOAT)) {
            sizes: Vec<Dim>, coordinates: Coordinates, exact: Option<Vec<i64>>
        } -> (y) in resize_linear;
}

fn resize_linear(b: &Emitter<'_>, ResizeLinear { x, scales, sizes, coordinates, exact }: ResizeLinear) -> Composed {
    let (dtype, exact) = (b.dtype(x), exact.unwrap_or_default());
    let y = resized(b, b.wide(x)?, (&sizes, &scales, &exact), coordinates, |b, x, axis, factor| match factor {
        Some(factor) if axis.axis + 1 == b.rank(x) && PHASES.contains(&factor) && coordinates == Coordinates::HalfPixel => {
            linear_phases(b, x, axis.axis, factor)
        }
        _ => between_two(b, x, axis),
    })?;
    y.into_iter().map(|y| b.convert(y, dtype)).collect()
}

composition! {
    /// An image with other sizes, each cell the sum of four cells along each axis, weighted by the
    /// polynomials of Keys with `coefficient` (-0.75 if it is absent) at its position, which is as
    /// in `resize_nearest`. Beyond an end is the last cell. Half types are computed in f32.
    ///
    /// (C1) `sizes` are those of the result along the last axes of `x`; none of these is empty.
    /// (C2) `scales` are as in `resize_nearest`.
    ResizeCubic = "resize_cubic"(x: one(FLOAT), scales: scalars(FLOAT)) {
            sizes: Vec<Dim>, coordinates: Coordinates, coefficient: Option<f64>
        } -> (y) in resize_cubic;
}

fn resize_cubic(b: &Emitter<'_>, ResizeCubic { x, scales, sizes, coordinates, coefficient }: ResizeCubic) -> Composed {
    let (dtype, a) = (b.dtype(x), coefficient.unwrap_or(KEYS));
    let y = resized(b, b.wide(x)?, (&sizes, &scales, &[]), coordinates, |b, x, axis, _| of_four(b, x, axis, a))?;
    y.into_iter().map(|y| b.convert(y, dtype)).collect()
}

/// The coefficient of the polynomials of Keys.
pub(super) const KEYS: f64 = -0.75;

/// `x` with each of its last axes resized by `one_axis`; nothing is made of no cells, nor no cells
/// of some.
fn resized(
    b: &Emitter<'_>,
    x: Value,
    (sizes, scales, exact): (&[Dim], &[Option<Operand>], &[i64]),
    coordinates: Coordinates,
    one_axis: impl Fn(&Emitter<'_>, Value, &Axis<'_>, Option<i64>) -> Result<Value, Diagnostic>,
) -> Composed {
    let (rank, n, one) = (b.rank(x), sizes.len(), Dim::constant(1));
    let lead = rank.checked_sub(n).filter(|_| scales.len() <= n).ok_or_else(|| {
        let message = format!("(C1) {n} sizes and {} scales for the last axes of a tensor of rank {rank}", scales.len());
        Diagnostic::new(Code::E0202, message)
    })?;
    let mut x = x;
    for (i, out) in sizes.iter().enumerate() {
        let size = b.size_of(x, lead + i)?;
        let scale = scales.get(i).cloned().flatten().map(|scale| {
            scale
                .as_f64()
                .ok_or_else(|| Diagnostic::new(Code::E0202, format!("(C2) scale {i} is not a number that is known here")))
        });
        let scale = scale.transpose()?.filter(|&scale| scale != 0.0);
        let factor = factor(b, &size, out, scale);
        b.require(&size, Sign::Ge, &one)?;
        if factor.is_none() {
            b.require(out, Sign::Ge, &one)?;
        }
        x = one_axis(b, x, &Axis { axis: lead + i, size, out, scale, exact, coordinates }, factor)?;
    }
    Ok(vec![x])
}

/// Cells of the result for each cell, where that is one number for all sizes.
fn factor(b: &Emitter<'_>, size: &Dim, out: &Dim, scale: Option<f64>) -> Option<i64> {
    const COMMON: [i64; 5] = [2, 3, 4, 8, 16];
    let is_whole = |scale: &f64| scale.fract() == 0.0 && scale.abs() < f64::from(i32::MAX);
    let known = scale.filter(is_whole).map(|scale| scale as i64).or(match (size.as_const(), out.as_const()) {
        (Some(size @ 1..), Some(out)) if out % size == 0 => Some(out / size),
        _ => None,
    });
    let candidates = known.map_or_else(|| if scale.is_some() { vec![] } else { COMMON.to_vec() }, |factor| vec![factor]);
    candidates.into_iter().find(|&factor| factor >= 1 && b.equal(out, &(size * factor)))
}

/// Returns true if each cell is read `factor` times, as positions round in f32.
fn repeats_cells(factor: i64, coordinates: Coordinates, rounding: Rounding) -> bool {
    let shift = match coordinates {
        Coordinates::Asymmetric => 0.0,
        Coordinates::Centers => 0.5,
        Coordinates::HalfPixel | Coordinates::AlignCorners => return false,
    };
    let is_right = |cell: i64| ((cell as f32 + shift) * (1.0 / factor as f64) as f32).floor() as i64 == cell / factor;
    // Positions grow with cells: the first and the last one of a group are looked at.
    rounding == Rounding::Floor
        && (0..CHECKED / factor).all(|group| is_right(group * factor) && is_right((group + 1) * factor - 1))
}

fn repeat_cells(b: &Emitter<'_>, x: Value, axis: usize, factor: i64) -> Result<Value, Diagnostic> {
    let shape = b.shape(x);
    let wide = [&shape[..=axis], &[Dim::constant(factor)], &shape[axis + 1..]].concat();
    let dims: Vec<usize> = (0..=axis).chain(axis + 2..=shape.len()).collect();
    let mut whole = shape;
    whole[axis] = &whole[axis] * factor;
    b.reshape(b.broadcast(x, &wide, &dims)?, &whole)
}

fn nearest_cell(b: &Emitter<'_>, x: Value, axis: &Axis<'_>, rounding: Rounding) -> Result<Value, Diagnostic> {
    let position = axis.positions(b, DType::F32)?;
    let cell = match rounding {
        Rounding::Floor => b.op(OpKind::Floor, &[position])?,
        Rounding::Ceil => b.op(OpKind::Ceil, &[position])?,
        Rounding::HalfDown => b.op(OpKind::Ceil, &[b.sub(position, 0.5)?])?,
        Rounding::HalfUp => b.op(OpKind::Floor, &[b.add(position, 0.5)?])?,
    };
    let index = b.minimum(b.convert(cell, DType::I64)?, b.lift(&axis.size - 1, DType::I64)?)?;
    b.take(x, axis.axis, index, "clamp")
}

/// The last axis with `factor` cells for each one; before the first cell two are read, one with
/// weight 0.
fn linear_phases(b: &Emitter<'_>, x: Value, axis: usize, factor: i64) -> Result<Value, Diagnostic> {
    let (shape, dtype) = (b.shape(x), b.dtype(x));
    let size = &shape[axis];
    let (cell, zero) = (b.iota(std::slice::from_ref(size), 0, DType::I64)?, b.lift(0, dtype)?);
    let is_first = b.compare("EQ", cell, b.lift(0, DType::I64)?)?;
    let is_last = b.compare("EQ", cell, b.lift(size - 1, DType::I64)?)?;
    let (first, last) = (b.broadcast(is_first, &shape, &[axis])?, b.broadcast(is_last, &shape, &[axis])?);
    let before = b.select(first, x, shifted(b, x, axis, -1)?)?;
    let after = b.select(last, x, shifted(b, x, axis, 1)?)?;
    let mut parts = Vec::new();
    for phase in 0..factor {
        let position = (phase as f64 + 0.5) / factor as f64 - 0.5;
        let (mut low, mut high, mut weight) = (x, after, b.lift(position, dtype)?);
        if position < 0.0 {
            (low, high) = (before, b.select(first, after, x)?);
            weight = b.broadcast(b.select(is_first, zero, b.lift(position + 1.0, dtype)?)?, &shape, &[axis])?;
        }
        let part = b.add(b.mul(low, b.sub(b.lift(1, dtype)?, weight)?)?, b.mul(high, weight)?)?;
        parts.push(b.unsqueeze(part, &[axis + 1])?);
    }
    let whole = [&shape[..axis], &[size * factor]].concat();
    b.reshape(b.concatenate(&parts, axis + 1)?, &whole)
}

/// The element `by` further on; zeros where there is none.
fn shifted(b: &Emitter<'_>, x: Value, axis: usize, by: i64) -> Result<Value, Diagnostic> {
    let (mut low, mut high) = (vec![Dim::constant(0); b.rank(x)], vec![Dim::constant(0); b.rank(x)]);
    (low[axis], high[axis]) = (Dim::constant(-by), Dim::constant(by));
    b.pad(x, b.lift(0, b.dtype(x))?, &low, &high)
}

fn between_two(b: &Emitter<'_>, x: Value, axis: &Axis<'_>) -> Result<Value, Diagnostic> {
    let (size, dtype) = (&axis.size, b.dtype(x));
    let position = b.maximum(axis.positions(b, dtype)?, 0.0)?;
    let low = b.minimum(b.convert(b.op(OpKind::Floor, &[position])?, DType::I64)?, b.lift(size - 1, DType::I64)?)?;
    // In an axis that stays as it is, the next cell has weight 0 and is not read: it may be NaN.
    let stays = b.compare("EQ", b.lift(axis.out, DType::I64)?, b.lift(size, DType::I64)?)?;
    let step = b.select(stays, b.lift(0, DType::I64)?, b.lift(1, DType::I64)?)?;
    let high = b.minimum(b.add(low, step)?, b.lift(size - 1, DType::I64)?)?;
    let weight = b.minimum(b.sub(position, b.convert(low, dtype)?)?, 1.0)?;
    let weight = b.broadcast(weight, &axis.shape_of_result(b, x), &[axis.axis])?;
    let (first, second) = (b.take(x, axis.axis, low, "clamp")?, b.take(x, axis.axis, high, "clamp")?);
    b.add(b.mul(first, b.sub(b.lift(1, dtype)?, weight)?)?, b.mul(second, weight)?)
}

fn of_four(b: &Emitter<'_>, x: Value, axis: &Axis<'_>, a: f64) -> Result<Value, Diagnostic> {
    let position = axis.positions(b, b.dtype(x))?;
    let low = b.op(OpKind::Floor, &[position])?;
    let distance = b.sub(position, low)?;
    let (low, last) = (b.convert(low, DType::I64)?, b.lift(&axis.size - 1, DType::I64)?);
    let shape = axis.shape_of_result(b, x);
    let mut total = None;
    for (tap, weight) in (-1..).zip(cubic_weights(b, distance, a)?) {
        let cell = b.minimum(b.maximum(b.add(low, tap)?, 0)?, last)?;
        let part = b.mul(b.take(x, axis.axis, cell, "clamp")?, b.broadcast(weight, &shape, &[axis.axis])?)?;
        total = Some(total.map_or(Ok(part), |total| b.add(total, part))?);
    }
    total.ok_or_else(|| Diagnostic::new(Code::E0211, "four cells are read"))
}

/// The weights of the cells at distance t + 1, t, 1 - t and 2 - t.
pub(super) fn cubic_weights(b: &Emitter<'_>, t: Value, a: f64) -> Result<[Value; 4], Diagnostic> {
    let near = |x| b.add(b.mul(b.mul(b.sub(b.mul(x, a + 2.0)?, a + 3.0)?, x)?, x)?, 1.0);
    let far = |x| b.sub(b.mul(b.add(b.mul(b.sub(b.mul(x, a)?, 5.0 * a)?, x)?, 8.0 * a)?, x)?, 4.0 * a);
    let dtype = b.dtype(t);
    let one = b.lift(1.0, dtype)?;
    Ok([far(b.add(t, one)?)?, near(t)?, near(b.sub(one, t)?)?, far(b.sub(b.lift(2.0, dtype)?, t)?)?])
}
