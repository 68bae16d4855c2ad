//! Lowers slices: of lists of sizes, and of tensors, with bounds that may be open.
use super::{
    super::row::{Items, Lower, Row, one, sizes},
    shape::dims_of,
};
use crate::{emit::Sign, sizes::Sizes};
use disc_ir::{Code, Diagnostic, Dim, Value};

pub(in super::super) const ROWS: &[(&str, Lower)] = &[("Slice", Lower::Row(slice)), ("StridedSlice", Lower::Row(strided_slice))];

fn slice(row: &Row<'_, '_>) -> Items {
    let (start, lengths) = (row.sizes(1)?, row.sizes(2)?);
    if let (Some(x), Some(start), Some(length)) = (row.list(0), start.number(), lengths.number()) {
        let end = if length < 0 { x.dims.len() as i64 } else { start.saturating_add(length) };
        return sizes(x.slice(start, end, 1)?);
    }
    let (b, x) = (row.b, row.tensor(0)?);
    let own = b.shape(x);
    if start.dims.len() != own.len() || lengths.dims.len() != own.len() {
        return Err(Diagnostic::new(Code::E1004, format!("expected begin and size of {} entries", own.len())));
    }
    let limits = start.dims.iter().zip(&lengths.dims).zip(&own);
    let limits: Vec<Dim> =
        limits.map(|((start, length), size)| if length.is_const(-1) { size.clone() } else { start + length }).collect();
    one(b.slice_all(x, &start.dims, &limits, &vec![1; own.len()])?)
}

/// One entry of a strided slice.
enum Part {
    Range {
        start: Dim,
        limit: Dim,
        stride: i64,
    },
    /// The axis is read at one position, and goes.
    At(Dim),
    New,
}

/// The masks of a strided slice: bit `i` is about entry `i`.
struct Masks {
    begin: i64,
    end: i64,
    ellipsis: i64,
    new: i64,
    shrink: i64,
}

impl Masks {
    fn of(row: &Row<'_, '_>) -> Result<Self, Diagnostic> {
        let mask = |name| row.attrs.int(name, 0);
        Ok(Self {
            begin: mask("begin_mask")?,
            end: mask("end_mask")?,
            ellipsis: mask("ellipsis_mask")?,
            new: mask("new_axis_mask")?,
            shrink: mask("shrink_axis_mask")?,
        })
    }
}

fn is_set(mask: i64, entry: usize) -> bool {
    entry < 63 && mask >> entry & 1 == 1
}

fn strided_slice(row: &Row<'_, '_>) -> Items {
    let masks = Masks::of(row)?;
    let own = dims_of(row, 0)?;
    let parts = entries(row, &masks, &own)?;
    if let (Some(x), [part]) = (row.list(0), &parts[..]) {
        match part {
            Part::At(at) => {
                let at = at.as_const().and_then(|at| x.dims.get(usize::try_from(at).ok()?));
                if let Some(dim) = at {
                    return sizes(Sizes::scalar(x.dtype, dim));
                }
            }
            Part::Range { start, limit, stride } => {
                if let (Some(start), Some(limit)) = (start.as_const(), limit.as_const()) {
                    return sizes(x.slice(start, limit, *stride)?);
                }
            }
            Part::New => {}
        }
    }
    one(cut(row, row.tensor(0)?, &parts)?)
}

/// The entries of a strided slice, one for each axis and each new one; `...` is written out.
fn entries(row: &Row<'_, '_>, masks: &Masks, own: &[Dim]) -> Result<Vec<Part>, Diagnostic> {
    let (begin, end, strides) = (row.sizes(1)?, row.sizes(2)?, row.numbers(3)?);
    let count = begin.dims.len();
    if end.dims.len() != count || strides.len() != count {
        return Err(Diagnostic::new(Code::E1004, "expected begin, end and strides of one length"));
    }
    let named = (0..count).filter(|&i| !is_set(masks.ellipsis, i) && !is_set(masks.new, i)).count();
    let others = own
        .len()
        .checked_sub(named)
        .ok_or_else(|| Diagnostic::new(Code::E1004, format!("a slice of {named} axes of a tensor of rank {}", own.len())))?;
    let whole = |size: &Dim| Part::Range { start: Dim::constant(0), limit: size.clone(), stride: 1 };
    let (mut parts, mut axes) = (Vec::new(), own.iter());
    for (i, ((begin, end), &stride)) in begin.dims.iter().zip(&end.dims).zip(&strides).enumerate() {
        if is_set(masks.ellipsis, i) {
            parts.extend(axes.by_ref().take(others).map(whole));
        } else if is_set(masks.new, i) {
            parts.push(Part::New);
        } else if let Some(size) = axes.next() {
            parts.push(match is_set(masks.shrink, i) {
                true => Part::At(from_start(row, begin, size)?),
                false => {
                    let begin = (!is_set(masks.begin, i)).then_some(begin);
                    let end = (!is_set(masks.end, i)).then_some(end);
                    part(row, size, begin, end, stride)?
                }
            });
        }
    }
    parts.extend(axes.map(whole));
    Ok(parts)
}

/// The entry of one axis; an absent bound is the end of the axis.
fn part(row: &Row<'_, '_>, size: &Dim, begin: Option<&Dim>, end: Option<&Dim>, stride: i64) -> Result<Part, Diagnostic> {
    if stride == 0 || stride == i64::MIN {
        return Err(Diagnostic::new(Code::E1004, format!("a slice in steps of {stride}")));
    }
    let (first, last) = if stride > 0 { (Dim::constant(0), size.clone()) } else { (size - 1, Dim::constant(-1)) };
    let bound = |dim: &Dim| Ok(clamped(row, &from_start(row, dim, size)?, size, stride));
    Ok(Part::Range { start: begin.map_or(Ok(first), bound)?, limit: end.map_or(Ok(last), bound)?, stride })
}

/// A position that counts from the end if it is negative. One whose sign depends on sizes has to be
/// at least 0, which calls check.
fn from_start(row: &Row<'_, '_>, position: &Dim, size: &Dim) -> Result<Dim, Diagnostic> {
    let zero = Dim::constant(0);
    if row.b.is_less(position, &zero) {
        return Ok(size + position);
    }
    if !row.b.is_less(&Dim::constant(-1), position) {
        row.b.require(position, Sign::Ge, &zero)?;
    }
    Ok(position.clone())
}

/// A bound of a slice within the axis.
fn clamped(row: &Row<'_, '_>, bound: &Dim, size: &Dim, stride: i64) -> Dim {
    let (low, high) = if stride > 0 { (Dim::constant(0), size.clone()) } else { (Dim::constant(-1), size - 1) };
    let b = row.b;
    let is_within = |small: &Dim, large: &Dim| b.equal(small, large) || b.is_less(small, large);
    let bound = if is_within(&low, bound) { bound.clone() } else { Dim::max(bound, &low) };
    if is_within(&bound, &high) { bound } else { Dim::min(&bound, &high) }
}

/// Cuts the entries out of a tensor. Axes that are walked backwards are reversed first.
fn cut(row: &Row<'_, '_>, x: Value, parts: &[Part]) -> Result<Value, Diagnostic> {
    let b = row.b;
    let (mut starts, mut limits, mut strides, mut backwards) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let own = b.shape(x);
    let axes = parts.iter().filter(|part| !matches!(part, Part::New));
    for (axis, (part, size)) in axes.zip(&own).enumerate() {
        match part {
            Part::New => {}
            Part::At(at) => {
                starts.push(at.clone());
                limits.push(at + 1);
                strides.push(1);
            }
            Part::Range { start, limit, stride } if *stride < 0 => {
                backwards.push(axis);
                starts.push(size - 1 - start);
                limits.push(Dim::max(&(size - 1 - limit), &(size - 1 - start)));
                strides.push(-stride);
            }
            Part::Range { start, limit, stride } => {
                starts.push(start.clone());
                let is_forward = b.equal(start, limit) || b.is_less(start, limit);
                limits.push(if is_forward { limit.clone() } else { Dim::max(limit, start) });
                strides.push(*stride);
            }
        }
    }
    let x = b.reverse(x, &backwards)?;
    let whole = starts.iter().all(|start| start.is_const(0)) && limits == own && strides.iter().all(|&stride| stride == 1);
    let x = if whole { x } else { b.slice_all(x, &starts, &limits, &strides)? };
    let mut sizes = b.shape(x).into_iter();
    let mut shape = Vec::new();
    for part in parts {
        match part {
            Part::New => shape.push(Dim::constant(1)),
            Part::At(_) => drop(sizes.next()),
            Part::Range { .. } => shape.extend(sizes.next()),
        }
    }
    b.reshape(x, &shape)
}
