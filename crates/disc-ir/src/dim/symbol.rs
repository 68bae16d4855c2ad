//! Names dims: `B`, `S`, `s0`. A symbol is a name and nothing else; the facts hold its properties.
//!
//! Invariants:
//! - A name is an identifier (`[A-Za-z_][A-Za-z0-9_]*`) of at most [`Symbol::MAX_LEN`] bytes, so it
//!   can be printed anywhere.
//! - Equality, hash and order are those of the name.

use std::fmt;
use std::sync::Arc;

/// The name of a dim. Cheap to clone, ordered by name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(Arc<str>);

impl Symbol {
    /// The longest name in bytes.
    pub const MAX_LEN: usize = 64;

    /// A symbol with this name. A name that is no identifier (or is too long) is made one: other
    /// characters become `_`, and a digest of the full name is appended, so that different names
    /// stay different. Use [`Symbol::parse`] to refuse instead.
    pub fn new(name: impl AsRef<str>) -> Self {
        let name = name.as_ref();
        if is_identifier(name) { Symbol(Arc::from(name)) } else { Symbol(Arc::from(sanitized(name))) }
    }

    /// Returns the symbol with exactly this name, or `None` if the name is no identifier or is too
    /// long.
    pub fn parse(name: &str) -> Option<Self> {
        is_identifier(name).then(|| Symbol(Arc::from(name)))
    }

    /// A symbol of a solver, whose name is no identifier: `~` comes after all letters and never in
    /// a user's name.
    pub(super) fn hidden(index: usize) -> Self {
        Symbol(Arc::from(format!("~{index:04}")))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Symbol {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Symbol {
    fn from(name: &str) -> Self {
        Symbol::new(name)
    }
}

impl From<String> for Symbol {
    fn from(name: String) -> Self {
        Symbol::new(name)
    }
}

/// Lets [`super::Dim::symbol`] take a symbol, or a name.
impl From<&Symbol> for Symbol {
    fn from(symbol: &Symbol) -> Self {
        symbol.clone()
    }
}

pub(super) fn starts_name(c: u8) -> bool {
    c.is_ascii_alphabetic() || c == b'_'
}

pub(super) fn continues_name(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_'
}

fn is_identifier(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.len() <= Symbol::MAX_LEN && bytes.first().is_some_and(|&c| starts_name(c)) && bytes.iter().all(|&c| continues_name(c))
}

fn sanitized(name: &str) -> String {
    // FNV-1a: stable across runs and machines, so the same model always gets the same names.
    let digest = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let clean: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(40).collect();
    let lead = if clean.as_bytes().first().is_some_and(|&c| starts_name(c)) { "" } else { "_" };
    format!("{lead}{clean}_{digest:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_becomes_an_identifier_and_stays_distinct() {
        for name in ["B", "_", "s0", "batch_size"] {
            assert_eq!(Symbol::new(name).name(), name);
        }
        let odd = ["", "1x", "a b", "a-b", "a]b", "größe", &"x".repeat(65), &"x".repeat(66), "\u{0}"];
        let made: std::collections::BTreeSet<_> = odd.iter().map(Symbol::new).collect();
        assert_eq!(made.len(), odd.len());
        for symbol in made {
            assert!(is_identifier(symbol.name()), "{symbol}");
        }
        assert!(odd.iter().all(|name| Symbol::parse(name).is_none()));
    }
}
