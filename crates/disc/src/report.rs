//! Reports on a compilation.
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
    /// Launches of a call that runs no variant.
    pub kernels: usize,
    pub kernels_by_kind: BTreeMap<String, usize>,
    /// Other ways to compute a call, in the order in which they are tried.
    pub variants: Vec<VariantReport>,
    /// Reads of a device's memory in one call for which the host waits: of sizes and conditions
    /// that depend on data. A loop counts once.
    pub syncs: usize,
    /// Kernel versions.
    pub versions: usize,
    /// Kernels and routines that are compiled after the first call, which does not run them.
    pub deferred: usize,
    pub target: String,
    /// The inferred signature, as text.
    pub dims: String,
    /// Groups that did not get the schedule of their kind, and why.
    pub notes: Vec<String>,
    /// Bytes of machine code and its tables.
    pub code_bytes: usize,
    /// `Hit` if the code came from the cache on disk; then nothing was compiled, and there are no
    /// stages.
    pub cache: Outcome,
}

/// A variant: the code of calls for which more facts hold than the program states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantReport {
    /// The facts that must hold: `S % 2 == 0`.
    pub when: String,
    /// Launches of such a call.
    pub kernels: usize,
}

impl Report {
    pub(crate) fn stage(&mut self, name: &str, time: Duration) {
        self.stages_ms.push((name.into(), time.as_secs_f64() * 1e3));
    }
}

/// The state of background compilation for recurring sizes.
#[derive(Clone, Debug, Default)]
pub struct Specializations {
    /// Compilations that ended, whatever their outcome.
    pub compiled: usize,
    /// Compilations that are queued or running.
    pub pending: usize,
    /// Versions that calls run now.
    pub versions: Vec<Specialized>,
    /// Sizes that stay with the general code, and why: text of the dims, then the reason.
    pub rejected: Vec<(String, String)>,
    /// Sizes whose compilation failed, and the error.
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
    /// Speedup over the general code in the trial.
    pub ratio: f64,
    /// Bytes of weights that are prepared only for it; it shares all others.
    pub weight_bytes: usize,
}
