//! Names an entry: a hash of all its inputs, and of the build that made it.
use sha2::{Digest, Sha256};

/// Identifies the build of the compiler: a hash of its sources.
const BUILD: &str = env!("DISC_BUILD_ID");

/// A hash of 256 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(pub(super) [u8; 32]);

impl Key {
    /// Hashes a list of parts; their boundaries count.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in [BUILD.as_bytes()].iter().chain(parts) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Formats the key as a file name.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

pub(super) fn checksum(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_parts_end_counts() {
        let keys = [Key::of(&[b"ab", b"c"]), Key::of(&[b"a", b"bc"]), Key::of(&[b"abc"]), Key::of(&[b"abc", b""])];
        for (i, key) in keys.iter().enumerate() {
            assert!(!keys[..i].contains(key));
        }
        assert_eq!(Key::of(&[b"abc"]).hex(), keys[2].hex());
    }
}
