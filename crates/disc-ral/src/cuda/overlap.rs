//! Lets launches begin while the ones before still run (programmatic dependent launch).
//!
//! Invariant: a launch that begins early is that of a kernel which first waits until the previous
//! one has ended; and that one is a kernel of the same queue, launched in the same call. So each
//! launch is still after all earlier ones: a kernel of others might end before those that it
//! follows.
use std::sync::LazyLock;

/// The last op of a queue.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Last {
    /// A copy, a library, a graph, or an op of somebody else.
    #[default]
    Other,
    /// A kernel of this queue.
    Kernel,
}

/// Returns true if `DISC_CUDA_PDL=1` asks for it: no GPU has shown yet that it is faster.
pub(super) fn is_wanted() -> bool {
    static WANTED: LazyLock<bool> = LazyLock::new(|| std::env::var_os("DISC_CUDA_PDL").is_some_and(|value| value == "1"));
    *WANTED
}
