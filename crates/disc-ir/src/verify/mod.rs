//! Verifies that a module keeps the promises of its stage.
//!
//! It trusts nobody: text, builders and passes are all verified. The op's own result-type function
//! checks the declaration of one op ([`crate::infer`]); the remaining checks are here, one file per
//! group of invariants, each with its list.
//!
//! It does not check that an op computes the intended function, nor that facts hold at run time (a
//! call checks them at its entry).
//!
//! - [`structure`]: blocks, scopes, the single definition of values.
//! - [`ops`]: each op against its declaration.
//! - [`stage`]: the ops, types and functions that a stage allows.
//! - [`symbols`]: every dim is bound.
//! - [`facts`]: the facts that functions state about their dims.
//! - [`calls`]: names of functions and weights, and their types.
//! - [`grid`]: the ops of GPU kernels, and the threads that run them.
//! - [`signature`]: the parameters and results of functions.
mod calls;
mod facts;
mod grid;
mod matching;
mod ops;
mod signature;
mod stage;
mod structure;
mod symbols;
mod uniformity;

use crate::{
    diag::{Code, Diagnostic, Span},
    dim::Solver,
    graph::{Function, Inst, Module},
    ops::Stage,
};
use std::{collections::HashSet, sync::Arc};

pub use matching::{Matching, Mismatch};
pub use stage::stage_of;

/// Errors beyond this number are not reported.
const MOST_ERRORS: usize = 100;

/// Verifies a module at a stage.
///
/// # Errors
/// The violated rules, in the order of the text.
pub fn verify(module: &Module, stage: Stage) -> Result<(), Vec<Diagnostic>> {
    let mut errors = Vec::new();
    calls::check_names(module, &mut errors);
    let routines = grid::routines(module);
    for function in &module.functions {
        let (solver, errors_here) = (Solver::new(&function.facts), Vec::new());
        let mut check = Check { module, function, stage, routines: &routines, solver, errors: errors_here };
        // The other checks rely on the structure.
        if structure::check(&mut check) {
            signature::check(&mut check);
            stage::check(&mut check);
            facts::check(&mut check);
            symbols::check(&mut check);
            ops::check(&mut check);
            calls::check(&mut check);
            // It relies on ops that fit their declarations.
            if check.errors.is_empty() {
                grid::check(&mut check);
            }
        }
        check.errors.sort_by_key(|error| error.span.map_or(0, |span| span.start));
        errors.append(&mut check.errors);
        if errors.len() >= MOST_ERRORS {
            errors.truncate(MOST_ERRORS);
            break;
        }
    }
    if errors.is_empty() {
        calls::check_recursion(module, &mut errors);
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// The checks of one function.
struct Check<'m> {
    module: &'m Module,
    function: &'m Function,
    stage: Stage,
    /// The routines that GPU kernels call.
    routines: &'m HashSet<Arc<str>>,
    solver: Solver,
    errors: Vec<Diagnostic>,
}

impl Check<'_> {
    fn report(&mut self, error: Diagnostic) {
        if self.errors.len() < MOST_ERRORS {
            self.errors.push(error.at(self.function.span));
        }
    }

    fn error(&mut self, code: Code, span: Option<Span>, message: impl Into<String>) {
        self.report(Diagnostic::new(code, message).at(span));
    }

    /// An error of one op.
    fn op_error(&mut self, code: Code, inst: Inst, message: impl Into<String>) {
        let data = self.function.inst(inst);
        self.report(Diagnostic::new(code, message).in_op(data.kind.name()).at(data.span));
    }

    fn op_result(&mut self, inst: Inst, result: Result<(), Diagnostic>) {
        if let Err(error) = result {
            let data = self.function.inst(inst);
            self.report(error.in_op(data.kind.name()).at(data.span));
        }
    }
}
