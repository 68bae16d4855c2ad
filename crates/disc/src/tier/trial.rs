//! Compares specialised code with the general code: it must give the same bits, and be faster.
//!
//! Both run on one thread, in turn, on the inputs of a call that was made. A constant size may
//! change the order in which a sum is added up; then the bits differ, and the choice of code would
//! show in the results.
use crate::Error;
use disc_ral::{Executable, HostOutput, HostOutputs, HostTensor, SessionState, TensorRef};
use std::time::{Duration, Instant};

/// Time for the comparison of speeds.
const LONG: Duration = Duration::from_millis(100);
/// Least timed calls of each.
const FEWEST: usize = 5;
const MOST: usize = 400;

/// The outcome of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Found {
    Differs,
    /// Speedup of the specialised code.
    Ratio(f64),
}

/// Runs entry `entry` of `general` against the one entry of `special`.
pub(super) fn run(general: &Executable, entry: usize, special: &Executable, inputs: &[HostTensor]) -> Result<Found, Error> {
    let references: Vec<TensorRef<'_>> = inputs.iter().map(HostTensor::as_input).collect();
    let mut session = SessionState::new(general.device());
    session.limit_threads(1);
    let (mut expected, mut found) = (HostOutputs::new(), HostOutputs::new());
    let count = general.meta().entries[entry].outputs.len();
    let (mut slow, mut fast) = (Duration::MAX, Duration::MAX);
    let start = Instant::now();
    for round in 0..MOST {
        slow = slow.min(time(|| general.run_uncounted(entry, &mut session, &references, &mut expected))?);
        fast = fast.min(time(|| special.run_uncounted(0, &mut session, &references, &mut found))?);
        if round == 0 && !(0..count).all(|i| same(expected.get(i), found.get(i))) {
            return Ok(Found::Differs);
        }
        if round >= FEWEST && start.elapsed() > LONG {
            break;
        }
    }
    Ok(Found::Ratio(slow.as_secs_f64() / fast.as_secs_f64().max(1e-9)))
}

fn time(call: impl FnOnce() -> Result<(), disc_ral::Error>) -> Result<Duration, Error> {
    let start = Instant::now();
    call()?;
    Ok(start.elapsed())
}

/// Returns true if two outputs have the same sizes and bits; one that aliases an input must alias
/// that input in both.
fn same(a: Option<&HostOutput>, b: Option<&HostOutput>) -> bool {
    match (a, b) {
        (Some(HostOutput::Fresh(a)), Some(HostOutput::Fresh(b))) => a.sizes() == b.sizes() && a.bytes() == b.bytes(),
        (Some(HostOutput::Alias { data: a, sizes: x, .. }), Some(HostOutput::Alias { data: b, sizes: y, .. })) => {
            a == b && x == y
        }
        _ => false,
    }
}
