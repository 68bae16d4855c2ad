//! Vector math: every function written once over an [`Emitter`], the same source for all targets.
//!
//! It is not an IR and knows no LLVM: [`Scalar`] evaluates the functions in tests, the kernel IR's builder emits them.
//!
//! - Straight-line code in polynomials and selects; no table look-ups, no library calls.
//! - NaN propagates, infinities, signed zeros and denormals follow the C function of the name; docs/numerics.md states error bounds.
//! - f16 and bf16 are computed in f32 by the caller.

#![expect(clippy::approx_constant, reason = "fitted coefficients come near named constants without being them")]

mod arith;
mod emitter;
mod erf;
mod exp;
mod functions;
mod log;
mod roots;
mod scalar;

pub use emitter::{Emitter, Format, LoopBody, LoopStep};
pub use functions::{Bound, MathFn};
pub use scalar::{Scalar, Scalar32, Scalar32NoFma, Scalar64, Scalar64NoFma};
