//! Provides what the libraries of NVIDIA's for tests have in common: a stream of the fake CUDA
//! driver to compute in, elements in its memory, and calls that a test sees and lets fail.
//!
//! Each library has a copy of its own of what is here, the record of its calls included.

#![allow(unreachable_pub, reason = "the functions are exported by their names")]

mod control;
mod driver;
mod element;

pub use control::{called, made, note};
pub use driver::{DeviceMemory, HostFunction, enqueue};
pub use element::Element;

/// The number of a failure of a library; 0 is success.
pub type Status = i32;

/// Exports functions of a library under their names.
#[macro_export]
macro_rules! library {
    ($(fn $name:ident($($argument:ident: $ty:ty),*) $body:block)*) => {
        $(
            /// A function of the library.
            ///
            /// # Safety
            /// As the library's function of this name.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments, reason = "the library's function is called so")]
            pub unsafe extern "C" fn $name($($argument: $ty),*) -> $crate::Status {
                let body = || -> Result<(), $crate::Status> { $body };
                $crate::called(stringify!($name)).and_then(|()| body()).err().unwrap_or(0)
            }
        )*
    };
}
