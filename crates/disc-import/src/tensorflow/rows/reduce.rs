//! Lowers reductions.
use super::super::row::{Items, Lower, Row, ints, one, sizes};
use crate::{compose::Mean, sizes::Sizes};
use disc_ir::{DType, Diagnostic, Dim, OpKind, Value};

pub(in super::super) const ROWS: &[(&str, Lower)] = &[
    ("All", Lower::Row(all)),
    ("Any", Lower::Row(any)),
    ("EuclideanNorm", Lower::Row(euclidean_norm)),
    ("L2Loss", Lower::Row(half_of_squares)),
    ("Max", Lower::Row(greatest)),
    ("Mean", Lower::Row(mean)),
    ("Min", Lower::Row(least)),
    ("Prod", Lower::Row(product)),
    ("Sum", Lower::Row(sum)),
];

/// The tensor, its reduced axes, and true if they are kept.
fn reduced(row: &Row<'_, '_>) -> Result<(Value, Vec<usize>, bool), Diagnostic> {
    let x = row.tensor(0)?;
    Ok((x, row.axes(&row.numbers(1)?, row.b.rank(x))?, row.attrs.bool("keep_dims", false)?))
}

/// The reduction of a list of sizes to a scalar.
fn of_sizes(row: &Row<'_, '_>, how: impl Fn(&[Dim]) -> Option<Dim>) -> Result<Option<Sizes>, Diagnostic> {
    let Some(x) = row.inputs.first().and_then(|input| input.sizes()).filter(|x| !x.is_scalar && x.dtype != DType::I1) else {
        return Ok(None);
    };
    if row.axes(&row.numbers(1)?, 1)?.is_empty() || row.attrs.bool("keep_dims", false)? {
        return Ok(None);
    }
    Ok(how(&x.dims).filter(|dim| dim.defect().is_none()).map(|dim| Sizes::scalar(x.dtype, dim)))
}

/// Sums of half types are those of f32, rounded once.
fn combined(row: &Row<'_, '_>, how: OpKind) -> Items {
    let (x, axes, keep) = reduced(row)?;
    one(row.b.widened(x, |x| row.b.reduce(x, &axes, how, keep))?)
}

fn sum(row: &Row<'_, '_>) -> Items {
    match of_sizes(row, |dims| Some(Dim::sum(dims.iter().cloned())))? {
        Some(total) => sizes(total),
        None => combined(row, OpKind::Add),
    }
}

fn product(row: &Row<'_, '_>) -> Items {
    match of_sizes(row, |dims| Some(Dim::product(dims.iter().cloned())))? {
        Some(total) => sizes(total),
        None => combined(row, OpKind::Multiply),
    }
}

fn greatest(row: &Row<'_, '_>) -> Items {
    match of_sizes(row, |dims| Dim::max_of(dims.iter().cloned()))? {
        Some(found) => sizes(found),
        None => combined(row, OpKind::Maximum),
    }
}

fn least(row: &Row<'_, '_>) -> Items {
    match of_sizes(row, |dims| Dim::min_of(dims.iter().cloned()))? {
        Some(found) => sizes(found),
        None => combined(row, OpKind::Minimum),
    }
}

fn all(row: &Row<'_, '_>) -> Items {
    let (x, axes, keep) = reduced(row)?;
    one(row.b.reduce(x, &axes, OpKind::And, keep)?)
}

fn any(row: &Row<'_, '_>) -> Items {
    let (x, axes, keep) = reduced(row)?;
    one(row.b.reduce(x, &axes, OpKind::Or, keep)?)
}

fn mean(row: &Row<'_, '_>) -> Items {
    let (x, axes, keep) = reduced(row)?;
    one(row.compose(Mean { x, axes: ints(&axes), keep, dtype: row.b.dtype(x) })?)
}

fn euclidean_norm(row: &Row<'_, '_>) -> Items {
    let (x, axes, keep) = reduced(row)?;
    let b = row.b;
    one(b.widened(x, |x| b.op(OpKind::Sqrt, &[b.sum(b.mul(x, x)?, &axes, keep)?]))?)
}

/// `sum(x * x) / 2`.
fn half_of_squares(row: &Row<'_, '_>) -> Items {
    let (b, x) = (row.b, row.tensor(0)?);
    let axes: Vec<usize> = (0..b.rank(x)).collect();
    one(b.widened(x, |x| b.mul(b.sum(b.mul(x, x)?, &axes, false)?, 0.5))?)
}
