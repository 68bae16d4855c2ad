//! Decides if errors of rounding explain a difference: the interpreter runs again with such errors,
//! and the results of compiled code must be within the range of these runs.
use super::{LIMITS, Outcome};
use crate::{
    compare::{compare, tolerance},
    compiled::agree,
};
use disc_ir::{
    Diagnostic, Module,
    generate::cases::Nearness,
    interp::{Noisy, Tensor, run_noisy},
};

/// Numbers of noisy runs: few at first, since most differences are small.
const RUNS: [u64; 3] = [8, 80, 800];

type Run = Result<Vec<Tensor>, Diagnostic>;

pub(super) fn judge(module: &Module, inputs: &[Tensor], name: &str, found: &Run, expected: &Run) -> Outcome {
    let Err(why) = agree(name, "main", inputs, found, expected, Nearness::Sum) else { return Outcome::Same };
    if is_internal(found) {
        return Outcome::Wrong(why);
    }
    let mut runs: Vec<Run> = vec![expected.clone()];
    for most in RUNS {
        for seed in runs.len() as u64..most {
            let Noisy { outputs, is_vague } = run_noisy(module, "main", inputs, LIMITS, seed);
            if is_vague {
                return Outcome::Rounded;
            }
            runs.push(outputs);
        }
        if is_among(found, &runs) {
            return Outcome::Rounded;
        }
    }
    Outcome::Wrong(why)
}

/// Returns true for a failure that no rounding causes: only indices and assertions depend on data.
fn is_internal(found: &Run) -> bool {
    use disc_ir::Code;
    matches!(found, Err(error) if !matches!(error.code, Code::E0603 | Code::E0604))
}

fn is_among(found: &Run, runs: &[Run]) -> bool {
    match found {
        Err(error) => runs.iter().any(|run| matches!(run, Err(other) if other.code == error.code)),
        Ok(found) => {
            let made: Vec<&Vec<Tensor>> = runs.iter().filter_map(|run| run.as_ref().ok()).collect();
            let output = |i: usize| made.iter().filter_map(|outputs| outputs.get(i)).collect::<Vec<_>>();
            found.iter().enumerate().all(|(i, tensor)| is_within(tensor, &output(i)))
        }
    }
}

/// Returns true if each element is between those of the other tensors, with a small margin.
fn is_within(found: &Tensor, others: &[&Tensor]) -> bool {
    let Some(first) = others.first() else { return false };
    if (found.dtype(), found.dims()) != (first.dtype(), first.dims()) || others.iter().any(|t| t.dims() != found.dims()) {
        return false;
    }
    if compare(found, first, Nearness::Sum).is_ok() {
        return true;
    }
    let base = if found.dtype().is_float() { tolerance(found.dtype()) } else { 0.0 };
    let others: Vec<Vec<f64>> = others.iter().map(|t| t.to_f64s()).collect();
    found.to_f64s().into_iter().enumerate().all(|(i, x)| {
        let numbers = || others.iter().map(|elements| elements[i]);
        if x.is_nan() {
            return numbers().any(f64::is_nan);
        }
        let low = numbers().filter(|y| !y.is_nan()).fold(f64::INFINITY, f64::min);
        let high = numbers().filter(|y| !y.is_nan()).fold(f64::NEG_INFINITY, f64::max);
        let spread = if high > low && (high - low).is_finite() { high - low } else { 0.0 };
        let room = base * low.abs().max(high.abs()).clamp(1.0, f64::MAX) + if base > 0.0 { 2.0 * spread } else { 0.0 };
        (low - room..=high + room).contains(&x)
    })
}
