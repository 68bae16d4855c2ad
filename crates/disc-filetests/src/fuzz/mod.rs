//! Fuzzes from the filetests: changed texts must be refused with a located error, or survive
//! everything that is done to a module.
//!
//! Input number `i` of a seed depends on both alone (and on the filetests), so its number
//! reproduces a failure.
mod mutate;
mod property;
mod watch;

pub use watch::{Budget, Report, watch, work};

use disc_ir::generate::Random;
use std::{fs, path::Path};

/// The texts that inputs are made of.
pub struct Corpus {
    files: Vec<String>,
    /// Functions on their own.
    functions: Vec<String>,
}

impl Corpus {
    /// The filetests below `root`, without their comments.
    pub fn new(root: &Path) -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let files: Vec<String> = crate::corpus(root).into_iter().map(|(_, path)| without_comments(&read(path))).collect();
        let functions = files.iter().flat_map(|file| functions(file)).collect();
        Self { files, functions }
    }

    /// Makes input number `index`.
    pub fn input(&self, seed: u64, index: u64) -> String {
        let mut random = Random::new(seed ^ index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        // The first numbers of neighbouring seeds are alike.
        random.bits();
        mutate::input(self, &mut random)
    }

    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }
}

fn without_comments(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// Splits a text into functions: each starts at an unindented word, and ends before the next.
fn functions(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.starts_with(|c: char| c.is_ascii_alphabetic()) {
            found.push(String::new());
        }
        if let Some(last) = found.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    found
}

/// Returns the violated property of this text; `None` if there is none.
pub fn failure(text: &str) -> Option<String> {
    property::failure(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corpus() -> Corpus {
        Corpus::new(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests"))
    }

    #[test]
    fn inputs_depend_on_seed_and_number_alone() {
        let corpus = corpus();
        assert_eq!(corpus.input(1, 5), corpus.input(1, 5));
        assert_ne!(corpus.input(1, 5), corpus.input(2, 5));
    }

    #[test]
    fn many_inputs_still_parse_and_many_do_not() {
        let corpus = corpus();
        let parsed = (0..300).filter(|&i| disc_ir::parse(&corpus.input(3, i)).is_ok()).count();
        assert!((60..240).contains(&parsed), "{parsed} of 300 parse");
    }
}
