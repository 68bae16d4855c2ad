//! Renders diagnostics as text for people: the place, the line, and an underline.
use disc_ir::{
    Diagnostic,
    text::{Lines, Position},
};
use std::fmt::Write;

/// Most characters of a long line that are shown.
const WIDEST: usize = 160;
/// Characters of it in front of the underlined part.
const BEFORE: usize = 60;

/// One diagnostic about the file `path`, whose text is `source`.
pub fn render(error: &Diagnostic, path: &str, source: &Lines<'_>) -> String {
    let op = error.op.as_ref().map(|op| format!("`{op}`: ")).unwrap_or_default();
    let mut out = format!("error[{}]: {op}{}\n", error.code, error.message);
    let mut margin = String::new();
    if let Some(span) = error.span {
        let at = source.position(span.start);
        margin = " ".repeat(at.line.to_string().len());
        let (text, column) = window(source.text(at.line), at);
        let marks = "^".repeat(source.width(span).clamp(1, (text.chars().count() + 1).saturating_sub(column).max(1)));
        let indent = " ".repeat(column - 1);
        writeln!(out, "{margin}--> {path}:{}:{}", at.line, at.column).expect("writing to a string");
        writeln!(out, "{margin} |\n{} | {text}\n{margin} | {indent}{marks}", at.line).expect("writing to a string");
    }
    let notes = error.notes.iter().map(|note| ("note", note)).chain(error.help.iter().map(|help| ("help", help)));
    for (kind, text) in notes {
        writeln!(out, "{margin} = {kind}: {text}").expect("writing to a string");
    }
    out
}

/// Returns the part of a line around a column, and the column in it. Tabs and the like become
/// spaces, so that columns are aligned.
fn window(line: &str, at: Position) -> (String, usize) {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let skipped = if line.chars().count() <= WIDEST { 0 } else { (at.column - 1).saturating_sub(BEFORE) };
    (line.chars().map(plain).skip(skipped).take(WIDEST).collect(), at.column - skipped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use disc_ir::{Code, diag::Span};

    fn rendered(source: &str, start: u32, end: u32) -> String {
        let error = Diagnostic::new(Code::E0203, "sizes differ").in_op("add").at(Some(Span { start, end })).note("n").help("h");
        render(&error, "a.disc", &Lines::new(source))
    }

    #[test]
    fn the_place_is_underlined() {
        let want = "error[E0203]: `add`: sizes differ\n --> a.disc:2:3\n  |\n2 |   add x\n  |   ^^^\n  = note: n\n  = help: h\n";
        assert_eq!(rendered("one\n\tadd x\n".replace('\t', "  ").as_str(), 6, 9), want);
    }

    #[test]
    fn long_lines_and_ends_of_the_text_are_no_trouble() {
        let long = "x".repeat(100_000);
        let text = rendered(&long, 50_000, 90_000);
        assert!(text.len() < 500 && text.contains(":1:50001"), "{text}");
        assert!(rendered("ab", 2, 2).contains(":1:3\n"));
        assert!(rendered("", 7, 900).contains(":1:1\n"));
    }
}
