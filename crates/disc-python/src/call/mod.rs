//! Tensors of Python: how they are read without a copy, and how calls of compiled modules go.
//!
//! Nothing here knows the compiler. torch is found by what its tensor type offers, never imported.
mod arguments;
mod attributes;
mod buffer;
mod dlpack;
mod executable;
mod held;
mod kind;
mod memory;
mod meta;
mod outputs;
mod owned;
mod read;
mod weights;

pub(crate) use executable::{PyExecutable, load_code};
pub(crate) use held::hold;
pub(crate) use weights::read as read_weights;
