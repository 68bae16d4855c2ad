//! The kernels of a product: micro-kernels, packing, and the routines that a kernel calls. They
//! take every decision from the plan.
pub(in crate::schedule) mod blocks;
pub(in crate::schedule) mod call;
pub(in crate::schedule) mod chunk;
pub(in crate::schedule) mod dot;
pub(in crate::schedule) mod dot_row;
pub(in crate::schedule) mod dot_words;
pub(in crate::schedule) mod epilogue_routine;
pub(in crate::schedule) mod im2col;
pub(in crate::schedule) mod int4;
pub(in crate::schedule) mod interleaved;
pub(in crate::schedule) mod masks;
pub(in crate::schedule) mod micro;
pub(in crate::schedule) mod operands;
pub(in crate::schedule) mod pack;
mod pairs;
pub(in crate::schedule) mod parameters;
pub(in crate::schedule) mod partial_sums;
pub(in crate::schedule) mod partition;
pub(in crate::schedule) mod prefetch;
pub(in crate::schedule) mod register_tiles;
pub(in crate::schedule) mod routines;
pub(in crate::schedule) mod row_block;
pub(in crate::schedule) mod staging;
pub(in crate::schedule) mod step;
pub(in crate::schedule) mod tail_columns;
pub(in crate::schedule) mod write;
