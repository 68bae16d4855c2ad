//! Finds the ops of a text without reading it, and those of them that disc lacks.
//!
//! Invariant: linear in the text, and no text fails: the parser names what is not well formed.
use super::names::Scan;
use disc_ir::{Code, Diagnostic, OpKind, diag::Span, text::Lines};
use std::collections::BTreeMap;

/// The ops of a text by their full names, such as `stablehlo.add`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    pub ops: BTreeMap<String, Found>,
}

/// An op of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub places: Vec<Span>,
    /// The lines of the places, counted from 1.
    pub lines: Vec<usize>,
    pub missing: Option<Missing>,
}

/// The reason why disc does not read an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The dialect is read, and has an op that disc lacks.
    Op,
    /// Ops of this dialect are not read.
    Dialect,
}

impl Missing {
    pub fn reason(self) -> &'static str {
        match self {
            Missing::Op => "disc has no such op yet",
            Missing::Dialect => "ops of this dialect are not read",
        }
    }
}

/// Dialects whose ops are read, as far as disc has them.
const DIALECTS: &[&str] = &["stablehlo", "chlo", "func"];

/// Ops that wrap others: no nodes.
const WRAPPERS: &[&str] = &["func.func", "func.return", "stablehlo.return", "builtin.module"];

/// Finds all ops of a text.
pub fn survey(text: &str) -> Survey {
    let mut found = Survey::default();
    let lines = Lines::new(text);
    let mut scan = Scan::new(text);
    while let Some((name, start)) = scan.next_op() {
        if WRAPPERS.contains(&name) {
            continue;
        }
        let op = found.ops.entry(name.to_owned()).or_default();
        let start = u32::try_from(start).unwrap_or(u32::MAX);
        let end = start.saturating_add(u32::try_from(name.len()).unwrap_or(u32::MAX));
        op.places.push(Span { start, end });
        op.lines.push(lines.position(start).line);
        op.missing = missing(name);
    }
    found
}

fn missing(name: &str) -> Option<Missing> {
    let (dialect, op) = name.split_once('.')?;
    match () {
        () if !DIALECTS.contains(&dialect) => Some(Missing::Dialect),
        () if OpKind::from_name(op).is_none() => Some(Missing::Op),
        () => None,
    }
}

impl Survey {
    /// Returns the ops that are missing.
    pub fn missing(&self) -> impl Iterator<Item = (&str, &Found, Missing)> {
        self.ops.iter().filter_map(|(name, found)| Some((name.as_str(), found, found.missing?)))
    }

    /// Checks that no op is missing.
    ///
    /// # Errors
    /// E1003, which lists all of them with their lines; of an op that very many lines have, the
    /// first ones.
    pub fn check(&self) -> Result<(), Diagnostic> {
        let rows: Vec<String> = self.missing().map(|(name, found, why)| row(name, found, why)).collect();
        if rows.is_empty() {
            return Ok(());
        }
        let ops = if rows.len() == 1 { "1 op" } else { &format!("{} ops", rows.len()) };
        let message = format!("the model has {ops} that disc does not read: {}", rows.join("; "));
        let first = self.missing().flat_map(|(_, found, _)| &found.places).min_by_key(|place| place.start);
        Err(Diagnostic::new(Code::E1003, message).at(first.copied()))
    }
}

fn row(name: &str, found: &Found, why: Missing) -> String {
    format!("`{name}` ({}: {})", found.at(), why.reason())
}

impl Found {
    /// Names the lines: `line 3`, `lines 3, 5`; of very many the first.
    pub fn at(&self) -> String {
        const MOST: usize = 50;
        let word = if self.lines.len() == 1 { "line" } else { "lines" };
        let first: Vec<String> = self.lines.iter().take(MOST).map(ToString::to_string).collect();
        let more = self.lines.len().saturating_sub(MOST);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{word} {}{rest}", first.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> Vec<(String, usize)> {
        survey(text).ops.into_iter().map(|(name, found)| (name, found.places.len())).collect()
    }

    #[test]
    fn ops_of_both_forms_are_found_and_nothing_else_is() {
        let text = r#"
#loc0 = loc("model.py":1:2)
#alias = #stablehlo.gather<offset_dims = [0]>
module @jit.f attributes {mhlo.num_partitions = 1 : i32, jax.uses_shape_polymorphism = true} {
  // stablehlo.sine in a comment
  func.func public @main.f(%arg0: tensor<4xf32> {jax.arg_info = "stablehlo.cosine", mhlo.flag}, %x.y: !stablehlo.token) -> (tensor<4xf32> {jax.result_info = ""}) {
    %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32> loc(#loc0)
    %1 = "stablehlo.add"(%0, %0) {mhlo.frontend_attributes = {a.b = "c.d(x)"}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = stablehlo.reduce(%1 init: %c) applies stablehlo.maximum across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %3 = stablehlo.compare LT, %0, %1, FLOAT {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<4xf32>) -> tensor<4xi1>
    %4 = call @inner.f(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %5 = stablehlo.constant dense<1.0e-5> : tensor<f32>
    %6 = func.call @inner.g(%0) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}"#;
        let found: Vec<(&str, usize)> = vec![
            ("func.call", 1),
            ("stablehlo.add", 2),
            ("stablehlo.compare", 1),
            ("stablehlo.constant", 1),
            ("stablehlo.maximum", 1),
            ("stablehlo.reduce", 1),
        ];
        assert_eq!(counts(text), found.into_iter().map(|(name, count)| (name.to_owned(), count)).collect::<Vec<_>>());
    }

    #[test]
    fn all_that_is_missing_is_one_error() {
        let text = "module {\nfunc.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.fft %x, type = FFT, length = [4] : (tensor<4xf32>) -> tensor<4xf32>
  %1 = mhlo.topk %0
  %2 = \"stablehlo.fft\"(%1) : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}\n}";
        let error = survey(text).check().unwrap_err();
        assert_eq!(error.code, Code::E1003);
        for words in ["2 ops", "`mhlo.topk` (line 4: ops of this dialect", "`stablehlo.fft` (lines 3, 5: disc has no such op"] {
            assert!(error.message.contains(words), "{error}");
        }
        let place = error.span.unwrap();
        assert_eq!(&text[place.start as usize..place.end as usize], "stablehlo.fft");
    }

    #[test]
    fn of_very_many_lines_the_first_are_named() {
        let text = "%0 = mhlo.tan %0\n".repeat(60);
        let error = survey(&text).check().unwrap_err();
        assert!(error.message.contains("lines 1, 2, ") && error.message.contains(", 50 and 10 more: "), "{error}");
        assert_eq!(survey(&text).ops["mhlo.tan"].lines.len(), 60);
    }

    #[test]
    fn damaged_text_is_surveyed_to_its_end() {
        for text in
            ["\"", "\"stablehlo.add", "loc(", "{{{{", "%", "stablehlo.", "a.", "\"a.b\"", "\u{e9}.b c.d", "<{", "loc(\"a\\"]
        {
            survey(text);
        }
        assert_eq!(counts("\u{e9} = c.d %x"), [("c.d".to_owned(), 1)]);
    }
}
