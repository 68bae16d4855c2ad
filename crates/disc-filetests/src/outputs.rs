//! Compares expected output: `// | ` lines after the function they belong to.
//!
//! Invariant: [`Outputs::rewrite`] with the output that a file expects returns the file itself.
use disc_ir::{Module, text::Lines};
use std::collections::HashMap;

const MARK: &str = "// |";

/// The functions of a file and their ends.
pub(crate) struct Outputs<'s> {
    source: &'s str,
    /// Name, first line, last line of each function; lines from 0.
    functions: Vec<(String, usize, usize)>,
}

impl<'s> Outputs<'s> {
    pub(crate) fn new(source: &'s str, module: &Module) -> Self {
        let lines: Vec<&str> = source.lines().collect();
        let positions = Lines::new(source);
        let functions = module.functions.iter().map(|function| {
            let start = positions.position(function.span.map_or(0, |span| span.start)).line - 1;
            let closes = |&i: &usize| lines[i].starts_with('}') || i == start && lines[i].trim_end().ends_with('}');
            let end = (start..lines.len()).find(closes).unwrap_or(lines.len() - 1);
            (function.name.to_string(), start, end)
        });
        Self { source, functions: functions.collect() }
    }

    /// The code of a function: without comments and empty lines.
    pub(crate) fn code(&self, name: &str) -> String {
        let Some((_, start, end)) = self.functions.iter().find(|(n, ..)| n == name) else { return String::new() };
        let lines = self.source.lines().skip(*start).take(end - start + 1).filter(|line| !is_comment(line));
        lines.map(|line| format!("{line}\n")).collect()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().map(|(name, ..)| &**name)
    }

    /// Returns the file with this output after each function; output that belongs to no function
    /// comes after the last one.
    pub(crate) fn rewrite(&self, outputs: &HashMap<String, String>, rest: &str) -> String {
        let mut text = String::new();
        let last = self.functions.iter().map(|(.., end)| *end).max();
        let mut lines = self.source.lines().enumerate().peekable();
        while let Some((i, line)) = lines.next() {
            text += line;
            text.push('\n');
            let Some((name, ..)) = self.functions.iter().find(|(.., end)| *end == i) else { continue };
            while lines.peek().is_some_and(|(_, line)| line.starts_with(MARK)) {
                lines.next();
            }
            let mut output = outputs.get(name).cloned().unwrap_or_default();
            if Some(i) == last && !rest.is_empty() {
                output = if output.is_empty() { rest.to_owned() } else { format!("{output}\n{rest}") };
            }
            text.extend(output.lines().map(|line| format!("{}\n", format!("{MARK} {line}").trim_end())));
        }
        text
    }
}

fn is_comment(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//@ test x\nfunc @a() {\n  return\n}\n// | old\n\nfunc @b() { return }\n// a comment\n";

    fn rewritten(a: &str, b: &str, rest: &str) -> String {
        let module = disc_ir::parse(SOURCE).unwrap();
        let outputs = HashMap::from([("a".to_owned(), a.to_owned()), ("b".to_owned(), b.to_owned())]);
        Outputs::new(SOURCE, &module).rewrite(&outputs, rest)
    }

    #[test]
    fn output_is_replaced_after_its_function() {
        assert_eq!(rewritten("old", "", ""), SOURCE);
        let want = "//@ test x\nfunc @a() {\n  return\n}\n// | new\n// |\n// | lines\n\nfunc @b() { return }\n// | b\n// |\n// | more\n// a comment\n";
        assert_eq!(rewritten("new\n\nlines\n", "b\n", "more\n"), want);
    }

    #[test]
    fn the_code_of_a_function_has_no_comments() {
        let source = "func @a() {\n  // why\n\n  return\n}\n";
        let module = disc_ir::parse(source).unwrap();
        assert_eq!(Outputs::new(source, &module).code("a"), "func @a() {\n  return\n}\n");
    }
}
