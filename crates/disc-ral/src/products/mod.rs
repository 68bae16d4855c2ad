//! Products of matrices by a library, where that is chosen over the kernel that was generated for them.
//!
//! Generated code offers products ([`disc_abi::Product`]); this module is the one place where a library can take them. What a library is to it
//! is a [`ProductLibrary`]: a name, and a call that multiplies matrices in memory of the device on a session's queue.
//!
//! Invariants:
//! - what a library cannot do, or fails to do, the kernel does: no product fails for want of a library;
//! - a library takes no more threads than the session allows, and none besides the queue's;
//! - nothing is measured, and nothing depends on time, unless the policy is [`Policy::Measured`].
mod choices;
mod matrices;
mod offer;
mod onednn;
mod panels;

pub use choices::{Decision, ProductKey, Way};
pub use matrices::{Matrix, ProductMatrices};
pub(crate) use offer::run_product;
pub use onednn::OneDnn;
pub(crate) use panels::PlainForms;

use crate::device::{LaunchFailure, Queue};
use choices::Choices;
use std::sync::atomic::{AtomicU64, Ordering};

/// A library that multiplies matrices.
pub trait ProductLibrary: Send + Sync {
    /// For messages and reports, with the version.
    fn name(&self) -> &str;

    /// Computes a product with the queue's threads; false if this library cannot, with the result's elements undefined.
    ///
    /// # Errors
    /// A failure of the queue.
    ///
    /// # Safety
    /// The matrices are valid memory of the queue's device, and the result does not overlap the others.
    unsafe fn multiply(&self, queue: &mut dyn Queue, product: &ProductMatrices) -> Result<bool, LaunchFailure>;
}

/// How it is decided who computes a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The library, wherever it can.
    Always,
    /// Whichever was faster in the first calls of a class of sizes.
    Measured,
}

/// What is called with a choice when it was made.
pub type OnDecision = Box<dyn Fn(&Decision) + Send + Sync>;

/// A library, and for which products it is taken.
pub struct Products {
    library: Box<dyn ProductLibrary>,
    policy: Policy,
    choices: Choices,
    by_library: AtomicU64,
    by_kernel: AtomicU64,
}

impl Products {
    /// With choices from earlier processes, which are not measured again.
    pub fn new(library: Box<dyn ProductLibrary>, policy: Policy, known: Vec<Decision>, on_decision: Option<OnDecision>) -> Self {
        let choices = Choices::new(known, on_decision);
        Self { library, policy, choices, by_library: AtomicU64::new(0), by_kernel: AtomicU64::new(0) }
    }

    pub fn library(&self) -> &dyn ProductLibrary {
        &*self.library
    }

    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The choices that were made, by key.
    pub fn decisions(&self) -> Vec<Decision> {
        self.choices.decisions()
    }

    /// Products that the library computed, and that were offered to it and left to kernels.
    pub fn counts(&self) -> [u64; 2] {
        [&self.by_library, &self.by_kernel].map(|count| count.load(Ordering::Relaxed))
    }

    /// Who computes a product of this key now, and whether the time is wanted.
    fn choose(&self, key: &ProductKey) -> (Way, bool) {
        match self.policy {
            Policy::Always => (Way::Library, false),
            Policy::Measured => self.choices.next(key),
        }
    }

    /// Takes note of a time, of all that the group computes; whether it is known now that no product of these columns and sums goes to the
    /// library.
    fn measured(&self, key: &ProductKey, way: Way, rows: i64, nanoseconds: u64) -> bool {
        self.choices.measured(key, way, rows, nanoseconds)
    }

    /// The library could not: it is not asked again for this key.
    fn refuse(&self, key: &ProductKey) {
        if self.policy == Policy::Measured {
            self.choices.refuse(key);
        }
    }

    fn count(&self, way: Way) {
        let count = if way == Way::Library { &self.by_library } else { &self.by_kernel };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
