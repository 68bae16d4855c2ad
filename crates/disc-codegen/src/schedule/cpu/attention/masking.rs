//! Finds the columns that a block of rows can see: panels for which a mask leaves only minus
//! infinity need not be multiplied.
//!
//! The masks are those of `select(mask, scores, -inf)`. Of one that compares row numbers with
//! column numbers, a single row sees all columns that any row of a block sees; any other mask is
//! read for all rows. The range may be too wide, never too narrow.
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
};
use disc_ir::{DType, Function, Literal, OpKind, Value};
use disc_kernel_macros::expr;
use disc_passes::analysis::query::Query;

/// A mask of scores.
pub(in crate::schedule) struct Mask {
    pub(in crate::schedule) value: Value,
    /// The row that sees all columns that any row of its block sees.
    widest: Option<Widest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Widest {
    First,
    Last,
    /// They all see the same.
    Any,
}

/// Finds the masks on the way from a product to the value that is computed from it.
pub(in crate::schedule) fn masks(function: &Function, value: Value, row_axis: usize) -> Vec<Mask> {
    let mut found = Vec::new();
    let mut value = value;
    while let Some(inst) = function.made_by(value, OpKind::Select) {
        let &[mask, kept, other] = function.operands(inst) else { break };
        let other = function.made_by(other, OpKind::BroadcastInDim).map_or(other, |inst| function.operands(inst)[0]);
        let hides = function.splat(other).is_some_and(|l| l.dtype.is_float() && l.f64_at(0) == f64::NEG_INFINITY);
        if !hides || function.shape(mask).len() != function.shape(value).len() {
            break;
        }
        both(function, mask, row_axis, &mut found);
        value = kept;
    }
    found
}

/// Splits `a & b`.
fn both(function: &Function, mask: Value, row_axis: usize, found: &mut Vec<Mask>) {
    match function.made_by(mask, OpKind::And) {
        Some(inst) => function.operands(inst).iter().for_each(|&part| both(function, part, row_axis, found)),
        None => found.push(Mask { value: mask, widest: widest(function, mask, row_axis) }),
    }
}

fn widest(function: &Function, mask: Value, axis: usize) -> Option<Widest> {
    let slope = slope(function, mask, axis)?;
    Some(match slope {
        0 => Widest::Any,
        1 => Widest::Last,
        _ => Widest::First,
    })
}

/// Gives the slope of a value along an axis: 0 if it is constant, 1 if it never falls, -1 if it
/// never rises.
fn slope(function: &Function, value: Value, axis: usize) -> Option<i32> {
    let Some(inst) = function.defining(value) else {
        return function.shape(value).get(axis).is_none_or(|size| size.is_const(1)).then_some(0);
    };
    let operands = function.operands(inst);
    let of = |i: usize| slope(function, operands[i], axis);
    let sum = |a: i32, b: i32| (a * b >= 0).then_some((a + b).signum());
    match function.kind_of(inst) {
        OpKind::Constant | OpKind::DimValue => Some(0),
        OpKind::Iota => Some(i32::from(function.int(inst, "dim") == axis as i64)),
        OpKind::BroadcastInDim => match function.ints(inst, "dims").iter().position(|&dim| dim == axis as i64) {
            Some(inner) if !function.shape(operands[0])[inner].is_const(1) => slope(function, operands[0], inner),
            _ => Some(0),
        },
        OpKind::Convert if is_wide(function, operands[0]) && is_wide(function, value) => of(0),
        OpKind::Add if is_wide(function, value) => sum(of(0)?, of(1)?),
        OpKind::Subtract if is_wide(function, value) => sum(of(0)?, -of(1)?),
        OpKind::Compare if is_wide(function, operands[0]) => {
            let rises = sum(of(0)?, -of(1)?)?;
            match function.word(inst, "direction") {
                "GE" | "GT" => Some(rises),
                "LE" | "LT" => Some(-rises),
                _ => (rises == 0).then_some(0),
            }
        }
        _ => None,
    }
}

/// Returns true if row and column numbers do not wrap in the type of a value.
fn is_wide(function: &Function, value: Value) -> bool {
    function.ty(value).dtype() == DType::I64
}

/// The rows and columns of a search.
pub(super) struct VisibleColumns<'a> {
    pub(super) at: &'a [Index],
    pub(super) row_axis: usize,
    /// From the first to below the second.
    pub(super) rows: [Value; 2],
    /// From the first, where a panel starts, to below the second.
    pub(super) columns: [Value; 2],
    /// Columns of a panel.
    pub(super) width: i64,
}

impl VisibleColumns<'_> {
    /// Gives the columns that the rows may see: from the start of a panel to the end of one.
    pub(super) fn seen(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, masks: &[Mask]) -> [Value; 2] {
        let (width, [low, high]) = (kb.int(self.width), self.columns);
        let found = kb.for_([low, high, width], &[high, low], |kb, column, carried| {
            let any = elements.scoped(|elements| self.panel(kb, elements, masks, column));
            let any = expr!(kb, any != zero(DType::I32, 1));
            let (first, end) = (kb.min(carried[0], column), expr!(kb, column + width));
            vec![kb.select(any, first, carried[0]), kb.select(any, end, carried[1])]
        });
        [found[0], kb.min(found[1], high)]
    }

    /// Gives a number that is not zero if any of the rows sees any column of a panel.
    fn panel(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, masks: &[Mask], column: Value) -> Value {
        let lanes = elements.lanes;
        let mut all = kb.zero(DType::I32, lanes);
        for shift in (0..self.width).step_by(lanes as usize) {
            let base = expr!(kb, column + int(shift));
            let left = expr!(kb, self.columns[1] - base);
            let inside = kb.lane_mask(left, lanes);
            let stride = i64::from(lanes > 1);
            let seen = elements.masked(Some(inside), |elements| self.vector(kb, elements, masks, Index::Affine { base, stride }));
            all = expr!(kb, all | select(inside, seen, zero(DType::I32, lanes)));
        }
        kb.reduce_lanes(all, "or")
    }

    /// Tests for each lane if a row sees its column: all bits, or none.
    fn vector(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, masks: &[Mask], column: Index) -> Value {
        let lanes = elements.lanes;
        let ones = kb.constant(Literal::splat_i64(DType::I32, -1), lanes);
        let (one, [first, end]) = (kb.int(1), self.rows);
        let last = expr!(kb, end - one);
        let mut seen = ones;
        for mask in masks {
            let row = match mask.widest {
                Some(Widest::Last) => last,
                Some(Widest::First | Widest::Any) => first,
                None => continue,
            };
            let here = self.mask(kb, elements, mask, row, column);
            seen = expr!(kb, seen & here);
        }
        let others: Vec<&Mask> = masks.iter().filter(|mask| mask.widest.is_none()).collect();
        if others.is_empty() {
            return seen;
        }
        let zero = kb.zero(DType::I32, lanes);
        let any = kb.for_([first, end, one], &[zero], |kb, row, carried| {
            let here = elements.scoped(|elements| {
                others.iter().fold(ones, |all, mask| {
                    let here = self.mask(kb, elements, mask, row, column);
                    expr!(kb, all & here)
                })
            });
            vec![expr!(kb, carried[0] | here)]
        });
        expr!(kb, seen & any[0])
    }

    /// Gives a mask in a row: all bits, or none.
    fn mask(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, mask: &Mask, row: Value, column: Index) -> Value {
        let lanes = elements.lanes;
        let mut at = self.at.to_vec();
        at[self.row_axis] = Index::uniform(row);
        at[self.row_axis + 1] = column;
        let here = elements.element(kb, mask.value, &at);
        let here = kb.widen(here, lanes);
        let ones = kb.constant(Literal::splat_i64(DType::I32, -1), lanes);
        expr!(kb, select(here, ones, zero(DType::I32, lanes)))
    }
}
