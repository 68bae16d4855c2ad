//! Simplifies ops by the rules: the one place where algebra is applied.
//!
//! It decides nothing that depends on a target, on sizes or on weights. See `rules/` for what holds, and `rewrite.rs` for how it is applied.
//!
//! Invariant: the result of every op is equal bit by bit, for every input; but for which NaN it is, and powers, which come closer.
use crate::{
    pass::{PassCx, PassDef},
    rules::{
        self,
        rewrite::{RuleTable, rewrite},
    },
};
use disc_ir::{Diagnostic, FunctionKind, Module, ops::Stage};
use std::sync::LazyLock;

/// Applies the rules of [`crate::rules`] until none applies.
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
