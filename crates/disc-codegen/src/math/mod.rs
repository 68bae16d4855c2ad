//! Implements vector math: every function is written once over an [`Emitter`], the same source for
//! all targets.
//!
//! It has no IR and knows no LLVM: [`Scalar`] evaluates the functions in tests, the
//! kernel IR's builder emits them.
//!
//! - The code is straight-line: polynomials and selects; no table look-ups, no library calls.
//! - NaN propagates, infinities, signed zeros and denormals follow the C function of the name;
//!   docs/numerics.md states error bounds.
//! - f16 and bf16 are computed in f32 by the caller.

#![expect(clippy::approx_constant, reason = "fitted coefficients come near named constants without being them")]

mod arith;
mod bessel;
mod convert;
mod double;
mod emitter;
mod erf;
mod erf_inv;
mod exp;
mod fmod;
mod functions;
mod gamma;
mod hyperbolic;
mod inverse_trig;
mod log;
mod log_pair;
mod pow;
mod roots;
mod scalar;
mod trig;
mod trig_reduce;
mod zeta;

pub use convert::{Narrow, OutOfRange, from_narrow, to_integer, to_narrow, to_unsigned_saturating};
pub use emitter::{Emitter, Format, LoopBody, LoopStep, scale_by_products};
pub use functions::{Bound, MathFn};
pub use scalar::{Scalar, Scalar32, Scalar32NoFma, Scalar64, Scalar64NoFma};
