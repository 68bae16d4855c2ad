//! Lowers TensorFlow's ops, a file per family. A lowering of more than a few ops is a composition.
pub(super) mod contraction;
pub(super) mod elementwise;
pub(super) mod index;
pub(super) mod lists;
pub(super) mod normalize;
pub(super) mod reduce;
pub(super) mod resize;
pub(super) mod shape;
pub(super) mod slice;
pub(super) mod window;
