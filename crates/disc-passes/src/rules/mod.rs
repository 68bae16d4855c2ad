//! The rules of the pass `canonicalize`, by family.
//!
//! A rule must hold for every input, bit by bit: also for NaN, infinities and both zeros of floats, and for integers that wrap; a comment
//! says why where that is not plain. (Which NaN comes out may change, and powers may be rounded otherwise.) Each has a function named for it in filetests/passes/canonicalize.
mod arithmetic;
pub mod canonicalize;
mod compare;
mod contraction;
mod convert;
pub(crate) mod dead_ops;
mod index;
mod logic;
mod movement;
mod reduce;
mod reshape_pairs;
pub(crate) mod rewrite;
mod sizes;
mod slice_concat;
mod slices;
#[cfg(test)]
mod tests;

pub use rewrite::Rule;

static FAMILIES: &[&[Rule]] = &[
    arithmetic::RULES,
    compare::RULES,
    contraction::RULES,
    convert::RULES,
    index::RULES,
    reshape_pairs::RULES,
    logic::RULES,
    movement::RULES,
    slice_concat::RULES,
    reduce::RULES,
    sizes::RULES,
    slices::RULES,
];

/// Every rule.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    FAMILIES.iter().flat_map(|family| family.iter())
}
