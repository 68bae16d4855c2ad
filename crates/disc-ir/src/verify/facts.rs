//! Verifies the facts that functions state about their dims.
//!
//! Invariants:
//! - Facts do not contradict each other.
//! - A call's sizes satisfy the facts of the callee, provably.
use super::{Check, matching::Matching};
use crate::{
    diag::{Code, Diagnostic},
    dim::{Dim, Fact, Solver},
    graph::Function,
};

pub(super) fn check(cx: &mut Check<'_>) {
    if let Some(why) = cx.solver.contradiction() {
        let message = format!("the facts contradict each other: {why}");
        cx.error(Code::E0212, None, message);
    }
}

/// Checks that the facts of a callee hold for the sizes of a call.
pub(super) fn check_call(cx: &Check<'_>, callee: &Function, matching: &Matching) -> Result<(), Diagnostic> {
    let inner = callee.data_dims();
    for fact in callee.facts.iter() {
        // Facts about dims that the callee binds are checked at their binding.
        let mut of_inner = false;
        fact.visit_symbols(&mut |symbol| of_inner |= inner.contains(symbol));
        if !of_inner && !holds(&cx.solver, &fact, matching) {
            let message = format!("(C1) @{} needs `{fact}`, which does not follow from the facts here", callee.name);
            return Err(Diagnostic::new(Code::E0203, message));
        }
    }
    Ok(())
}

fn holds(solver: &Solver, fact: &Fact, matching: &Matching) -> bool {
    let here = |dim: &Dim| matching.substitute(dim);
    match fact {
        Fact::Equal(a, b) => solver.equal(&here(a), &here(b)),
        Fact::Range(dim, range) => {
            let dim = here(dim);
            let above = range.lo.is_none_or(|low| solver.less_equal(&Dim::constant(low), &dim));
            above && range.hi.is_none_or(|high| solver.less_equal(&dim, &Dim::constant(high)))
        }
        Fact::Divisible(dim, by) => solver.divisible(&here(dim), *by),
        Fact::Likely(..) => true,
    }
}
