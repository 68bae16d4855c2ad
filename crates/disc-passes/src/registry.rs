//! Every pass, by name.
use crate::{canonicalize, cse, dce, pass::PassDef};

/// All passes, in the order of their names.
pub static PASSES: &[&PassDef] = &[&canonicalize::PASS, &cse::PASS, &dce::PASS];

/// The pass of this name.
pub fn find(name: &str) -> Option<&'static PassDef> {
    PASSES.iter().copied().find(|pass| pass.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_distinct() {
        assert!(PASSES.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(find("canonicalize").is_some() && find("no-such-pass").is_none());
    }
}
