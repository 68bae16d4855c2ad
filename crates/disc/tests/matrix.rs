//! Compares compiled code with the interpreter for every op, element type and kind of shape: one
//! test per op.
//!
//! The best level of this machine takes every kind of shape (every other op takes each of the
//! constant ones without many elements); the other levels alternate.
mod native;

use disc::ir::{generate::cases::Shapes, ops::OPS};
use disc_filetests::matrix::check;
use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;

/// Returns the kinds of shapes that each level takes of op number `op`, the best level last.
fn plan(levels: usize, op: usize) -> Vec<(usize, Vec<Shapes>)> {
    let kinds = Shapes::ALL.len();
    let others = (0..levels - 1).map(|level| (level, vec![Shapes::ALL[(op + 2 * level) % kinds]]));
    let small = if op.is_multiple_of(2) { Shapes::Empty } else { Shapes::Ones };
    others.chain([(levels - 1, vec![Shapes::Static, small, Shapes::Partly, Shapes::Dynamic])]).collect()
}

fn main() -> ExitCode {
    let levels = native::levels();
    if levels.is_empty() {
        println!("this CPU has no level that disc compiles for: skipped");
        return ExitCode::SUCCESS;
    }
    let trials = OPS.iter().enumerate().map(|(number, def)| {
        Trial::test(def.name, move || {
            for (level, shapes) in plan(levels.len(), number) {
                let report = check(def.kind, levels[level], &shapes).map_err(Failed::from)?;
                if !report.failures.is_empty() {
                    let first: Vec<String> = report.failures.iter().take(3).cloned().collect();
                    return Err(Failed::from(format!(
                        "{} of {} cases:\n{}",
                        report.failures.len(),
                        report.cases,
                        first.join("\n")
                    )));
                }
            }
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
