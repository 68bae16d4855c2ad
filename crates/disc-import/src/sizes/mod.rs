//! Computes with sizes: dim expressions, numbers among them.
mod quotient;
mod relation;

pub use quotient::{rounded_to_even, rounded_to_zero, rounded_up};
pub use relation::{Relation, chosen, relation};

use disc_ir::Dim;

/// The lesser of two sizes; `Dim` is ordered too, by its text.
pub fn least(a: &Dim, b: &Dim) -> Dim {
    Dim::min(a, b)
}

/// The greater of two sizes.
pub fn greatest(a: &Dim, b: &Dim) -> Dim {
    Dim::max(a, b)
}

/// The sizes' product; 1 of none.
pub fn product<'d>(sizes: impl IntoIterator<Item = &'d Dim>) -> Dim {
    Dim::product(sizes.into_iter().cloned())
}
