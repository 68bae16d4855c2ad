//! Checks that pages, doc comments and docstrings use the field's words: a term of the private
//! dialect is a finding that names the word of the glossary.
//!
//! [`TERMS`] is the one table. It holds for the pages of [`HELD`], and for the doc comments of all
//! Rust and Python files. Code, link targets and comments of HTML are not prose,
//! and generated text is corrected where its table is.

use super::{Finding, prose::doc_text};
use crate::sources::Source;

/// Pages that are held to the table: those in these folders, and these.
const HELD: &[&str] = &["docs/", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "ROADMAP.md", "CHANGELOG.md", "SECURITY.md"];

/// Pages that are written by programs from tables of the code.
const GENERATED: &[&str] = &[
    "docs/compositions.md",
    "docs/coverage-torch.md",
    "docs/errors.md",
    "docs/models-torch-compile.md",
    "docs/models.md",
    "docs/ops.md",
    "docs/passes.md",
];

/// A term that prose does not use.
struct Term {
    /// The term in lower case. A full stop at its end stands for the end of a clause.
    not: &'static [&'static str],
    /// Words after the term that give it its usual sense.
    unless: &'static [&'static str],
    but: &'static str,
}

const fn term(not: &'static [&'static str], but: &'static str) -> Term {
    Term { not, unless: &[], but }
}

impl Term {
    const fn unless(self, unless: &'static [&'static str]) -> Term {
        Term { unless, ..self }
    }
}

const TERMS: &[Term] = &[
    term(
        &[
            "product of matrices",
            "products of matrices",
            "matrix product",
            "matrix products",
            "product of tiles",
            "products of tiles",
        ],
        "matmul: a product is the result of a multiplication",
    ),
    term(&["grids", "grid kernel", "grid kernels"], "GPU, or GPU kernel: a grid is the blocks of one launch"),
    term(
        &["is torch's", "are torch's", "torch's.", "left to torch", "leaves to torch", "for good"],
        "runs in PyTorch, PyTorch runs it, or falls back to PyTorch",
    ),
    term(&["behind"], "after"),
    term(&["in front"], "before"),
    term(&["alone."], "only, before the word that it limits"),
    term(&["dot word", "dot words"], "VNNI group, or dot operand"),
    term(&["both ways to", "each way", "the ways to", "the two ways", "faster way"], "implementation"),
    term(&["door", "doors"], "API, or entry point"),
    term(&["rung", "rungs", "ladder", "ladders"], "level, or fallback order"),
    term(&["mend", "mends", "mended"], "fix"),
    term(&["stand", "stands", "stood"], "is").unless(&["for", "in for"]),
    term(&["lie", "lies", "lying", "lay"], "is, or is stored").unless(&["out"]),
    term(&["woven"], "interleaved"),
    term(&["turned"], "transposed").unless(&["into", "off", "on"]),
    term(&["narrow row", "narrow rows"], "short row"),
    term(&["features first"], "NCHW, or channels first"),
    term(&["features last"], "NHWC, or channels last"),
    term(&["rows at once", "some at once"], "several rows per task"),
];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let text = if is_held_page(&source.path) {
        prose(&source.text)
    } else if source.is_rust() || source.is_python() {
        prose(&doc_text(source))
    } else {
        return Vec::new();
    };
    let tokens = tokens(&text);
    let mut findings = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        for (term, not) in TERMS.iter().flat_map(|term| term.not.iter().map(move |not| (term, *not))) {
            if is_term(&tokens[at..], not, term.unless) {
                let message = format!("`{}`: write {}", not.trim_end_matches('.'), term.but);
                findings.push(Finding::error("words", &source.path, token.line, message));
            }
        }
    }
    findings
}

fn is_held_page(path: &str) -> bool {
    path.ends_with(".md") && HELD.iter().any(|held| path.starts_with(held)) && !GENERATED.contains(&path)
}

/// Returns the text with spaces, line by line, for all that is not prose written by hand: generated
/// sections, comments, fenced and indented code, doctests; and with `~` for code spans and link
/// targets.
fn prose(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut is_fenced, mut is_generated, mut is_after_blank) = (false, false, true);
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_generated |= line.starts_with("<!-- generated:");
        let is_code = is_after_blank && line.starts_with("    ") && !line.trim_start().starts_with(['-', '*']);
        let is_doctest = line.trim_start().starts_with(">>>");
        if !(is_fence || is_fenced || is_generated || is_code || is_doctest) {
            out.push_str(line);
        }
        is_fenced ^= is_fence;
        is_generated &= !line.starts_with("<!-- end of ");
        is_after_blank = line.trim().is_empty() || (is_after_blank && is_code);
        out.push('\n');
    }
    let paragraphs = without(&out, "<!--", "-->");
    // Code spans and links end with their paragraph.
    let paragraphs = paragraphs.split("\n\n").map(|paragraph| {
        let spans = [("``", "``"), ("`", "`"), ("](", ")")];
        spans.iter().fold(paragraph.to_owned(), |text, (open, close)| without(&text, open, close))
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// Returns the text with `~` in the place of each character from `open` to `close`. Lines stay.
fn without(text: &str, open: &str, close: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(open) {
        let inside = start + open.len();
        let Some(length) = rest[inside..].find(close) else { break };
        let end = inside + length + close.len();
        out.push_str(&rest[..start]);
        out.extend(rest[start..end].chars().map(|c| if c == '\n' { c } else { '~' }));
        rest = &rest[end..];
    }
    out + rest
}

/// A word in lower case.
struct Token {
    word: String,
    line: usize,
    /// The text up to the next word.
    gap: String,
}

impl Token {
    fn joins_next(&self) -> bool {
        self.gap.trim().is_empty() && !self.ends_paragraph()
    }

    fn ends_paragraph(&self) -> bool {
        self.gap.matches('\n').count() > 1
    }

    fn ends_clause(&self) -> bool {
        let next = self.gap.trim_start_matches([' ', '\n', '*']).chars().next();
        self.ends_paragraph() || next.is_none_or(|c| ".,;:)|".contains(c)) && !self.joins_next()
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut line = 1;
    let mut is_open = false;
    for c in text.chars() {
        let is_word = c.is_alphanumeric() || matches!(c, '\'' | '-' | '_');
        if is_word && !is_open {
            tokens.push(Token { word: String::new(), line, gap: String::new() });
        }
        if let Some(token) = tokens.last_mut() {
            if is_word { token.word.extend(c.to_lowercase()) } else { token.gap.push(c) }
        }
        is_open = is_word;
        line += usize::from(c == '\n');
    }
    // The end of the text ends a paragraph.
    if let Some(last) = tokens.last_mut() {
        last.gap.push_str("\n\n");
    }
    tokens
}

/// Returns true if the tokens begin with the term, and not with one of its usual senses.
fn is_term(tokens: &[Token], not: &str, unless: &[&str]) -> bool {
    let (words, at_end) = not.strip_suffix('.').map_or((not, false), |words| (words, true));
    let Some(length) = matched(tokens, words) else { return false };
    let last = &tokens[length - 1];
    let is_usual = last.joins_next() && unless.iter().any(|usual| matched(&tokens[length..], usual).is_some());
    !is_usual && (!at_end || last.ends_clause())
}

/// Returns the number of tokens that spell the words, if the text begins with them.
fn matched(tokens: &[Token], words: &str) -> Option<usize> {
    let mut length = 0;
    for word in words.split(' ') {
        let joins = length == 0 || tokens[length - 1].joins_next();
        if !joins || tokens.get(length)?.word != word {
            return None;
        }
        length += 1;
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let source = Source { path: path.into(), text: text.into() };
        check(&source).into_iter().map(|finding| (finding.line, finding.message)).collect()
    }

    fn lines(text: &str) -> Vec<usize> {
        found("docs/a.md", text).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn every_term_is_found_with_the_word_of_the_glossary() {
        for term in TERMS {
            for not in term.not {
                let messages = found("docs/guide/a.md", &format!("# Page\n\nOne\n{not}\n"));
                let wanted = format!("`{}`: write {}", not.trim_end_matches('.'), term.but);
                assert!(messages.contains(&(4, wanted)), "{not}: {messages:?}");
            }
        }
    }

    #[test]
    fn a_term_is_found_across_lines_in_tables_and_in_capitals() {
        assert_eq!(lines("It is in\nfront of\nthe loop.\n"), [1]);
        assert_eq!(lines("| a | Behind it |\n| b | sizes alone | c |\n"), [1, 2]);
        assert_eq!(lines("- sizes **alone**, or\n- sizes\n  alone\n\nNext\n"), [1, 3]);
    }

    #[test]
    fn usual_senses_are_no_fault() {
        assert_eq!(lines("It stands for a size, stands in for a module, lays out memory, lay out, turned into."), [0; 0]);
        assert_eq!(lines("The call alone takes 0.2. torch's own stream; the product of two sizes; a grid of blocks."), [0; 0]);
        assert_eq!(lines("in\n\nfront"), [0; 0]);
    }

    #[test]
    fn code_links_and_generated_text_are_no_prose() {
        assert_eq!(lines("`behind` and [x](behind.md)\n\n```sh\nbehind\n```\n\n    behind\n\n<!-- behind\nbehind -->\n"), [0; 0]);
        assert_eq!(lines("<!-- generated: x -->\nbehind\n<!-- end of x -->\nbehind\n"), [4]);
        assert_eq!(lines("- item\n\n    - behind\n"), [3]);
    }

    #[test]
    fn pages_are_held_and_other_files_are_not() {
        for path in ["README.md", "docs/ir.md", "docs/adr/0001-a.md", "ROADMAP.md"] {
            assert_eq!(found(path, "behind").len(), 1, "{path}");
        }
        for path in ["docs/ops.md", "crates/a/src/lib.rs", "docs/images/a.svg", "benches/README.md"] {
            assert_eq!(found(path, "behind"), [], "{path}");
        }
    }

    #[test]
    fn a_term_in_a_doc_comment_is_found_by_name() {
        let message = "`behind`: write after";
        for text in ["//! Is\n//! behind.\n", "struct S;\n/// Is behind.\n", "fn f() {\n    /// It is Behind `x`.\n}\n"] {
            assert_eq!(found("crates/a/src/lib.rs", text), [(2, message.to_owned())], "{text}");
        }
        for text in ["\"\"\"Is\nbehind.\n\"\"\"\n", "def f():\n    \"\"\"Is behind.\"\"\"\n", "x = 1\n#: Is behind ``x``.\n"] {
            assert_eq!(found("python/disc/a.py", text), [(2, message.to_owned())], "{text}");
        }
        // The end of a doc comment ends a clause.
        assert_eq!(found("tests/a.rs", "/// By sizes alone\nfn f() {}\n/// Next\n")[0].0, 1);
        assert_eq!(found("tests/a.py", "def f():\n    \"\"\"By sizes alone\"\"\"\n")[0].0, 2);
    }

    #[test]
    fn code_and_plain_comments_are_not_held() {
        let rust = "// behind\nlet behind = \"in front\"; // behind\n/// As `behind`.\n/// ```\n/// behind();\n/// ```\n";
        assert_eq!(found("crates/a/src/lib.rs", rust), []);
        let python = "# behind\nbehind = 'in front'\ndef f():\n    \"\"\"As ``behind``.\n\n    >>> behind()\n    \"\"\"\n";
        assert_eq!(found("python/disc/a.py", python), []);
        // An open span does not hide the next comment.
        assert_eq!(found("a.rs", "/// A ` b.\nfn f() {}\n/// It is behind `x`.\n").len(), 1);
    }
}
