//! Parses the text form of dims.
//!
//! ```text
//! dim    = term { ("+" | "-") term }
//! term   = factor { ("*" | "/" | "%") factor }         left to right
//! factor = number | symbol | "-" factor | "(" dim ")" | ("min" | "max") "(" dim { "," dim } ")"
//! ```
//!
//! Invariants: never panics; the text is at most [`MAX_TEXT`] bytes and nested at most
//! [`MAX_DEPTH`] deep, numbers fit 64 bits; the resulting dim is valid (no [`super::Defect`]).

use std::str::FromStr;

use super::node::{Dim, MAX_DEPTH, Repr};
use super::symbol::{Symbol, continues_name, starts_name};

/// The longest text of a dim in bytes. The text of every valid dim is shorter.
pub const MAX_TEXT: usize = 1 << 21;

/// The reason why a text is no dim, and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (at byte {offset} of the dimension expression)")]
pub struct DimParseError {
    /// Byte offset into the text.
    pub offset: usize,
    /// The expected and the actual text.
    pub message: String,
}

impl Dim {
    /// Parses the dim in `text`.
    pub fn parse(text: &str) -> Result<Dim, DimParseError> {
        let mut parser = Parser::new(text)?;
        let dim = parser.dim()?;
        parser.end()?;
        Ok(dim)
    }

    /// Parses the longest dim at the start of `text`. Returns it with the number of bytes it takes
    /// (with white space around it).
    pub fn parse_prefix(text: &str) -> Result<(Dim, usize), DimParseError> {
        let mut parser = Parser::new(text)?;
        let dim = parser.dim()?;
        parser.skip_space();
        Ok((dim, parser.offset))
    }
}

impl FromStr for Dim {
    type Err = DimParseError;

    fn from_str(text: &str) -> Result<Dim, DimParseError> {
        Dim::parse(text)
    }
}

pub(super) struct Parser<'a> {
    text: &'a str,
    offset: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self, DimParseError> {
        let parser = Parser { text, offset: 0, depth: 0 };
        if text.len() > MAX_TEXT {
            return Err(parser.error(format!("the text has {} bytes; at most {MAX_TEXT} are allowed", text.len())));
        }
        Ok(parser)
    }

    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    pub(super) fn error(&self, message: impl Into<String>) -> DimParseError {
        DimParseError { offset: self.offset, message: message.into() }
    }

    pub(super) fn expected(&self, what: &str) -> DimParseError {
        match self.text[self.offset..].chars().next() {
            Some(found) => self.error(format!("expected {what}, found `{}`", found.escape_debug())),
            None => self.error(format!("expected {what}, found the end")),
        }
    }

    pub(super) fn skip_space(&mut self) {
        let rest = &self.text[self.offset..];
        self.offset = self.text.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    /// The next byte after white space; 0 at the end (which no token starts with).
    fn peek(&mut self) -> u8 {
        self.skip_space();
        self.text.as_bytes().get(self.offset).copied().unwrap_or(0)
    }

    pub(super) fn accept(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.text[self.offset..].starts_with(token);
        if found {
            self.offset += token.len();
        }
        found
    }

    pub(super) fn expect(&mut self, token: &str) -> Result<(), DimParseError> {
        if self.accept(token) { Ok(()) } else { Err(self.expected(&format!("`{token}`"))) }
    }

    pub(super) fn end(&mut self) -> Result<(), DimParseError> {
        self.skip_space();
        if self.offset == self.text.len() { Ok(()) } else { Err(self.expected("an operator or the end")) }
    }

    pub(super) fn dim(&mut self) -> Result<Dim, DimParseError> {
        self.skip_space();
        let start = self.offset;
        let mut terms = vec![self.term()?];
        loop {
            if self.accept("+") {
                terms.push(self.term()?);
            } else if self.accept("-") {
                terms.push(self.subtracted_term()?);
            } else {
                return valid(Dim::sum(terms), start);
            }
        }
    }

    /// `-` before the number 2^63 is part of the number: it has no positive form.
    fn subtracted_term(&mut self) -> Result<Dim, DimParseError> {
        self.skip_space();
        let start = self.offset;
        if self.peek().is_ascii_digit() && self.magnitude()? == i64::MIN.unsigned_abs() {
            if matches!(self.peek(), b'/' | b'%') {
                return Err(DimParseError { offset: start, message: "the number does not fit 64 bits".into() });
            }
            return self.term_after(Dim::constant(i64::MIN), start);
        }
        self.offset = start;
        valid(self.term()?.negated(), start)
    }

    fn term(&mut self) -> Result<Dim, DimParseError> {
        self.skip_space();
        let start = self.offset;
        let first = self.factor()?;
        self.term_after(first, start)
    }

    fn term_after(&mut self, first: Dim, start: usize) -> Result<Dim, DimParseError> {
        let mut factors = vec![first];
        loop {
            if self.accept("*") {
                factors.push(self.factor()?);
            } else if self.accept("/") {
                let dividend = Dim::product(std::mem::take(&mut factors));
                factors.push(dividend.floor_div(&self.factor()?));
            } else if self.accept("%") {
                let dividend = Dim::product(std::mem::take(&mut factors));
                factors.push(dividend.modulo(&self.factor()?));
            } else {
                return valid(Dim::product(factors), start);
            }
        }
    }

    fn factor(&mut self) -> Result<Dim, DimParseError> {
        match self.peek() {
            b'0'..=b'9' => self.number(false),
            b'-' => {
                self.offset += 1;
                if self.peek().is_ascii_digit() {
                    return self.number(true);
                }
                let start = self.offset;
                let factor = self.nested(Parser::factor)?;
                valid(factor.negated(), start)
            }
            b'(' => {
                self.offset += 1;
                let dim = self.nested(Parser::dim)?;
                self.expect(")")?;
                Ok(dim)
            }
            c if starts_name(c) => self.symbol_or_call(),
            _ => Err(self.expected("a dimension (a number, a name, `min`, `max` or `(`)")),
        }
    }

    fn nested<T>(&mut self, parse: fn(&mut Self) -> Result<T, DimParseError>) -> Result<T, DimParseError> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn magnitude(&mut self) -> Result<u64, DimParseError> {
        let rest = &self.text[self.offset..];
        let digits = &rest[..rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len()];
        let value = digits.parse::<u64>().ok().filter(|value| *value <= i64::MIN.unsigned_abs());
        let value = value.ok_or_else(|| self.error("the number does not fit 64 bits"))?;
        self.offset += digits.len();
        Ok(value)
    }

    fn number(&mut self, negative: bool) -> Result<Dim, DimParseError> {
        let start = self.offset;
        self.integer_from(negative)
            .map(Dim::constant)
            .ok_or_else(|| DimParseError { offset: start, message: "the number does not fit 64 bits".into() })
    }

    fn integer_from(&mut self, negative: bool) -> Option<i64> {
        let value = i128::from(self.magnitude().ok()?);
        i64::try_from(if negative { -value } else { value }).ok()
    }

    /// A number with an optional sign.
    pub(super) fn integer(&mut self) -> Result<i64, DimParseError> {
        let negative = self.accept("-");
        if !self.peek().is_ascii_digit() {
            return Err(self.expected("a number"));
        }
        let start = self.offset;
        let overflow = DimParseError { offset: start, message: "the number does not fit 64 bits".into() };
        self.integer_from(negative).ok_or(overflow)
    }

    /// The name here, without taking it.
    pub(super) fn peek_name(&mut self) -> &'a str {
        self.skip_space();
        let rest = &self.text[self.offset..];
        match rest.bytes().next() {
            Some(c) if starts_name(c) => &rest[..rest.bytes().position(|c| !continues_name(c)).unwrap_or(rest.len())],
            _ => "",
        }
    }

    fn symbol_or_call(&mut self) -> Result<Dim, DimParseError> {
        let name = self.peek_name();
        let start = self.offset;
        self.offset += name.len();
        if matches!(name, "min" | "max") && self.accept("(") {
            let dims = self.nested(Parser::arguments)?;
            let dim = if name == "min" { Dim::min_of(dims) } else { Dim::max_of(dims) };
            return valid(dim.expect("at least one argument"), start);
        }
        match Symbol::parse(name) {
            Some(symbol) => Ok(Dim::symbol(symbol)),
            None => Err(DimParseError { offset: start, message: format!("a name has at most {} bytes", Symbol::MAX_LEN) }),
        }
    }

    fn arguments(&mut self) -> Result<Vec<Dim>, DimParseError> {
        let mut dims = vec![self.dim()?];
        while self.accept(",") {
            dims.push(self.dim()?);
        }
        self.expect(")")?;
        Ok(dims)
    }
}

fn valid(dim: Dim, offset: usize) -> Result<Dim, DimParseError> {
    match dim.0 {
        Repr::Invalid(defect) => Err(DimParseError { offset, message: defect.to_string() }),
        _ => Ok(dim),
    }
}
