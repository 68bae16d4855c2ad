//! Reads the smallest parts of the text at a position: punctuation, words, names, numbers, strings.
//!
//! There is no separate list of tokens: `[`, `<` and `x` mean different things in types, literals
//! and elsewhere.
//!
//! Invariant: every method either moves past the part that it names, or leaves the position before
//! it.
use super::super::{
    limits::MAX_NAME,
    names::{continues_name, continues_word, starts_word},
};
use crate::diag::{Code, Diagnostic, Span};

pub(in crate::text) type Parsed<T> = Result<T, Diagnostic>;

/// A word or name and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'s> {
    pub(super) text: &'s str,
    pub(super) span: Span,
}

pub(in crate::text) struct Cursor<'s> {
    pub(super) source: &'s str,
    pub(in crate::text) pos: usize,
}

pub(super) fn span(start: usize, end: usize) -> Span {
    Span { start: start as u32, end: end as u32 }
}

pub(super) fn error(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(code, message).at(Some(span))
}

impl<'s> Cursor<'s> {
    pub(in crate::text) fn new(source: &'s str) -> Self {
        Self { source, pos: 0 }
    }

    pub(in crate::text) fn byte(&self) -> Option<u8> {
        self.source.as_bytes().get(self.pos).copied()
    }

    /// Skips white space and comments. Returns the next byte.
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.byte()? {
                b if b.is_ascii_whitespace() => self.pos += 1,
                b'/' if self.source.as_bytes().get(self.pos + 1) == Some(&b'/') => self.skip_line(),
                b => return Some(b),
            }
        }
    }

    pub(super) fn skip_line(&mut self) {
        let rest = &self.source.as_bytes()[self.pos..];
        self.pos += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
    }

    /// Returns true if `text` (punctuation, or the start of a word) follows.
    pub(in crate::text) fn at(&mut self, text: &str) -> bool {
        self.peek();
        self.source.as_bytes()[self.pos..].starts_with(text.as_bytes())
    }

    pub(in crate::text) fn eat(&mut self, punctuation: &str) -> bool {
        let found = self.at(punctuation);
        if found {
            self.pos += punctuation.len();
        }
        found
    }

    /// Moves past punctuation; `wanted` describes it in the message, as in "`)` after the
    /// parameters".
    pub(super) fn expect(&mut self, punctuation: &str, wanted: &str) -> Parsed<()> {
        if self.eat(punctuation) { Ok(()) } else { Err(self.unexpected(&format!("`{punctuation}` {wanted}"))) }
    }

    fn run(&self, from: usize, continues: impl Fn(u8) -> bool) -> usize {
        let bytes = &self.source.as_bytes()[from..];
        from + bytes.iter().position(|&b| !continues(b)).unwrap_or(bytes.len())
    }

    fn take(&mut self, start: usize, end: usize) -> Word<'s> {
        self.pos = end;
        Word { text: &self.source[start..end], span: span(start, end) }
    }

    /// The word that follows, without moving past it.
    pub(super) fn peek_word(&mut self) -> Option<&'s str> {
        let at = self.pos;
        let found = self.word().map(|word| word.text);
        self.pos = at;
        self.peek();
        found
    }

    /// Letters, digits, `_`, `.` and `$`, starting with a letter or `_`.
    pub(super) fn word(&mut self) -> Option<Word<'s>> {
        let first = self.peek()?;
        starts_word(first).then(|| self.take(self.pos, self.run(self.pos, continues_word)))
    }

    pub(super) fn expect_word(&mut self, wanted: &str) -> Parsed<Word<'s>> {
        self.word().ok_or_else(|| self.unexpected(wanted))
    }

    pub(super) fn eat_word(&mut self, text: &str) -> bool {
        let found = self.peek_word() == Some(text);
        if found {
            self.pos += text.len();
        }
        found
    }

    /// `%name`; the text is without `%`.
    pub(super) fn value_name(&mut self) -> Parsed<Word<'s>> {
        if self.peek() != Some(b'%') {
            return Err(self.unexpected("a value such as `%x`"));
        }
        let mut end = self.run(self.pos + 1, continues_name);
        if self.source.as_bytes().get(end) == Some(&b'#') {
            end = self.run(end + 1, |b| b.is_ascii_digit());
        }
        self.name(self.pos + 1, end, "a name after `%`")
    }

    fn name(&mut self, start: usize, end: usize, wanted: &str) -> Parsed<Word<'s>> {
        if start == end {
            return Err(self.unexpected(wanted));
        }
        let whole = span(start - 1, end);
        if end - start > MAX_NAME {
            return Err(error(Code::E0105, whole, format!("a name of {} bytes; {MAX_NAME} are the limit", end - start)));
        }
        self.pos = end;
        Ok(Word { text: &self.source[start..end], span: whole })
    }

    /// `@name` or `@"any name"`.
    pub(super) fn symbol_name(&mut self) -> Parsed<(String, Span)> {
        if self.peek() != Some(b'@') {
            return Err(self.unexpected("a name such as `@main`"));
        }
        let start = self.pos;
        self.pos += 1;
        if self.byte() == Some(b'"') {
            let text = self.string()?;
            if text.len() > MAX_NAME {
                let message = format!("a name of {} bytes; {MAX_NAME} are the limit", text.len());
                return Err(error(Code::E0105, span(start, self.pos), message));
            }
            return Ok((text, span(start, self.pos)));
        }
        let end = self.run(self.pos, continues_name);
        self.name(start + 1, end, "a name after `@`").map(|word| (word.text.to_owned(), word.span))
    }

    /// A string in quotes, with its escapes undone.
    pub(in crate::text) fn string(&mut self) -> Parsed<String> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a string in quotes"));
        }
        let start = self.pos;
        let mut bytes = Vec::new();
        self.pos += 1;
        loop {
            let Some(byte) = self.byte().filter(|&b| b != b'\n') else {
                return Err(error(Code::E0101, span(start, start + 1), "the string has no end"));
            };
            self.pos += 1;
            match byte {
                b'"' => break,
                b'\\' => bytes.push(self.escape()?),
                byte => bytes.push(byte),
            }
        }
        String::from_utf8(bytes).map_err(|_| error(Code::E0101, span(start, self.pos), "the string is not UTF-8"))
    }

    fn escape(&mut self) -> Parsed<u8> {
        let rest = &self.source.as_bytes()[self.pos..];
        let (byte, length) = match rest {
            [b'n', ..] => (b'\n', 1),
            [b't', ..] => (b'\t', 1),
            [quoted @ (b'"' | b'\\'), ..] => (*quoted, 1),
            [high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (16 * hex_digit(*high) + hex_digit(*low), 2)
            }
            _ => {
                let place = span(self.pos - 1, self.pos);
                return Err(error(Code::E0101, place, "expected \\n, \\t, \\\", \\\\ or two hexadecimal digits after \\"));
            }
        };
        self.pos += length;
        Ok(byte)
    }

    /// A decimal integer.
    pub(in crate::text) fn integer(&mut self) -> Parsed<i64> {
        self.peek();
        let start = self.pos;
        let digits = start + usize::from(self.byte() == Some(b'-'));
        let end = self.run(digits, |b| b.is_ascii_digit());
        if digits == end {
            return Err(self.unexpected("an integer"));
        }
        let text = &self.source[start..end];
        let value =
            text.parse().map_err(|_| error(Code::E0105, span(start, end), format!("{} does not fit 64 bits", shorten(text))))?;
        self.pos = end;
        Ok(value)
    }

    /// Reads text that can be a number: digits, letters (`1e-5`, `inf`, `0x7F`), signs and points.
    pub(super) fn number(&mut self) -> Parsed<Word<'s>> {
        self.peek();
        let start = self.pos;
        let signed = start + usize::from(matches!(self.byte(), Some(b'-' | b'+')));
        let mut end = self.run(signed, |b| b.is_ascii_alphanumeric() || b == b'.');
        let is_hex = self.source[signed..end].starts_with("0x");
        if !is_hex
            && self.source[signed..end].ends_with(['e', 'E'])
            && matches!(self.source.as_bytes().get(end), Some(b'-' | b'+'))
        {
            end = self.run(end + 1, |b| b.is_ascii_digit());
        }
        if signed == end {
            return Err(self.unexpected("a number"));
        }
        Ok(self.take(start, end))
    }

    /// An error at what follows.
    pub(super) fn unexpected(&mut self, wanted: &str) -> Diagnostic {
        self.peek();
        let (found, place) = self.here();
        error(Code::E0101, place, format!("expected {wanted}, found {found}"))
    }

    /// Describes the next part, with its place.
    fn here(&mut self) -> (String, Span) {
        let start = self.pos;
        let Some(c) = self.source[start..].chars().next() else {
            return ("the end of the text".into(), span(start, start));
        };
        let word = self.run(start + c.len_utf8(), continues_name);
        let end = match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '_' | '%' | '@') => word,
            c => start + c.len_utf8(),
        };
        (format!("`{}`", shorten(&self.source[start..end])), span(start, end))
    }
}

/// The start of a long text.
pub(super) fn shorten(text: &str) -> String {
    const LONGEST: usize = 40;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The value of a hexadecimal digit.
pub(super) fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.wrapping_sub(b'A').wrapping_add(10),
    }
}
