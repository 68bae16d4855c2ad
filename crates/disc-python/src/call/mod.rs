//! Tensors of Python: how they are read without a copy, and how calls of compiled modules go.
//!
//! Nothing here knows the compiler. torch is found by what its tensor type offers, never imported.
#![expect(dead_code, reason = "calls come with the facade")]
mod attributes;
mod buffer;
mod dlpack;
mod held;
mod kind;
mod read;

pub(crate) use held::hold;
