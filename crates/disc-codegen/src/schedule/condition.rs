//! States when a version runs: conditions on sizes and on memory.
//!
//! Invariant: `host/dispatch.rs` has code for each condition, which holds in exactly the calls in
//! which the version may rely on its fact.
use super::Argument;
use disc_ir::{
    Dim,
    dim::{Fact, Range},
};

/// A condition of a guard.
///
/// CPUs need none on where memory starts, since their loads take any address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The first dim is less than the second.
    Less(Dim, Dim),
    /// The number, which is positive, divides the dim, which is not negative.
    Divides(i64, Dim),
    /// The memory of each of these starts at a multiple of so many bytes.
    Aligned(Vec<Argument>, i64),
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
    pub(super) fn facts(&self) -> Vec<Fact> {
        let below = |smaller: &Dim, larger: &Dim| Fact::Range(smaller - larger, Range { lo: None, hi: Some(-1) });
        match self {
            Self::Less(smaller, larger) => vec![below(smaller, larger)],
            // The solver does not derive the remainder of every dim from its divisibility.
            Self::Divides(divisor, dim) => {
                let rest = dim.modulo(&Dim::constant(*divisor));
                vec![below(&rest, &Dim::constant(1)), Fact::Divisible(dim.clone(), *divisor)]
            }
            Self::Aligned(..) | Self::Nontemporal { .. } => Vec::new(),
        }
    }
}
