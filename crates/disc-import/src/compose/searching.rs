//! Declares searches: positions in sorted elements, and counts of elements by range.
use super::{Composed, gathering::elements_along, scattering::slices};
use crate::emit::{Emitter, Sign};
use disc_ir::{Code, DType, Diagnostic, Dim, OpKind, Value, ops::DTypeClass};

const NUMBER: DTypeClass = DTypeClass::NUMBER;
const FLOAT: DTypeClass = DTypeClass::FLOAT;

composition! {
    /// For each element of `x` how many of `sorted`, which are in order, come before it: those that
    /// are less, or with `right` also equal ones. All come before NaN.
    ///
    /// (C1) `sorted` has one axis, or as many axes as `x`, the last ones apart of equal sizes.
    /// (C2) They have one element type.
    SearchSorted = "search_sorted"(sorted: one(NUMBER), x: one(NUMBER)) { right: bool, dtype: DType } -> (places)
        in search_sorted;
}

fn search_sorted(b: &Emitter<'_>, SearchSorted { sorted, x, right, dtype }: SearchSorted) -> Composed {
    let (edges, sizes) = (b.shape(sorted), b.shape(x));
    let Some((count, lines)) = edges.split_last().filter(|_| edges.len() == 1 || edges.len() == sizes.len()) else {
        return Err(Diagnostic::new(Code::E0207, format!("(C1) `sorted` has {} axes, `x` {}", edges.len(), sizes.len())));
    };
    for (line, size) in lines.iter().zip(&sizes) {
        b.require(line, Sign::Eq, size)?;
    }
    let is_nan = b.is_nan(x)?;
    let before = if right { "LE" } else { "LT" };
    let pass = |place: Value, half: Value| {
        let further = b.add(place, half)?;
        let at = b.sub(further, 1)?;
        let edge = if lines.is_empty() { b.take(sorted, 0, at, "clamp")? } else { elements_along(b, sorted, lines.len(), at)? };
        let is_before = b.map(OpKind::Or, &[b.compare(before, edge, x)?, is_nan])?;
        b.select(is_before, further, place)
    };
    Ok(vec![b.convert(first_place(b, count, &sizes, pass)?, dtype)?])
}

/// Finds, by halving, how many of `count` elements come before; `pass` goes so many elements
/// further where the last of them does.
fn first_place(
    b: &Emitter<'_>,
    count: &Dim,
    shape: &[Dim],
    pass: impl Fn(Value, Value) -> Result<Value, Diagnostic>,
) -> Result<Value, Diagnostic> {
    let mut place = b.full(0, shape, DType::I64)?;
    if let Some(mut count) = count.as_const() {
        while count > 0 {
            let half = (count + 1) / 2;
            (place, count) = (pass(place, b.lift(half, DType::I64)?)?, count - half);
        }
        return Ok(place);
    }
    let state = |values: &[Value]| match *values {
        [place, left] => (place, left),
        _ => unreachable!("two values are repeated"),
    };
    let inits = [place, b.lift(count, DType::I64)?];
    let more = |values: &[Value]| b.compare("GT", state(values).1, b.lift(0, DType::I64)?);
    let found = b.repeat(&inits, more, |values| {
        let (place, left) = state(values);
        let half = b.div(b.add(left, 1)?, 2)?;
        Ok(vec![pass(place, half)?, b.sub(left, half)?])
    })?;
    Ok(state(&found).0)
}

composition! {
    /// The numbers of elements in each of `bins` ranges of one length between `low` and `high`,
    /// which itself belongs to the last one; others, and NaN, are not counted. Equal bounds stand
    /// for the range of the data, which has to be finite.
    ///
    /// (C1) There are at least one bin and finite bounds.
    Histogram = "histogram"(x: one(FLOAT)) { bins: i64, low: f64, high: f64 } -> (counts) in histogram;
}

fn histogram(b: &Emitter<'_>, Histogram { x, bins, low, high }: Histogram) -> Composed {
    if bins < 1 || !low.is_finite() || !high.is_finite() {
        return Err(Diagnostic::new(Code::E0202, format!("(C1) {bins} bins from {low} to {high}")));
    }
    let result = b.dtype(x);
    let flat = b.reshape(x, &[Dim::product(b.shape(x))])?;
    let dtype = if result == DType::F32 { DType::F32 } else { DType::F64 };
    let flat = b.convert(flat, dtype)?;
    let (mut least, mut most) = (b.lift(low, dtype)?, b.lift(high, dtype)?);
    if low == high {
        (least, most) = range_of(b, flat, least)?;
    }
    let steps = b.div(b.mul(b.sub(flat, least)?, bins)?, b.sub(most, least)?)?;
    let bin = b.op(OpKind::Floor, &[steps])?;
    let inside = b.op(OpKind::And, &[b.compare("GE", flat, least)?, b.compare("LE", flat, most)?])?;
    // Values outside of the range are left out, and so is NaN.
    let bin = b.select(inside, b.minimum(bin, bins - 1)?, b.lift(bins, dtype)?)?;
    let zeros = b.full(0, &[Dim::constant(bins)], result)?;
    let index = b.convert(bin, DType::I64)?;
    let ones = b.full(1, &b.shape(flat), result)?;
    Ok(vec![slices(b, zeros, 0, index, ones, Some(OpKind::Add), "skip")?])
}

/// The range of the data, or one around it where all elements are equal; of no data, around what
/// was given.
fn range_of(b: &Emitter<'_>, flat: Value, given: Value) -> Result<(Value, Value), Diagnostic> {
    let (low, high) = (b.reduce(flat, &[0], OpKind::Minimum, false)?, b.reduce(flat, &[0], OpKind::Maximum, false)?);
    let finite = b.op(OpKind::And, &[b.op(OpKind::IsFinite, &[low])?, b.op(OpKind::IsFinite, &[high])?])?;
    let nothing = b.compare("EQ", b.lift(b.size_of(flat, 0)?, DType::I64)?, b.lift(0, DType::I64)?)?;
    b.require_true(b.op(OpKind::Or, &[finite, nothing])?, "histc: the range of the data is not finite")?;
    let (low, high) = (b.select(nothing, given, low)?, b.select(nothing, given, high)?);
    let equal = b.compare("EQ", low, high)?;
    let least = b.select(equal, b.sub(low, 1)?, low)?;
    Ok((least, b.select(equal, b.add(high, 1)?, high)?))
}
