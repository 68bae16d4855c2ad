//! Schedules a fusion group: turns it into kernels and their launches.
//!
//! A group comes as a function of its own: its parameters are the group's inputs, its results the
//! group's outputs. A schedule decides the loops, the work units and the lanes; [`crate::element`]
//! computes an element. A kernel's parameters are the inputs and outputs it uses, in the order of
//! its launch, then the range of units.
//!
//! Invariants: a schedule asks facts, never sizes; results do not depend on how units are spread
//! over threads.
#[macro_use]
mod version_table;

mod common;
mod condition;
mod cpu;
mod gpu;
mod group;
mod offer;
mod scheduler;
mod version;

pub(crate) use common::iteration_space::space_of;
pub use condition::Condition;
pub use cpu::{AttentionPlan, ReductionSchedule, Tile, pointwise_versions, tile};
pub(crate) use disc_passes::fusion::plan::extract;
pub use group::Group;
pub use offer::{ConvolutionOffer, LibraryWay, MatmulOffer, Offer, Rest};
pub use scheduler::{Choices, Offers, Refusal, Request, Scheduler, scheduler};
pub use version::{Argument, Launch, ProductOffer, Scheduled, Version, Versioned, Work, Workspace, aligned_bytes, scratch_bytes};
pub use version_table::{VERSIONS, VersionDef, VersionKind};
