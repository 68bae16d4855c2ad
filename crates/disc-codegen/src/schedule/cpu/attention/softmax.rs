//! Recognises a softmax of rows, whose parts can be computed for some columns after the others.
//!
//! It is `exp(logits - shift) / divisor`, where `shift` depends on the maximum of the row, and
//! `divisor` on that and the sum of the exponentials. The group computes both from them: a row
//! without any finite logit gives zeros in some programs and NaN in others.
use crate::kernel::{
    compute_dtype,
    monoid::{Monoid, monoid_of},
};
use disc_ir::{Function, Inst, OpKind, Value};
use disc_passes::analysis::query::Query;
use std::collections::HashSet;

/// The values of a group of rows that is a softmax.
pub(in crate::schedule) struct Softmax {
    pub(in crate::schedule) logits: Value,
    /// The maximum of the logits of a row.
    pub(in crate::schedule) top: Inst,
    /// The value that is subtracted from the logits: of the domain's shape, and the same along a
    /// row.
    pub(in crate::schedule) shift: Value,
    /// The sum of the exponentials of a row.
    pub(in crate::schedule) total: Inst,
    /// The value that the exponentials are divided by.
    pub(in crate::schedule) divisor: Value,
    /// Set if `shift` is the maximum itself, or 0 for a maximum of minus infinity: no exponential
    /// is above 1 then.
    pub(in crate::schedule) from_top: bool,
}

impl Softmax {
    /// Finds the parts of a value of this rank, if that is a softmax.
    pub(in crate::schedule) fn of(function: &Function, rank: usize, output: Value) -> Option<Self> {
        let float = |value: Value| function.ty(value).dtype().is_float();
        // Weights of a narrower type are not rounded to it: they stay in the type of the sums.
        let exact = match function.made_by(output, OpKind::Convert) {
            Some(inst) if float(output) => function.operands(inst)[0],
            _ => output,
        };
        let quotient = function.made_by(exact, OpKind::Divide)?;
        let &[powers, divisor] = function.operands(quotient) else { return None };
        let &[difference] = function.operands(function.made_by(powers, OpKind::Exponential)?) else { return None };
        let &[logits, shift] = function.operands(function.made_by(difference, OpKind::Subtract)?) else { return None };
        let reductions: Vec<Inst> =
            function.insts(function.body).iter().copied().filter(|&i| function.kind_of(i) == OpKind::Reduce).collect();
        let &[top, total] = &reductions[..] else { return None };
        let columns = rank as i64 - 1;
        let reduces = |inst: Inst, value: Value, monoid: Monoid, init: f64| {
            let operands = function.operands(inst);
            let start = function.splat(*operands.get(1)?).filter(|literal| literal.dtype.is_float())?.f64_at(0);
            let fits = operands[0] == value && monoid_of(function, inst) == Some(monoid) && start == init;
            (fits && function.ints(inst, "dims") == [columns]).then_some(())
        };
        reduces(top, logits, Monoid::Maximum, f64::NEG_INFINITY)?;
        reduces(total, powers, Monoid::Add, 0.0)?;
        let top_alone = !depends(function, shift, &[logits, function.result(total)]);
        let sums_alone = !depends(function, divisor, &[logits, powers]);
        let from_top = is_top(function, shift, function.result(top));
        // Narrower types round each exponential and each quotient.
        let wide = float(logits) && compute_dtype(function.ty(logits).dtype()) == function.ty(logits).dtype();
        (top_alone && sums_alone && wide).then_some(Self { logits, top, shift, total, divisor, from_top })
    }
}

/// Returns true if a value is `top` of the same row, or 0 for a maximum of minus infinity.
fn is_top(function: &Function, value: Value, top: Value) -> bool {
    if value == top {
        return true;
    }
    let Some(inst) = function.defining(value) else { return false };
    let operands = function.operands(inst);
    match function.kind_of(inst) {
        OpKind::Reshape => {
            let rows = |v: Value| function.ty(v).shaped().map(|tensor| tensor.dims.clone());
            let one_more = rows(operands[0])
                .zip(rows(value))
                .is_some_and(|(from, to)| to.split_last().is_some_and(|(last, rest)| last.is_const(1) && *rest == *from));
            one_more && is_top(function, operands[0], top)
        }
        OpKind::BroadcastInDim => {
            let dims = function.axes(inst, "dims");
            dims.iter().enumerate().all(|(i, &dim)| i == dim) && is_top(function, operands[0], top)
        }
        OpKind::Select => {
            let splat = |v: Value| function.splat(v).filter(|literal| literal.dtype.is_float()).map(|literal| literal.f64_at(0));
            let lowest = function.made_by(operands[0], OpKind::Compare).is_some_and(|compare| {
                let sides = function.operands(compare);
                let equal = function.word(compare, "direction") == "EQ";
                equal && is_top(function, sides[0], top) && splat(sides[1]) == Some(f64::NEG_INFINITY)
            });
            lowest && splat(operands[1]) == Some(0.0) && is_top(function, operands[2], top)
        }
        _ => false,
    }
}

/// Returns true if a value is computed from one of `sources`, other than by a reduction of them.
fn depends(function: &Function, value: Value, sources: &[Value]) -> bool {
    let (mut stack, mut seen) = (vec![value], HashSet::new());
    while let Some(value) = stack.pop() {
        if sources.contains(&value) {
            return true;
        }
        let Some(inst) = function.defining(value).filter(|_| seen.insert(value)) else { continue };
        if function.kind_of(inst) != OpKind::Reduce {
            stack.extend(function.operands(inst));
        }
    }
    false
}
