//! Provides parts of schedules: index spaces, kernel frames, loops over vectors, and ways to reuse
//! values that neighbouring elements share.
pub(super) mod concat_parts;
pub(super) mod hoisted_tables;
pub(super) mod hoisting;
pub(super) mod interleaved_lanes;
pub(super) mod iteration_space;
pub(super) mod kernel_frame;
pub(super) mod line_buffers;
pub(super) mod nontemporal;
pub(super) mod row_blocking;
pub(super) mod short_rows;
pub(super) mod transpose_tiles;
pub(super) mod vector_loop;
