//! Emits ops of the compiler for lowerings: [`Emitter`].
//!
//! Each op that a lowering uses has one method, so that names and attributes of ops are here.
//! Shapes broadcast as in NumPy; a relation of sizes that an op needs is proved, or becomes a fact
//! of the function. Methods take `&self`, so that calls nest.
mod control;
mod elementwise;
mod emitter;
mod index;
mod limits;
mod operand;
mod reduce;
mod shape;
mod window;

pub use control::Sign;
pub use emitter::Emitter;
pub(crate) use emitter::sum_type;
pub use index::{Gather, Scatter};
pub use limits::{highest, lowest, neutral};
pub use operand::Operand;
pub use reduce::Dot;
pub use window::{Convolution, Window};

/// Axes as an attribute has them.
fn ints(axes: &[usize]) -> Vec<i64> {
    axes.iter().map(|&axis| axis as i64).collect()
}
