//! Makes words of a file's names.
use std::collections::{HashMap, HashSet};

/// Words that are given out: no two are equal.
#[derive(Debug, Default)]
pub struct Words {
    taken: HashSet<String>,
    /// The last number that was appended to a word that was taken.
    suffixes: HashMap<String, usize>,
}

/// The longest word. Names have no such limit: the view keeps them.
const LONGEST: usize = 64;

impl Words {
    /// Returns the word for a name: other characters than letters, digits and `_` become `_`.
    pub fn word(&mut self, name: &str) -> String {
        let clean = name.chars().take(LONGEST).map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
        let mut word: String = clean.collect();
        if !word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            word.insert(0, '_');
        }
        if self.taken.insert(word.clone()) {
            return word;
        }
        let suffix = self.suffixes.entry(word.clone()).or_insert(0);
        loop {
            *suffix += 1;
            let candidate = format!("{word}_{suffix}");
            if self.taken.insert(candidate.clone()) {
                return candidate;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_become_words_and_stay_apart() {
        let mut words = Words::default();
        let mut word = |name: &str| words.word(name);
        assert_eq!(word("x"), "x");
        assert_eq!(word("input:0"), "input_0");
        assert_eq!(word("input_0"), "input_0_1");
        assert_eq!(word("input/0"), "input_0_2");
        assert_eq!((word("/x/y"), word("onnx::Gather_0")), ("_x_y".into(), "onnx__Gather_0".into()));
        assert_eq!((word(""), word("7"), word("ä")), ("_".into(), "_7".into(), "__1".into()));
    }

    proptest! {
        #[test]
        fn any_names_are_words(names in prop::collection::vec(".{0,80}", 0..20)) {
            let mut words = Words::default();
            let made: Vec<String> = names.iter().map(|name| words.word(name)).collect();
            let text: String = made.iter().map(|word| format!("%{word}: tensor<f32>, ")).collect();
            let text = format!("func @f({}) {{\n  return\n}}\n", text.trim_end_matches(", "));
            let module = disc_ir::parse(&text).unwrap();
            let function = &module.functions[0];
            let read: Vec<&str> = function.parameters().iter().map(|&x| &**function.name_of(x).unwrap()).collect();
            prop_assert_eq!(read, made);
        }
    }
}
