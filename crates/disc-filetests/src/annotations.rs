//! Compares expected errors with actual ones: `//~ error[E0203]: part of the message` at the end of
//! the guilty line, or `//~^ error[...]` on a line of its own below.
use disc_ir::{Diagnostic, text::Lines};

const MARK: &str = "//~";

/// An expected error.
struct Expected {
    /// The guilty line, from 1.
    line: usize,
    code: String,
    part: String,
}

impl Expected {
    fn read(text: &str, line: usize) -> Option<Self> {
        let (code, part) = text.trim().strip_prefix("error[")?.split_once("]:")?;
        Some(Self { line, code: code.to_owned(), part: part.trim().to_owned() })
    }

    fn matches(&self, error: &Found) -> bool {
        self.line == error.line && self.code == error.code && error.message.contains(&self.part)
    }
}

struct Found {
    line: usize,
    code: String,
    message: String,
}

/// Returns the file with correct annotations: matching ones stay, others go, and errors without one
/// get one.
pub(crate) fn rewrite(source: &str, errors: &[Diagnostic]) -> String {
    let positions = Lines::new(source);
    // An error at the end of the text belongs to the last line that is not an annotation.
    let is_code = |line: &&str| !line.trim_start().starts_with(MARK);
    let last = source.lines().collect::<Vec<_>>().iter().rposition(is_code).map_or(1, |i| i + 1);
    let found = errors.iter().map(|error| Found {
        line: error.span.map_or(1, |span| positions.position(span.start).line).min(last),
        code: error.code.to_string(),
        message: message(error),
    });
    let mut open: Vec<Found> = found.collect();
    let mut matched = |expected: &Expected| {
        let at = open.iter().position(|error| expected.matches(error));
        at.map(|at| open.remove(at)).is_some()
    };
    // An annotation below others means the last line that is not an annotation itself.
    let mut guilty = 0;
    let mut kept = Vec::new();
    for (line, text) in (1..).zip(source.lines()) {
        match text.split_once(MARK) {
            Some((code, note)) if code.trim().is_empty() && note.starts_with('^') => {
                let expected = Expected::read(&note[1..], guilty);
                if expected.is_none_or(|expected| matched(&expected)) {
                    kept.push((guilty, text.to_owned()));
                }
            }
            Some((code, note)) => {
                guilty = line;
                let expected = Expected::read(note, line);
                let stays = expected.is_none_or(|expected| matched(&expected));
                kept.push((line, if stays { text.to_owned() } else { code.trim_end().to_owned() }));
            }
            None => {
                guilty = line;
                kept.push((line, text.to_owned()));
            }
        }
    }
    let mut out = String::new();
    for (i, (line, text)) in kept.iter().enumerate() {
        out += &format!("{text}\n");
        let is_last_of_line = kept.get(i + 1).is_none_or(|(next, _)| next != line);
        if is_last_of_line {
            let indent: String = text.chars().take_while(|c| c.is_whitespace()).collect();
            let missing = open.iter().filter(|error| error.line == *line);
            out.extend(missing.map(|error| format!("{indent}{MARK}^ error[{}]: {}\n", error.code, error.message)));
        }
    }
    out
}

/// Returns the message on one line, with its op.
fn message(error: &Diagnostic) -> String {
    let op = error.op.as_ref().map(|op| format!("`{op}`: ")).unwrap_or_default();
    format!("{op}{}", error.message.replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use disc_ir::Code;

    fn at(source: &str, what: &str, message: &str) -> Diagnostic {
        let start = source.find(what).unwrap() as u32;
        Diagnostic::new(Code::E0203, message).at(Some(disc_ir::diag::Span { start, end: start + 1 }))
    }

    #[test]
    fn annotations_that_match_stay() {
        for source in ["one //~ error[E0203]: sizes\n", "one\n//~^ error[E0203]: sizes differ\n"] {
            assert_eq!(rewrite(source, &[at(source, "one", "the sizes differ")]), source);
        }
    }

    #[test]
    fn missing_ones_are_added_and_wrong_ones_removed() {
        let source = "  one\n  two //~ error[E0101]: x\n  //~^ error[E0203]: y\n";
        assert_eq!(rewrite(source, &[at(source, "one", "new")]), "  one\n  //~^ error[E0203]: new\n  two\n");
    }

    #[test]
    fn an_error_at_the_end_is_not_lost() {
        let error = Diagnostic::new(Code::E0101, "end").at(Some(disc_ir::diag::Span { start: 4, end: 4 }));
        let want = "one\n//~^ error[E0101]: end\n";
        assert_eq!(rewrite("one\n", std::slice::from_ref(&error)), want);
        let late = error.at(None);
        assert_eq!(rewrite(want, &[late]), want);
    }

    #[test]
    fn each_error_needs_its_annotation() {
        let source = "one //~ error[E0203]: a\n";
        let errors = [at(source, "one", "a b"), at(source, "one", "a c")];
        assert_eq!(rewrite(source, &errors), "one //~ error[E0203]: a\n//~^ error[E0203]: a c\n");
    }
}
