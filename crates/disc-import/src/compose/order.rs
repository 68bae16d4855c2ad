//! Declares what needs the order of elements: sorts, top-k, medians. NaN is greater than all
//! numbers.
use super::{Composed, axis_of};
use crate::emit::Emitter;
use disc_ir::{DType, Diagnostic, Dim, OpKind, Value, ops::DTypeClass};

const ANY: DTypeClass = DTypeClass::ANY;

/// So many least elements are found in less time than one after many others.
const FEW: i64 = 16;

composition! {
    /// The elements along `axis` in order, and their positions before (i64); equal ones keep
    /// theirs.
    ///
    /// (C1) `axis` is an axis of `x`.
    SortPlaces = "sort_places"(x: one(ANY)) { axis: i64, descending: bool } -> (values, places) in sort_places;
}

fn sort_places(b: &Emitter<'_>, SortPlaces { x, axis, descending }: SortPlaces) -> Composed {
    if b.rank(x) == 0 {
        return scalar(b, x);
    }
    sorted(b, x, axis_of(b, x, axis)?, descending)
}

composition! {
    /// The `k` greatest or least elements along `axis`, in order, and their positions (i64).
    ///
    /// (C1) `axis` is an axis of `x`; `k` is at most its size.
    TopKOf = "top_k_of"(x: one(ANY)) { axis: i64, k: Dim, largest: bool } -> (values, places) in top_k_of;
}

fn top_k_of(b: &Emitter<'_>, TopKOf { x, axis, k, largest }: TopKOf) -> Composed {
    if b.rank(x) == 0 {
        return scalar(b, x);
    }
    let (axis, last) = (axis_of(b, x, axis)?, b.rank(x) - 1);
    let (values, places) = b.top_k(b.move_axis(x, axis, last)?, &k, largest, None)?;
    Ok(vec![b.move_axis(values, last, axis)?, b.move_axis(places, last, axis)?])
}

composition! {
    /// The `k`-th least element along `axis`, counted from 0, and its position (i64).
    ///
    /// (C1) `axis` is an axis of `x`; `k` is below its size.
    KthLeast = "kth_least"(x: one(ANY)) { axis: i64, k: Dim, keep: bool } -> (value, place) in kth_least;
}

fn kth_least(b: &Emitter<'_>, KthLeast { x, axis, k, keep }: KthLeast) -> Composed {
    if b.rank(x) == 0 {
        return scalar(b, x);
    }
    let axis = axis_of(b, x, axis)?;
    let found = ranked(b, x, axis, &k)?;
    shaped(b, found, axis, keep)
}

composition! {
    /// The lower of the two middle elements along `axis`, and its position (i64): the first NaN if
    /// there is one.
    ///
    /// (C1) `axis` is an axis of `x`; it has elements.
    Median = "median"(x: one(ANY)) { axis: i64, keep: bool } -> (value, place) in median;
}

fn median(b: &Emitter<'_>, Median { x, axis, keep }: Median) -> Composed {
    if b.rank(x) == 0 {
        return scalar(b, x);
    }
    let axis = axis_of(b, x, axis)?;
    let sizes = b.shape(x);
    let middle = (&sizes[axis] - 1).floor_div(&Dim::constant(2));
    let mut found = ranked(b, x, axis, &middle)?;
    if b.dtype(x).is_float() {
        let last = b.reduce(x, &[axis], OpKind::Maximum, true)?;
        let far = |b: &Emitter<'_>| b.lift(&sizes[axis], DType::I64);
        let places = b.select(b.is_nan(x)?, b.iota(&sizes, axis, DType::I64)?, far(b)?)?;
        let first = b.reduce(places, &[axis], OpKind::Minimum, true)?;
        found = (b.select(b.is_nan(last)?, last, found.0)?, b.select(b.is_nan(last)?, first, found.1)?);
    }
    shaped(b, found, axis, keep)
}

/// A scalar is in order; its position is 0.
fn scalar(b: &Emitter<'_>, x: Value) -> Composed {
    Ok(vec![x, b.full(0, &[], DType::I64)?])
}

fn shaped(b: &Emitter<'_>, (value, place): (Value, Value), axis: usize, keep: bool) -> Composed {
    let shaped = |value| if keep { Ok(value) } else { b.squeeze(value, &[axis]) };
    Ok(vec![shaped(value)?, shaped(place)?])
}

fn sorted(b: &Emitter<'_>, x: Value, axis: usize, descending: bool) -> Composed {
    let places = b.iota(&b.shape(x), axis, DType::I64)?;
    b.sort(&[x, places], axis, descending)
}

/// The element with `rank` others before it, and its position, the axis kept.
fn ranked(b: &Emitter<'_>, x: Value, axis: usize, rank: &Dim) -> Result<(Value, Value), Diagnostic> {
    let is_last = axis + 1 == b.rank(x);
    if is_last && rank.as_const().is_none_or(|rank| rank >= FEW) {
        return b.top_k(x, &Dim::constant(1), false, Some(rank));
    }
    let (values, places) = if is_last {
        b.top_k(x, &(rank + 1), false, None)?
    } else {
        match sorted(b, x, axis, false)?[..] {
            [values, places] => (values, places),
            _ => unreachable!("as many results as operands"),
        }
    };
    let end = rank + 1;
    Ok((b.slice(values, axis, rank, &end, 1)?, b.slice(places, axis, rank, &end, 1)?))
}
