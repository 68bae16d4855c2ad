//! The matmul schedule: register-blocked micro-kernels with element-wise epilogues.
//!
//! Rows are cut into even blocks of at most `MR` rows and columns into panels of `NR`; the
//! micro-kernel for a row count keeps its whole block of results in registers, runs over the summed
//! dimension, applies the epilogue and stores. A [`plan`] decides how the operands are read: from
//! panels `[n/NR][k][NR]` that were packed when the weights were loaded, in place, or from task
//! memory that the work unit packs. Products of a few columns, or of a few rows with a right
//! operand that is contiguous along the sums, are dot products along memory. [`emit`] writes the
//! kernels of a plan.
//!
//! A work unit is a chunk of rows times one panel (a few panels, if it packs rows), for one
//! position along the batch dimensions. Units of one chunk follow one another, so that threads
//! split rows when there are many and panels when there are few. Several products of one left
//! operand are one launch: the panels of one follow those of the other.
//!
//! The tile sizes and the even blocks are those of the measurements in docs/performance/matmul.md.
mod emit;
mod group;
mod launch;
mod library;
mod plan;
pub(in crate::schedule) mod split_k;

pub(super) use emit::{
    interleaved::{counts, exists, place},
    partition::{chunk_rows, for_row_blocks},
    routines::{count_sites, merge_sites},
    row_block::{BlockProduct, RowsOf},
};
pub(in crate::schedule) use launch::schedule;
pub(super) use launch::schedule_without;
pub(in crate::schedule) use library::{offer_products, offered};
pub(in crate::schedule) use plan::epilogue::{depends, order};
pub use plan::tile::{Tile, tile};
pub(super) use plan::{
    MatmulPlan,
    epilogue::check_elementwise,
    forms::{RightForm, Role, RowBuffer},
    interleaved::InterleavedProduct,
};
pub(in crate::schedule) use split_k::split_k;
