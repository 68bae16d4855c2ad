//! Passes over kernels: they make what a schedule wrote cheap, so that LLVM has only to select instructions.
mod cse;
mod hoist;

use disc_ir::Function;

/// Cleans up a kernel: equal computations once, loop-invariant ones outside of their loops, unused ones gone.
pub fn optimize(kernel: &mut Function) {
    hoist::run(kernel);
    cse::run(kernel);
    cse::remove_unused(kernel);
}
