//! Parses dim expressions within types and attributes; [`Dim::parse_prefix`] reads the expressions
//! themselves.
use super::cursor::{Cursor, Parsed, error, span};
use crate::{
    diag::{Code, Diagnostic},
    dim::{Dim, DimParseError, MAX_TEXT},
};

/// `[dim]`, a size: not negative.
pub(super) fn size(cursor: &mut Cursor<'_>) -> Parsed<Dim> {
    cursor.peek();
    let start = cursor.pos;
    let dim = bracketed(cursor)?;
    match dim.as_const() {
        Some(size) if size < 0 => {
            Err(error(Code::E0101, span(start, cursor.pos), format!("a size of {size}; sizes are 0 or more")))
        }
        _ => Ok(dim),
    }
}

/// `[dim]`.
pub(super) fn bracketed(cursor: &mut Cursor<'_>) -> Parsed<Dim> {
    cursor.expect("[", "before a dim")?;
    let dim = expression(cursor)?;
    cursor.expect("]", "after the dim")?;
    Ok(dim)
}

/// The longest expression that starts here.
pub(super) fn expression(cursor: &mut Cursor<'_>) -> Parsed<Dim> {
    cursor.peek();
    let (dim, length) = Dim::parse_prefix(window(cursor)).map_err(|e| located(&e, cursor.pos))?;
    cursor.pos += length;
    Ok(dim)
}

/// Returns the text from here on, as far as an expression may reach: so that its cost does not
/// depend on the remaining text.
pub(super) fn window<'s>(cursor: &Cursor<'s>) -> &'s str {
    let rest = &cursor.source[cursor.pos..];
    let end = (0..=rest.len().min(MAX_TEXT)).rev().find(|&end| rest.is_char_boundary(end));
    &rest[..end.unwrap_or(0)]
}

/// The error of a dim whose text starts at `start`.
pub(super) fn located(e: &DimParseError, start: usize) -> Diagnostic {
    let at = start + e.offset;
    error(Code::E0101, span(at, at + 1), e.message.clone())
}
