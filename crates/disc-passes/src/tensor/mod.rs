//! Passes on tensor programs, one per file and named after it, and the specialisation of a program.
pub mod cse;
pub mod dce;
pub mod eliminate_transposes;
pub mod fold;
pub mod fold_branches;
pub mod inline;
pub mod insert_shape_checks;
pub mod lower_convolutions;
pub mod outline_constants;
pub mod pack_weights;
pub mod place;
pub mod prepare;
pub mod quantize_weights;
pub(crate) mod sink_scales;
pub mod specialize;
pub mod split_matmuls;
pub mod unify_dims;
