//! Notices changes of a module of Python since it was compiled.
//!
//! The dicts, lists and weights that decide are found in Python (`disc.torch.watch`); here they are
//! compared before each call.
mod dict;
mod list;
mod module;
mod weights;

pub(crate) use dict::Version;
pub(crate) use module::{PyModuleWatch, watches_torch_calls, watches_torch_modes};
pub(crate) use weights::PyWeightWatch;
