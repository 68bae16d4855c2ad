//! Simplifies ops by the rules, the one place that applies algebra.
//!
//! It decides nothing that depends on a target, on sizes or on weights. The families in this folder
//! state the rules, and `rewrite.rs` applies them.
//!
//! Invariant: the result of every op is equal bit by bit for every input, except for the payload of
//! NaN and for powers, which become more exact.
use crate::{
    pass::{PassCx, PassDef},
    rules::{
        self,
        rewrite::{RuleTable, rewrite},
    },
};
use disc_ir::{Diagnostic, FunctionKind, Module, ops::Stage};
use std::sync::LazyLock;

/// Applies the rules of [`crate::rules`] to a fixed point.
pub static PASS: PassDef = PassDef {
    name: "canonicalize",
    doc: "Simplifies ops by algebra that holds bit by bit, until no rule applies; then removes ops that nothing uses.",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

static RULES: LazyLock<RuleTable> = LazyLock::new(|| RuleTable::new(rules::all()));

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let functions = module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func);
    functions.map(|function| rewrite(function, &RULES, cx)).sum()
}
