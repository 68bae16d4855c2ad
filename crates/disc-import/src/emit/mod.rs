//! Emits ops of the compiler for lowerings: [`Emitter`].
//!
//! Each op that a lowering uses has one method, so that names and attributes of ops are here.
//! Shapes broadcast as in NumPy; a relation of sizes that an op needs is proved, or becomes a fact
//! of the function. Methods take `&self`, so that calls nest.
mod control;
mod elementwise;
mod emitter;
mod index;
mod learned;
mod limits;
mod operand;
mod reduce;
mod shape;
mod window;

pub use control::Sign;
pub use emitter::Emitter;
pub use index::{Gather, Scatter};
pub use learned::Learned;
pub use limits::{highest, lowest, neutral};
pub use operand::Operand;
pub use reduce::{Combine, Dot};
pub use window::{Convolution, Window};
