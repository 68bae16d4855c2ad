//! States when a version runs: conditions on sizes and on memory.
//!
//! Invariant: `host/dispatch.rs` has code for each condition, which holds in exactly the calls in
//! which the version may rely on its fact.
use disc_ir::{
    Dim,
    dim::{Fact, Range},
};

/// A condition of a guard.
///
/// There is none on where the memory of an input starts: the host program has no op that asks. CPUs
/// need none, since their loads take any address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The first dim is less than the second.
    Less(Dim, Dim),
    /// The number, which is positive, divides the dim, which is not negative.
    Divides(i64, Dim),
    /// The caches do not hold what is read and written, the memory of each of these outputs starts
    /// at a multiple of [`disc_abi::ALIGN`] bytes, and no input has the same memory, which would be
    /// in the caches already.
    Nontemporal {
        /// Positions among what the group returns.
        outputs: Vec<usize>,
        /// The bytes that are read and written.
        bytes: Dim,
    },
}

impl Condition {
    /// Returns what it says about dims.
    pub(super) fn fact(&self) -> Option<Fact> {
        match self {
            Self::Less(smaller, larger) => Some(Fact::Range(smaller - larger, Range { lo: None, hi: Some(-1) })),
            Self::Divides(divisor, dim) => Some(Fact::Divisible(dim.clone(), *divisor)),
            Self::Nontemporal { .. } => None,
        }
    }
}
