//! Buffer planning: from tensors to memory in one arena.
//!
//! Each function becomes a host program. Every result of a group gets memory: an allocation of the
//! arena or, if it is returned, memory of the caller. Groups write into their last operands; a
//! reshape is a view. The arena is laid out at compile time with symbolic offsets, and memory is
//! reused once its value is dead and the facts prove that the new one fits; where that takes less
//! memory, each call computes the offsets from its sizes instead. An op that binds a dim opens a
//! nested frame for values of that size, and ends the frames that nothing needs any more. An
//! output's memory may hold other values until the output is written.
//!
//! Invariants:
//! - Two values that are live at the same time share no memory, except a view and its buffer. An
//!   update of a part of a value that dies there is made in place.
//! - An input is written only if the program stores a result into it, and only once nothing reads
//!   what it held (written_inputs.rs).
//! - An allocation in a loop body is allocated once: each iteration uses the same memory. A value
//!   whose size the body binds is in a frame that ends with the iteration.
mod allocation;
mod arena;
mod control;
mod early_release;
mod frames;
mod host_scalars;
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
mod written_inputs;
