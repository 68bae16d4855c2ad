//! Scans a text for ops and signatures, without reading types and attributes.
//!
//! Tools keep the names of inputs and results in attributes of arguments (`jax.arg_info`,
//! `jax.result_info`), which are not StableHLO's.

use std::collections::HashMap;

/// A parameter or result of a function, as the text has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Argument {
    /// The text of its type.
    pub ty: String,
    /// The name that the tool gave it.
    pub name: Option<String>,
}

/// Attributes that hold a name.
const NAMES: &[&str] = &["jax.arg_info", "jax.result_info", "disc.name"];

/// A position in a text.
pub(super) struct Scan<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Scan<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Returns the next byte that is neither white space nor in a comment.
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.byte()? {
                byte if byte.is_ascii_whitespace() => self.at += 1,
                b'/' if self.text.as_bytes().get(self.at + 1) == Some(&b'/') => self.skip(|byte| byte != b'\n'),
                byte => return Some(byte),
            }
        }
    }

    fn skip(&mut self, within: impl Fn(u8) -> bool) {
        while self.byte().is_some_and(&within) {
            self.at += 1;
        }
    }

    /// Moves past a word. Returns it.
    fn word(&mut self) -> &'t str {
        let start = self.at;
        self.skip(is_word);
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Moves past a string. Returns what is between its quotes, with escapes as they are.
    fn string(&mut self) -> &'t str {
        self.at += 1;
        let start = self.at;
        while let Some(byte) = self.byte().filter(|&byte| byte != b'"') {
            self.at += if byte == b'\\' { 2 } else { 1 };
        }
        let end = self.at.min(self.text.len());
        self.at = (end + 1).min(self.text.len());
        self.text.get(start..end).unwrap_or_default()
    }

    /// Moves past brackets and all within them; `->` closes none.
    fn group(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.string();
                    continue;
                }
                b'-' if self.text.as_bytes().get(self.at + 1) == Some(&b'>') => self.at += 1,
                b'(' | b'[' | b'{' | b'<' => depth += 1,
                b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Moves past the next op. Returns its name and the place of it.
    pub(super) fn next_op(&mut self) -> Option<(&'t str, usize)> {
        loop {
            match self.peek()? {
                b'"' => {
                    let start = self.at + 1;
                    let name = self.string();
                    if is_op(name) && self.byte() == Some(b'(') {
                        return Some((name, start));
                    }
                }
                // Names of values, functions, types and attributes.
                b'%' | b'@' | b'#' | b'!' | b'^' => {
                    self.at += 1;
                    if self.byte() == Some(b'"') {
                        self.string();
                    } else {
                        self.skip(|byte| is_word(byte) || matches!(byte, b'-' | b'#'));
                    }
                }
                byte if byte.is_ascii_alphabetic() || byte == b'_' => {
                    let start = self.at;
                    let word = self.word();
                    match self.peek() {
                        Some(b'(') if word == "loc" => self.group(),
                        // A name of an attribute.
                        Some(b'=' | b',' | b'}') => {}
                        _ if is_op(word) => return Some((word, start)),
                        _ => {}
                    }
                }
                byte if byte.is_ascii_digit() => self.skip(is_word),
                _ => self.at += 1,
            }
        }
    }

    /// Reads arguments between parentheses: `(%a: T {..} loc(..), %b: T)`, or only types.
    fn arguments(&mut self) -> Vec<Argument> {
        let mut found = Vec::new();
        self.at += 1;
        while self.peek().is_some_and(|byte| byte != b')') {
            if self.peek() == Some(b'%') {
                self.skip(|byte| byte != b':' && byte != b')');
                self.at += usize::from(self.byte() == Some(b':'));
            }
            found.push(self.argument());
            if self.peek() == Some(b',') {
                self.at += 1;
            }
        }
        self.at += 1;
        found
    }

    /// Reads a type and its attributes, up to the comma or parenthesis after it.
    fn argument(&mut self) -> Argument {
        let mut argument = Argument::default();
        while let Some(byte) = self.peek() {
            let start = self.at;
            match byte {
                b',' | b')' => break,
                b'{' => {
                    self.group();
                    argument.name = name_in(self.text.get(start..self.at).unwrap_or_default());
                }
                b'(' | b'<' | b'[' => {
                    self.group();
                    argument.ty += self.text.get(start..self.at).unwrap_or_default();
                }
                byte if is_word(byte) => {
                    let word = self.word();
                    if word == "loc" && self.peek() == Some(b'(') {
                        self.group();
                    } else {
                        argument.ty += word;
                    }
                }
                _ => {
                    self.at += 1;
                    while !self.text.is_char_boundary(self.at) {
                        self.at += 1;
                    }
                    argument.ty += self.text.get(start..self.at).unwrap_or_default();
                }
            }
        }
        argument
    }
}

/// The parameters and results of a function as its head has them.
pub type Stated = (Vec<Argument>, Vec<Argument>);

/// Returns what the heads of a text's functions state, by the functions' names, in one pass.
pub fn signatures(text: &str) -> HashMap<&str, Stated> {
    let mut found = HashMap::new();
    let mut end = 0;
    for (at, _) in text.match_indices('@') {
        // What is within a head is none.
        let Some((name, mut scan)) = head_at(text, at).filter(|_| at >= end) else { continue };
        let inputs = scan.arguments();
        let mut outputs = Vec::new();
        if scan.peek() == Some(b'-') {
            scan.at += 2;
            outputs = if scan.peek() == Some(b'(') { scan.arguments() } else { vec![Argument::default()] };
        }
        end = scan.at;
        found.entry(name).or_insert((inputs, outputs));
    }
    found
}

/// Returns the name of a function and the place of its parameters if the `@` at `at` belongs to
/// its head.
fn head_at(text: &str, at: usize) -> Option<(&str, Scan<'_>)> {
    let before = text.get(..at)?.trim_end();
    let before = ["public", "private"].into_iter().find_map(|word| before.strip_suffix(word)).unwrap_or(before).trim_end();
    if !before.ends_with("func") {
        return None;
    }
    let mut scan = Scan { text, at: at + 1 };
    let name = if scan.byte() == Some(b'"') {
        scan.string()
    } else {
        let start = scan.at;
        scan.skip(|byte| is_word(byte) || byte == b'-');
        text.get(start..scan.at)?
    };
    (scan.peek() == Some(b'(')).then_some((name, scan))
}

/// Returns the name in a dictionary of attributes.
fn name_in(dictionary: &str) -> Option<String> {
    let mut scan = Scan::new(dictionary);
    scan.at = 1;
    while let Some(byte) = scan.peek() {
        if byte == b'"' {
            scan.string();
        } else if is_word(byte) {
            let word = scan.word();
            if NAMES.contains(&word) && scan.peek() == Some(b'=') {
                scan.at += 1;
                return (scan.peek() == Some(b'"')).then(|| unescaped(scan.string())).filter(|name| !name.is_empty());
            }
        } else {
            scan.at += 1;
        }
    }
    None
}

/// Undoes the escapes of MLIR's strings; those that are no text stay as they are.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = match (first, after) {
            (b'\\', [b'n', ..]) => Some((b'\n', 1)),
            (b'\\', [b't', ..]) => Some((b'\t', 1)),
            (b'\\', [quoted @ (b'"' | b'\\'), ..]) => Some((*quoted, 1)),
            (b'\\', [high, low, ..]) => hex(*high).zip(hex(*low)).map(|(high, low)| (16 * high + low, 2)),
            _ => None,
        };
        let (byte, length) = escaped.unwrap_or((*first, 0));
        bytes.push(byte);
        rest = after.get(length..).unwrap_or_default();
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$')
}

/// Returns true for a name of a dialect, a point and a name of an op.
fn is_op(word: &str) -> bool {
    let is_name = |part: &str| part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && part.bytes().all(is_word);
    word.split_once('.').is_some_and(|(dialect, op)| is_name(dialect) && is_name(op))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
module @jit_main {
  func.func private @inner(%arg0: tensor<2xf32>) -> tensor<2xf32> { return %arg0 : tensor<2xf32> }
  func.func public @main(%arg0: tensor<?x4xf32> {jax.arg_info = "x['a']", mhlo.sharding = "{replicated}"} loc("x"), // the first
      %arg1: tensor<f32> loc(unknown), %arg2: tuple<tensor<2xf32>, i1> {a.b = {c = "jax.arg_info"}, jax.arg_info = "/w\22/b"})
      -> (tensor<?x4xf32> {jax.result_info = "result[0]"}, (i32) -> i32) {
    %0 = func.call @inner(%arg1) : (tensor<2xf32>) -> tensor<2xf32>
  }
}"#;

    fn names(arguments: &[Argument]) -> Vec<Option<&str>> {
        arguments.iter().map(|argument| argument.name.as_deref()).collect()
    }

    #[test]
    fn a_head_gives_names_and_types() {
        let mut found = signatures(TEXT);
        assert_eq!(found.len(), 2);
        assert_eq!(found["inner"].0.len(), 1);
        let (inputs, outputs) = found.remove("main").unwrap();
        assert_eq!(names(&inputs), [Some("x['a']"), None, Some("/w\"/b")]);
        let types: Vec<&str> = inputs.iter().map(|input| &*input.ty).collect();
        assert_eq!(types, ["tensor<?x4xf32>", "tensor<f32>", "tuple<tensor<2xf32>, i1>"]);
        assert_eq!(names(&outputs), [Some("result[0]"), None]);
        assert_eq!(signatures("func.func @\"a b\"() {")["a b"], (vec![], vec![]));
    }

    #[test]
    fn damaged_heads_end() {
        for cut in 0..TEXT.len() {
            signatures(&TEXT[..cut]);
        }
        for text in
            ["func @main(\u{e9}", "func @main(%", "func @main({", "func @main(tensor<", "func @main() -", "func @main(\"\\"]
        {
            signatures(text);
        }
        assert_eq!(unescaped("a\\zb\\"), "a\\zb\\");
    }
}
