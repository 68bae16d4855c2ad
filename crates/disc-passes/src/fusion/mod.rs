//! Fusion: which ops become one kernel.
//!
//! Every op starts as a group of its own; groups that are joined by an edge are merged where one schedule can compute both, and no other
//! path connects them. What is free to compute again (constants, broadcasts, views of repeated lines, counting, slices) is copied into each
//! group that needs it; a reshape of memory is no work at all and stays outside, one between ops of a group lies inside. These kinds of
//! groups are built, in this order:
//! - *contraction*: a product and what is element-wise in its result, conversions of its operands, and others of the same rows;
//! - *row*: reductions over the same axes of one space, what feeds them and what depends on them;
//! - *single*, of a scan: what feeds it and what is computed from it, element by element over its shape; other ops with a schedule of their
//!   own stay alone;
//! - *loop*: element-wise and rearranging ops over one space.
//!
//! [`form`] decides whether a set of ops is a loop or a row group, and its cost model is: costly ops are computed once for each of their
//! elements (or once a row), everything else may be computed where it is used. Outputs that are transposed behind a reduction have their
//! place from [`order`]; what is read along rows at other places may be computed a row at a time ([`lines`]); [`copies`] bounds the code of ops
//! that are computed at several places; [`waits`] keeps loops apart for which several products would be in memory at once. At last groups beside one another are joined:
//! reductions of one tensor, loops over the rows of a tensor that is reduced, and small loops of one shape; and cheap
//! functions of what a group stores anyway move to the one group that needs them ([`sinking`]). [`explain`] says of each edge
//! that was not fused why.
//!
//! Passes of their own then join groups that share rows of scores ([`fuse_attention`]), and products with the loop that interleaves their results ([`fuse_interleave`]).
//!
//! Invariants: the decision asks types and facts, never sizes; the groups form no cycle; every op is in exactly one group, except copies of
//! free ones.
pub(crate) mod binders;
mod duplication;
mod emit;
mod epilogue;
mod explain;
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
mod live_products;
mod merging;
pub mod multiversion;
mod nested_group;
mod output_order;
mod pairing;
pub mod reduction_phases;
mod sinking;
pub mod space;
pub(crate) mod split_group;

pub use explain::{Edge, FusionPlan, HorizontalPair, PlannedGroup, Reason, explain};
pub use form::{SHORT_ROW, layout_of};
pub use layout::Layout;
pub use legality::costly;
