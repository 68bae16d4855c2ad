//! The rules of the pass `canonicalize`, by family, and the driver that applies them.
//!
//! A rule must hold bit by bit for every input, including NaN, infinities and both zeros of floats,
//! and integers that wrap; a comment gives the reason unless it is plain. (The payload of NaN may
//! change, and powers may round differently.) Each rule has a function of its name in
//! filetests/passes/canonicalize.
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
mod size_lists;
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
    size_lists::RULES,
    sizes::RULES,
    slices::RULES,
];

/// All rules.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    FAMILIES.iter().flat_map(|family| family.iter())
}
