//! Parses ([`parse`]) and prints ([`print`], `Display`) the textual form of the IR. `docs/ir.md`
//! has the grammar.
//!
//! Nothing is checked here beyond what reading needs: the verifier judges a module, wherever it
//! came from.
//!
//! Invariants:
//! - Everything in a module prints, and parses back: `print(parse(print(m))) == print(m)`.
//! - Printing depends only on the module: no address, no order of hashing.
//! - Parsing never panics, needs memory in proportion to the text, and its recursion is bounded;
//!   [`limits`] has the numbers.
mod elements;
pub mod limits;
mod line;
mod location;
mod names;
mod parse;
mod print;
mod suggest;

pub use elements::{parse_elements, print_elements};
pub use line::{Lines, Position};
pub use location::split_lines;
pub use parse::parse;
pub use print::{PrintOptions, number_ops, print, value_names};
pub use suggest::closest;
