//! Fusion: decides which ops become one kernel.
//!
//! Every op starts as a group of its own. Groups joined by an edge are merged if one schedule can
//! compute both and no other path connects them. Ops that are free to recompute (constants,
//! broadcasts, views of repeated lines, iotas, slices) are copied into each group that needs them;
//! a reshape of memory is no work and stays outside, one between ops of a group is inside. The
//! kinds of groups are built in this order:
//! - *matmul*: matmuls of the same rows, their elementwise epilogues, and conversions of their
//!   operands;
//! - *reduction*: reductions over the same axes of one space, with what feeds them and what depends
//!   on
//!   them;
//! - *standalone* with a scan: the scan and pointwise ops over its shape before and after it; other
//!   ops
//!   with a schedule of their own are not fused;
//! - *pointwise*: elementwise ops and data movement over one space.
//!
//! [`form`] decides if a set of ops is a pointwise group or a reduction. By its cost model, costly
//! ops are computed once for each of their elements (or once per row), and all others where they
//! are read. Outputs transposed after a reduction get their order from [`output_order`]; values
//! that a row reads at other positions may be computed a line at a time ([`line_buffers`]);
//! [`duplication`] bounds the code of ops that are computed at several positions; [`live_products`]
//! keeps groups apart that would need several matmuls in memory at once. Then independent groups
//! are merged ([`merging`], [`horizontal`], [`lists`]), and cheap functions of a stored value sink
//! into their only user ([`sinking`]). [`explain`] gives the reason for each edge that is left.
//!
//! Later passes fuse groups that share rows of attention scores ([`fuse_attention`]), and matmuls
//! with the group that interleaves their results ([`fuse_interleave`]).
//!
//! Invariants: the decision depends on types and facts, never on sizes; the groups form no cycle;
//! every op is in exactly one group, except copies of free ones.
pub(crate) mod binders;
mod duplication;
mod emit;
mod epilogue;
mod explain;
mod families;
mod form;
pub mod fuse;
pub mod fuse_attention;
pub mod fuse_interleave;
mod grouping;
pub mod hoisting;
mod horizontal;
mod layout;
mod legality;
pub mod line_buffers;
mod lists;
mod live_products;
mod merging;
pub mod multiversion;
mod nested_group;
mod output_order;
mod pairing;
pub mod plan;
pub mod reduction_phases;
mod sinking;
pub mod space;
pub(crate) mod split_group;
mod stored_updates;

pub use explain::{Edge, FusionPlan, HorizontalPair, PlannedGroup, Reason, explain};
pub use families::families;
pub(crate) use families::only_reader;
pub use layout::Layout;
pub use legality::costly;
pub use plan::ReductionPlan;
