//! Dispatches GEMMs to a library where it beats the generated kernel.
//!
//! Generated code offers GEMMs ([`disc_abi::Gemm`]); this module is the one place where a library
//! can take them. A library implements [`GemmLibrary`]: a name, and a call that multiplies matrices
//! in memory of the device on a session's queue.
//!
//! Invariants:
//! - the kernel computes what a library cannot, or fails to: no GEMM fails for want of a library;
//! - a library takes no more threads than the session allows, and none besides the queue's;
//! - nothing is measured, and nothing depends on time, unless the policy is [`Policy::Measured`].
mod choices;
mod matrices;
mod offer;
mod onednn;
mod panels;

pub use choices::{Decision, GemmKey, Way};
pub(crate) use matrices::matrix;
pub use matrices::{GemmMatrices, Matrix};
pub(crate) use offer::run_gemm;
pub use onednn::OneDnn;
pub(crate) use panels::PlainForms;

use crate::device::{LaunchFailure, Queue};
use choices::Choices;
use std::sync::atomic::{AtomicU64, Ordering};

/// A library that multiplies matrices.
pub trait GemmLibrary: Send + Sync {
    /// Returns the name and version, for messages and reports.
    fn name(&self) -> &str;

    /// Computes a product with the queue's threads. Returns false if this library cannot, with the
    /// result's elements undefined.
    ///
    /// # Errors
    /// A failure of the queue.
    ///
    /// # Safety
    /// The matrices are valid memory of the queue's device, and the result does not overlap the
    /// others.
    unsafe fn multiply(&self, queue: &mut dyn Queue, product: &GemmMatrices) -> Result<bool, LaunchFailure>;
}

/// The rule that decides between kernel and library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The library, wherever it can.
    Always,
    /// The faster of the two in the first calls of a class of sizes.
    Measured,
}

/// A callback for each choice that is made.
pub type OnDecision = Box<dyn Fn(&Decision) + Send + Sync>;

/// A library, and the choice of the GEMMs that go to it.
pub struct GemmDispatch {
    library: Box<dyn GemmLibrary>,
    policy: Policy,
    choices: Choices,
    by_library: AtomicU64,
    by_kernel: AtomicU64,
}

impl GemmDispatch {
    /// Starts with choices from earlier processes, which are not measured again.
    pub fn new(library: Box<dyn GemmLibrary>, policy: Policy, known: Vec<Decision>, on_decision: Option<OnDecision>) -> Self {
        let choices = Choices::new(known, on_decision);
        Self { library, policy, choices, by_library: AtomicU64::new(0), by_kernel: AtomicU64::new(0) }
    }

    /// Returns the library.
    pub fn library(&self) -> &dyn GemmLibrary {
        &*self.library
    }

    /// Returns the rule that decides.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Returns the choices that were made, by key.
    pub fn decisions(&self) -> Vec<Decision> {
        self.choices.decisions()
    }

    /// Returns the number of GEMMs that the library computed, and of those that were offered to it
    /// and left to kernels.
    pub fn counts(&self) -> [u64; 2] {
        [&self.by_library, &self.by_kernel].map(|count| count.load(Ordering::Relaxed))
    }

    /// Returns the way for a GEMM of this key, and true if its time is wanted.
    fn choose(&self, key: &GemmKey) -> (Way, bool) {
        match self.policy {
            Policy::Always => (Way::Library, false),
            Policy::Measured => self.choices.next(key),
        }
    }

    /// Records the time of the whole group. Returns true if no GEMM of these columns and sums will
    /// go to the library any more.
    fn measured(&self, key: &GemmKey, way: Way, rows: i64, nanoseconds: u64) -> bool {
        self.choices.measured(key, way, rows, nanoseconds)
    }

    /// Records that the library cannot compute this class: it is not asked again.
    fn refuse(&self, key: &GemmKey) {
        if self.policy == Policy::Measured {
            self.choices.refuse(key);
        }
    }

    fn count(&self, way: Way) {
        let count = if way == Way::Library { &self.by_library } else { &self.by_kernel };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
