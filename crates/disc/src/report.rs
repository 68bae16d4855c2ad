//! What a compilation did.
use crate::cache::Outcome;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// Times, kernels and the target of one compilation.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Milliseconds per stage, in order: `passes`, `codegen`, `link`.
    pub stages_ms: Vec<(String, f64)>,
    /// Milliseconds per pass, in order.
    pub passes_ms: Vec<(String, f64)>,
    /// Launches that one call makes which runs no variant.
    pub kernels: usize,
    pub kernels_by_kind: BTreeMap<String, usize>,
    /// Other ways to compute a call, in the order in which they are tried.
    pub variants: Vec<VariantReport>,
    /// Kernel versions compiled.
    pub versions: usize,
    pub target: String,
    /// The inferred signature, as text.
    pub dims: String,
    /// Where a group did not get the schedule of its kind, and why.
    pub notes: Vec<String>,
    /// Bytes of machine code and its tables.
    pub code_bytes: usize,
    /// Whether the code came from the cache on disk; then nothing was compiled, and there are no stages.
    pub cache: Outcome,
}

/// A variant: what computes the calls for which more is true than the program states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantReport {
    /// The facts that have to hold: `S % 2 == 0`.
    pub when: String,
    /// Launches that such a call makes.
    pub kernels: usize,
}

impl Report {
    pub(crate) fn stage(&mut self, name: &str, time: Duration) {
        self.stages_ms.push((name.into(), time.as_secs_f64() * 1e3));
    }
}

/// What was compiled in the background for sizes that came again and again.
#[derive(Clone, Debug, Default)]
pub struct Specializations {
    /// Compilations that ended, whatever came of them.
    pub compiled: usize,
    /// Compilations that wait or run.
    pub pending: usize,
    /// Versions that calls run now.
    pub versions: Vec<Specialized>,
    /// Sizes that are left to the general code, and why: text of the dims, then the reason.
    pub rejected: Vec<(String, String)>,
    /// Sizes whose compilation failed, and how.
    pub failed: Vec<(String, String)>,
    /// Milliseconds that the background thread compiled and tried.
    pub compile_ms: f64,
}

/// One version for constant sizes.
#[derive(Clone, Debug)]
pub struct Specialized {
    /// The dims that are constants: `B = 2, S = 128`.
    pub dims: String,
    /// Calls that ran it.
    pub hits: u64,
    pub code_bytes: usize,
    /// Milliseconds to compile it.
    pub compile_ms: f64,
    /// The general code's time over its own, in the trial.
    pub ratio: f64,
    /// Bytes of weights that are prepared for it alone; it shares all others.
    pub weight_bytes: usize,
}
