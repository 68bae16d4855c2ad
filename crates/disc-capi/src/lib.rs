//! The C API of disc: opens packages and runs them. `include/disc.h` is generated from this crate
//! by `cargo xtask codegen`.
//!
//! Invariants: no panic and no error leaves a function but as a [`disc_error`]; a null argument
//! that is not allowed is an error; a function that fails makes no object.

#![allow(non_camel_case_types, reason = "the names are those of the header")]

mod error;
mod output;
mod package;
mod session;
mod tensor;

pub use error::{disc_error, disc_error_code, disc_error_free, disc_error_message};
pub use package::{disc_package, disc_package_close, disc_package_open};
pub use session::{disc_session, disc_session_free, disc_session_new, disc_session_options, disc_session_run};
pub use tensor::{disc_dtype, disc_tensor, disc_tensor_free};
