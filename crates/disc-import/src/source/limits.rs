//! Sets the limits of importers. Real models stay far below; the limits keep a damaged or hostile
//! file from costing memory, time or stack.
use disc_ir::{Code, Diagnostic};

/// A number of things that a model may have at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The things that are counted, in the plural.
    pub of: &'static str,
    pub most: u64,
}

const fn limit(of: &'static str, most: u64) -> Limit {
    Limit { of, most }
}

/// The graph and its structure; weights may be in files beside it.
pub const FILE: Limit = limit("bytes of a model", 2 << 30);
pub const NODES: Limit = limit("nodes", 500_000);
/// Messages or regions within each other.
pub const DEPTH: Limit = limit("levels of nesting", 64);
pub const RANK: Limit = limit("axes of a tensor", 16);
pub const NAME: Limit = limit("bytes of a name", 512);
/// Constants that become part of the program, in all; weights do not count.
pub const LITERALS: Limit = limit("bytes of literals", 64 << 20);
/// Messages of protobuf: two bytes of an empty one become a hundred times as many in memory.
pub const MESSAGES: Limit = limit("messages", 4_000_000);

impl Limit {
    /// Checks a count.
    ///
    /// # Errors
    /// E1002, which names the limit.
    pub fn check(self, count: usize) -> Result<(), Diagnostic> {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        if count <= self.most { Ok(()) } else { Err(self.exceeded(&count.to_string())) }
    }

    /// Returns the error for a count that was not taken to its end.
    pub fn passed(self) -> Diagnostic {
        self.exceeded("more")
    }

    fn exceeded(self, count: &str) -> Diagnostic {
        let Self { of, most } = self;
        Diagnostic::new(Code::E1002, format!("{of}: {most} are the limit, the model has {count}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_admits_its_number_and_names_itself_beyond() {
        for limit in [FILE, NODES, DEPTH, RANK, NAME, LITERALS, MESSAGES] {
            let most = usize::try_from(limit.most).unwrap();
            assert_eq!(limit.check(most), Ok(()));
            for error in [limit.check(most + 1).unwrap_err(), limit.passed()] {
                assert_eq!(error.code, Code::E1002);
                assert!(error.message.contains(limit.of) && error.message.contains(&limit.most.to_string()), "{error}");
            }
        }
    }
}
