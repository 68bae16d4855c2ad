//! What a compilation did.
use std::{collections::BTreeMap, time::Duration};

/// Times, kernels and the target of one compilation.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Milliseconds per stage, in order: `passes`, `codegen`, `link`.
    pub stages_ms: Vec<(String, f64)>,
    /// Milliseconds per pass, in order.
    pub passes_ms: Vec<(String, f64)>,
    /// Launches that one call makes.
    pub kernels: usize,
    pub kernels_by_kind: BTreeMap<String, usize>,
    /// Kernel versions compiled.
    pub versions: usize,
    pub target: String,
    /// The inferred signature, as text.
    pub dims: String,
    /// Where a group did not get the schedule of its kind, and why.
    pub notes: Vec<String>,
    /// Bytes of machine code and its tables.
    pub code_bytes: usize,
}

impl Report {
    pub(crate) fn stage(&mut self, name: &str, time: Duration) {
        self.stages_ms.push((name.into(), time.as_secs_f64() * 1e3));
    }
}
