//! Renders diagnostics as text for people: the place, the line, and an underline.
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use disc_ir::{Diagnostic, text::Lines};
use std::ops::Range;

/// Columns of a line that are shown; the part around the place is, of a longer one.
const WIDEST: usize = 160;

/// One diagnostic about the file `path`, whose text is `source`.
pub fn render(error: &Diagnostic, path: &str, source: &Lines<'_>) -> String {
    let op = error.op.as_ref().map(|op| format!("`{op}`: ")).unwrap_or_default();
    let title = Level::ERROR.primary_title(format!("{op}{}", error.message)).id(error.code.to_string());
    let mut report = Group::with_title(title);
    let text;
    if let Some(span) = error.span {
        let at = source.position(span.start);
        text = source.text(at.line);
        let place = place(text, at.column - 1, source.width(span));
        let snippet = Snippet::source(text).line_start(at.line).path(path);
        report = report.element(snippet.annotation(AnnotationKind::Primary.span(place)));
    }
    let notes = error.notes.iter().map(|note| Level::NOTE.message(note.as_str()));
    let report = report.elements(notes.chain(error.help.iter().map(|help| Level::HELP.message(help.as_str()))));
    format!("{}\n", Renderer::plain().term_width(WIDEST).render(&[report]))
}

/// Returns the bytes of `text` that hold `width` characters from character `first` on, as far as
/// the text goes.
fn place(text: &str, first: usize, width: usize) -> Range<usize> {
    let byte = |character: usize| text.char_indices().nth(character).map_or(text.len(), |(byte, _)| byte);
    byte(first)..byte(first.saturating_add(width.max(1)))
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
        let want =
            "error[E0203]: `add`: sizes differ\n --> a.disc:2:3\n  |\n2 |   add x\n  |   ^^^\n  |\n  = note: n\n  = help: h\n";
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
