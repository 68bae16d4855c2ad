//! Parses literals: `dense<...>`. The element type is the result's, which the text states after the
//! literal; so the parser first notes the place of the literal ([`extent`]) and reads it
//! ([`parse`]) once the type is known.
use super::{
    super::limits::{MAX_LITERAL, MAX_RANK},
    cursor::{Cursor, Parsed, error, hex_digit, shorten, span},
};
use crate::{
    diag::{Code, Diagnostic, Span},
    literal::{Literal, encode_f64},
    types::DType,
};

/// Moves past a literal. The span covers the text between `dense<` and `>`.
pub(super) fn extent(cursor: &mut Cursor<'_>) -> Parsed<Span> {
    if !cursor.eat_word("dense") {
        return Err(cursor.unexpected("a literal such as `dense<0.0>`"));
    }
    cursor.expect("<", "after `dense`")?;
    let start = cursor.pos;
    let bytes = &cursor.source.as_bytes()[start..];
    let mut quoted = false;
    let length = bytes.iter().position(|&byte| {
        quoted ^= byte == b'"';
        byte == b'>' && !quoted
    });
    let Some(length) = length else {
        return Err(error(Code::E0101, span(start - 1, start), "the literal has no `>`"));
    };
    cursor.pos = start + length + 1;
    Ok(span(start, start + length))
}

/// A literal and, unless it is a splat or raw bytes, the shape of its brackets.
pub(super) struct Shaped {
    pub(super) literal: Literal,
    pub(super) shape: Option<Vec<usize>>,
}

/// Reads the literal at `place`.
pub(super) fn parse(source: &str, place: Span, dtype: DType) -> Parsed<Shaped> {
    let mut cursor = Cursor::new(&source[..place.end as usize]);
    cursor.pos = place.start as usize;
    let shaped = match cursor.peek() {
        None => Shaped { literal: Literal::dense(dtype, Vec::new()), shape: None },
        Some(b'"') => Shaped { literal: raw(&mut cursor, dtype)?, shape: None },
        Some(b'[') => List::default().read(&mut cursor, dtype)?,
        Some(_) => {
            let mut bytes = Vec::new();
            element(&mut cursor, dtype, &mut bytes)?;
            Shaped { literal: Literal::splat(dtype, &bytes), shape: None }
        }
    };
    match cursor.peek() {
        None => Ok(shaped),
        Some(_) => Err(cursor.unexpected("`>` after the literal")),
    }
}

/// Nested lists, read without recursion.
#[derive(Default)]
struct List {
    /// Entries so far in each open bracket.
    counts: Vec<usize>,
    /// Entries of the brackets at each depth, once one was closed.
    extents: Vec<Option<usize>>,
    elements: usize,
    bytes: Vec<u8>,
}

impl List {
    fn read(mut self, cursor: &mut Cursor<'_>, dtype: DType) -> Parsed<Shaped> {
        loop {
            // An entry: a list, or an element.
            if cursor.at("[") {
                self.open(cursor)?;
                if !cursor.at("]") {
                    continue;
                }
            } else {
                self.element(cursor, dtype)?;
            }
            // After an entry: the ends of lists, then a comma, or the end.
            while !self.counts.is_empty() && cursor.at("]") {
                self.close(cursor)?;
            }
            if self.counts.is_empty() {
                let shape = self.extents.iter().map(|extent| extent.unwrap_or(0)).collect();
                return Ok(Shaped { literal: Literal::dense(dtype, self.bytes), shape: Some(shape) });
            }
            cursor.expect(",", "or `]` in the literal")?;
        }
    }

    fn open(&mut self, cursor: &mut Cursor<'_>) -> Parsed<()> {
        let depth = self.counts.len();
        if depth == MAX_RANK {
            return Err(error(
                Code::E0105,
                span(cursor.pos, cursor.pos + 1),
                format!("a literal of more than {MAX_RANK} dimensions"),
            ));
        }
        if depth == self.extents.len() {
            // Elements were seen already, so no list can be deeper.
            if self.elements > 0 || self.extents.iter().any(Option::is_some) {
                return Err(cursor.unexpected("an element, as in the lists before"));
            }
            self.extents.push(None);
        }
        self.counts.push(0);
        cursor.pos += 1;
        Ok(())
    }

    fn element(&mut self, cursor: &mut Cursor<'_>, dtype: DType) -> Parsed<()> {
        if self.counts.len() != self.extents.len() {
            return Err(cursor.unexpected("a list, as before"));
        }
        self.elements += 1;
        if self.elements > MAX_LITERAL {
            let message = format!("a literal of more than {MAX_LITERAL} elements; larger data belongs into a weight");
            return Err(error(Code::E0105, span(cursor.pos, cursor.pos), message));
        }
        if let Some(count) = self.counts.last_mut() {
            *count += 1;
        }
        element(cursor, dtype, &mut self.bytes)
    }

    fn close(&mut self, cursor: &mut Cursor<'_>) -> Parsed<()> {
        let place = span(cursor.pos, cursor.pos + 1);
        cursor.pos += 1;
        let count = self.counts.pop().unwrap_or(0);
        let expected = *self.extents[self.counts.len()].get_or_insert(count);
        if expected != count {
            return Err(error(Code::E0101, place, format!("a list of {count} entries; those before have {expected}")));
        }
        if let Some(outer) = self.counts.last_mut() {
            *outer += 1;
        }
        Ok(())
    }
}

/// One element, appended as bytes.
fn element(cursor: &mut Cursor<'_>, dtype: DType, bytes: &mut Vec<u8>) -> Parsed<()> {
    let word = cursor.number()?;
    let encoded = encode(word.text, dtype).ok_or_else(|| {
        let message = format!("`{}` is no value of type {dtype}", shorten(word.text));
        error(Code::E0101, word.span, message)
    })?;
    bytes.extend_from_slice(&encoded);
    Ok(())
}

/// The bytes of an element written as text: `1`, `-1.5e3`, `true`, `inf`, `nan`, `0x7FC00000` (the
/// bits).
fn encode(text: &str, dtype: DType) -> Option<Vec<u8>> {
    let size = dtype.size();
    if let Some(digits) = text.strip_prefix("0x") {
        let bits = u64::from_str_radix(digits, 16).ok()?;
        let fits = size == 8 || bits >> (8 * size) == 0;
        return (fits && (dtype != DType::I1 || bits <= 1)).then(|| bits.to_le_bytes()[..size].to_vec());
    }
    match dtype {
        DType::I1 => match text {
            "true" | "1" => Some(vec![1]),
            "false" | "0" => Some(vec![0]),
            _ => None,
        },
        // Not through f64: the nearest f32 of the nearest f64 may be another one.
        DType::F32 => float::<f32>(text).map(|value| value.to_le_bytes().to_vec()),
        DType::F64 | DType::F16 | DType::BF16 => float::<f64>(text).map(|value| encode_f64(dtype, value)),
        _ => {
            let value: i128 = text.parse().ok()?;
            let bits = 8 * size as u32;
            let range =
                if dtype.is_unsigned_integer() { 0..1_i128 << bits } else { -(1_i128 << (bits - 1))..1_i128 << (bits - 1) };
            range.contains(&value).then(|| value.to_le_bytes()[..size].to_vec())
        }
    }
}

fn float<T: std::str::FromStr>(text: &str) -> Option<T> {
    let unsigned = text.trim_start_matches(['-', '+']);
    // Rust also reads "infinity", "NaN" and "INF".
    let is_number = unsigned.starts_with(|c: char| c.is_ascii_digit()) || matches!(unsigned, "inf" | "nan");
    is_number.then(|| text.parse().ok())?
}

/// `"0x..."`: the bytes of all elements, in hexadecimal; one element alone is a splat.
fn raw(cursor: &mut Cursor<'_>, dtype: DType) -> Parsed<Literal> {
    let start = cursor.pos;
    let fail = |code, at: usize, message: String| -> Diagnostic { error(code, span(at, at + 1), message) };
    let rest = &cursor.source.as_bytes()[start + 1..];
    let Some(length) = rest.iter().position(|&b| b == b'"') else {
        return Err(fail(Code::E0101, start, "the string has no end".into()));
    };
    let Some(digits) = rest[..length].strip_prefix(b"0x") else {
        return Err(fail(Code::E0101, start, "raw bytes start with 0x".into()));
    };
    if digits.len() % (2 * dtype.size()) != 0 {
        return Err(fail(Code::E0101, start, format!("{} digits; a {dtype} has {}", digits.len(), 2 * dtype.size())));
    }
    if digits.len() / (2 * dtype.size()) > MAX_LITERAL {
        return Err(fail(Code::E0105, start, format!("a literal of more than {MAX_LITERAL} elements")));
    }
    if let Some(bad) = digits.iter().position(|b| !b.is_ascii_hexdigit()) {
        return Err(fail(Code::E0101, start + 3 + bad, "expected a hexadecimal digit".into()));
    }
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| 16 * hex_digit(pair[0]) + hex_digit(pair[1])).collect();
    if dtype == DType::I1 && bytes.iter().any(|&b| b > 1) {
        return Err(fail(Code::E0101, start, "a byte of an i1 is 00 or 01".into()));
    }
    cursor.pos = start + 2 + length;
    Ok(if bytes.len() == dtype.size() { Literal::splat(dtype, &bytes) } else { Literal::dense(dtype, bytes) })
}
