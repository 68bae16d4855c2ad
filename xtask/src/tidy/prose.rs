//! Checks comments: doc comments and docstrings begin with their subject's verb, and lines are
//! short.

use super::Finding;
use crate::sources::Source;

/// Words that turn the first sentence of a doc comment into a relative clause.
const QUESTIONS: &[&str] = &["What", "Whether", "Where", "How", "Which"];
const LONGEST_LINE: usize = 100;

pub(super) fn check(source: &Source) -> Vec<Finding> {
    comments(source).iter().flat_map(|comment| findings(comment, &source.path)).collect()
}

/// Returns the text of a file without all that is not in a doc comment or a docstring. Lines keep
/// their numbers.
pub(super) fn doc_text(source: &Source) -> String {
    let mut lines = vec![""; source.text.lines().count()];
    for comment in comments(source) {
        lines[comment.line - 1] = comment.doc.unwrap_or_default();
    }
    lines.join("\n")
}

fn comments(source: &Source) -> Vec<Comment<'_>> {
    if source.is_rust() {
        rust(&source.text)
    } else if source.is_python() {
        python(&source.text)
    } else {
        Vec::new()
    }
}

/// One line of a comment.
struct Comment<'t> {
    line: usize,
    /// The line as a whole, with its indentation.
    whole: &'t str,
    /// The text, if the line is of a doc comment or a docstring.
    doc: Option<&'t str>,
    /// The text, if the line begins a doc comment or a docstring.
    begins: Option<&'t str>,
}

fn findings(comment: &Comment<'_>, path: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(word) = comment.begins.and_then(question) {
        let message = format!("a doc comment begins with `{word}`: say what the item does, is or returns");
        findings.push(Finding::error("doc-question", path, comment.line, message));
    }
    let columns = comment.whole.chars().count();
    if columns > LONGEST_LINE {
        let message = format!("a comment of {columns} columns, {LONGEST_LINE} are the limit");
        findings.push(Finding::error("comment-length", path, comment.line, message));
    }
    findings
}

fn question(text: &str) -> Option<&'static str> {
    let first = text.split(|c: char| !c.is_alphanumeric()).next()?;
    QUESTIONS.iter().find(|&&word| word == first).copied()
}

fn rust(text: &str) -> Vec<Comment<'_>> {
    let mut comments = Vec::new();
    let mut last = "";
    for (line, whole) in (1..).zip(text.lines()) {
        let trimmed = whole.trim_start();
        let kind = ["///", "//!", "//"].into_iter().find(|kind| trimmed.starts_with(kind)).unwrap_or_default();
        if !kind.is_empty() {
            let text = &trimmed[kind.len()..];
            let doc = (kind != "//").then(|| text.strip_prefix(' ').unwrap_or(text));
            let begins = doc.filter(|_| kind != last).map(str::trim_start);
            comments.push(Comment { line, whole, doc, begins });
        }
        last = kind;
    }
    comments
}

/// Returns the `#` comments of a Python file, and the lines of strings that begin a line:
/// docstrings.
fn python(text: &str) -> Vec<Comment<'_>> {
    const QUOTES: &str = "\"\"\"";
    let mut comments = Vec::new();
    // The open string of several lines: true for a docstring, false for one that is assigned or
    // passed.
    let mut open = None;
    let mut is_attribute = false;
    for (line, whole) in (1..).zip(text.lines()) {
        let trimmed = whole.trim_start();
        let start = trimmed.strip_prefix(['r', 'f']).unwrap_or(trimmed).strip_prefix(QUOTES);
        let is_hash = open.is_none() && trimmed.starts_with('#');
        // The comment of an attribute documents it, as a docstring does.
        let attribute = trimmed.strip_prefix("#: ").filter(|_| is_hash);
        let begins = start.filter(|_| open.is_none()).or(attribute.filter(|_| !is_attribute));
        is_attribute = attribute.is_some();
        if open == Some(true) || begins.is_some() || is_hash {
            let doc = start.or(attribute).or(open.is_some().then_some(trimmed)).map(|text| text.trim_end_matches('"'));
            comments.push(Comment { line, whole, doc, begins });
        }
        if !is_hash && whole.matches(QUOTES).count() % 2 == 1 {
            open = if open.is_some() { None } else { Some(begins.is_some()) };
        }
    }
    comments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(&'static str, usize)> {
        let source = Source { path: path.into(), text: text.into() };
        check(&source).into_iter().map(|finding| (finding.check, finding.line)).collect()
    }

    #[test]
    fn a_doc_comment_that_begins_with_a_question_is_found() {
        let text = format!("//! {} it does.\n\n/// Counts.\n/// {} often.\nfn f() {{}}\n", "What", "How");
        assert_eq!(found("a.rs", &text), [("doc-question", 1)]);
        for word in QUESTIONS {
            assert_eq!(found("a.rs", &format!("struct S;\n/// {word}, then.\nfn f() {{}}\n")), [("doc-question", 2)]);
            assert_eq!(found("a.py", &format!("def f():\n    \"\"\"{word} it is.\"\"\"\n")), [("doc-question", 2)]);
            assert_eq!(found("a.py", &format!("x = 1\n#: {word} it is.\n#: {word} else.\n")), [("doc-question", 2)]);
        }
        assert_eq!(found("a.rs", "// What follows is plain.\n/// Whatever it is.\n"), []);
        assert_eq!(found("a.py", "\"\"\"Counts.\n\n    What it counts.\n\"\"\"\nx = \"\"\"What\"\"\"\n"), []);
        assert_eq!(found("a.py", "x = \"\"\"\nWhat\n\"\"\"\n# y\ndef f():\n    \"\"\"How.\"\"\"\n"), [("doc-question", 6)]);
        assert_eq!(found("a.md", "/// What it is.\n"), []);
    }

    #[test]
    fn doc_text_has_no_code_and_no_other_comments() {
        let doc_text = |path: &str, text: &str| doc_text(&Source { path: path.into(), text: text.into() });
        let rust = "//! Is a.\n\n// no\nfn f() {\n    /// Is b,\n    ///     c.\n    let x = 1; // no\n}\n";
        assert_eq!(doc_text("a.rs", rust), "Is a.\n\n\n\nIs b,\n    c.\n\n");
        let python = "\"\"\"Is a.\"\"\"\n# no\n#: Is b.\ndef f():\n    \"\"\"Is c:\n    d.\n    \"\"\"\n    x = \"no\"\n";
        assert_eq!(doc_text("a.py", python), "Is a.\n\nIs b.\n\nIs c:\nd.\n\n");
        assert_eq!(doc_text("a.md", "/// no"), "");
    }

    #[test]
    fn a_long_comment_is_found() {
        let long = "x".repeat(98);
        assert_eq!(found("a.rs", &format!("fn f() {{\n    // {}\n}}\n", &long[4..])), [("comment-length", 2)]);
        assert_eq!(found("a.rs", &format!("// {}\nlet x = \"{long}{long}\"; // {long}\n", &long[1..])), []);
        assert_eq!(found("a.py", &format!("# {long}\nx = 1  # {long}\n# {long}x\n")), [("comment-length", 3)]);
        assert_eq!(found("a.py", &format!("\"\"\"Counts.\n\n{long}xyz\n\"\"\"\n{long}xyz\n")), [("comment-length", 3)]);
    }
}
