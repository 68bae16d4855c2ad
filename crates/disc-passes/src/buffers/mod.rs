//! Buffers: from tensors to memory of one arena.
//!
//! Each function becomes a host program: every value that a group makes gets memory, a part of the arena or, if it is returned, memory from
//! the caller; groups write into their last operands. A reshape is a view. The parts of the arena are laid out at compile time: offsets are
//! sums of symbolic sizes, and a part is used again when what it held is dead and the facts prove that the sizes fit; or each call lays them out
//! by its sizes, where that takes less. Where an op binds a dim, a nested frame begins, for what has that size, and those end that nothing needs
//! any more. The memory of an output serves as such a part until the output is written.
//!
//! Invariants:
//! - Two values that are alive at the same time share no memory, except a view and what it looks at. An update of a part of a value that dies
//!   there is made where the value is.
//! - What a loop body allocates is allocated once, outside of time: each iteration uses the same memory. What has a size that the body binds
//!   is in a frame that ends with the iteration.
mod allocation;
mod arena;
mod control;
mod early_release;
mod frames;
mod in_place;
mod liveness;
mod output_reuse;
mod partial_updates;
pub mod plan_buffers;
mod planner;
mod rematerialize;
mod runtime_layout;
mod sample_sizes;
pub mod schedule_groups;
mod static_layout;
