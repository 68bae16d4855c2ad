//! Parses types, and makes symbols for `?`.
use super::{
    super::{
        limits::{MAX_LANES, MAX_RANK, fits},
        suggest::closest,
    },
    cursor::{Cursor, Parsed, Word, error, shorten, span},
    dims,
};
use crate::{
    diag::Code,
    dim::{Dim, Symbol},
    types::{DType, Space, TensorType, Type},
};
use std::collections::HashSet;

/// Makes a symbol for each `?`: `u0`, `u1`, ... without those that the text has.
pub(super) struct Fresh<'s> {
    source: &'s str,
    taken: Option<HashSet<u64>>,
    next: u64,
}

impl<'s> Fresh<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        Self { source, taken: None, next: 0 }
    }

    fn symbol(&mut self) -> Symbol {
        let taken = self.taken.get_or_insert_with(|| numbers_of_symbols(self.source));
        while taken.contains(&self.next) {
            self.next += 1;
        }
        self.next += 1;
        Symbol::from(format!("u{}", self.next - 1))
    }

    /// Symbols made from now on are [`Fresh::is_since`] this mark.
    pub(super) fn mark(&self) -> u64 {
        self.next
    }

    pub(super) fn is_since(&self, mark: u64, dim: &Dim) -> bool {
        let number = dim.as_symbol().and_then(|symbol| number_of(symbol.name()));
        number.is_some_and(|n| (mark..self.next).contains(&n))
            && !self.taken.as_ref().is_some_and(|t| number.is_some_and(|n| t.contains(&n)))
    }
}

fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('u')?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn numbers_of_symbols(source: &str) -> HashSet<u64> {
    // Comments do not count, or else the output that a test expects would change the printed names.
    let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')).filter_map(number_of).collect()
}

const FORMS: &[&str] = &["tensor", "vector", "buffer"];

/// A type.
pub(super) fn parse(cursor: &mut Cursor<'_>, fresh: &mut Fresh<'_>) -> Parsed<Type> {
    let word = cursor.expect_word("a type such as `tensor<[B]x4xf32>`")?;
    match word.text {
        "tensor" => {
            let tensor = shaped(cursor, fresh, word)?;
            cursor.expect(">", "at the end of the type")?;
            Ok(Type::Tensor(tensor))
        }
        "buffer" => {
            let tensor = shaped(cursor, fresh, word)?;
            let space = if cursor.eat(",") { space(cursor)? } else { Space::Global };
            cursor.expect(">", "at the end of the type")?;
            Ok(Type::Buffer { tensor, space })
        }
        "vector" => vector(cursor),
        name => DType::from_name(name).map(Type::scalar).ok_or_else(|| unknown(word, "type")),
    }
}

/// A tensor type.
pub(super) fn tensor(cursor: &mut Cursor<'_>, fresh: &mut Fresh<'_>) -> Parsed<TensorType> {
    cursor.peek();
    let start = cursor.pos;
    match parse(cursor, fresh)? {
        Type::Tensor(tensor) => Ok(tensor),
        other => Err(error(Code::E0101, span(start, cursor.pos), format!("expected a tensor type, found `{other}`"))),
    }
}

fn unknown(word: Word<'_>, what: &str) -> crate::Diagnostic {
    let known = DType::ALL.into_iter().map(DType::name).chain(if what == "type" { FORMS } else { &[] }.iter().copied());
    let found = error(Code::E0102, word.span, format!("there is no {what} `{}`", shorten(word.text)));
    match closest(word.text, known) {
        Some(near) => found.help(format!("did you mean `{near}`?")),
        None => found,
    }
}

/// An element type.
pub(super) fn dtype(cursor: &mut Cursor<'_>) -> Parsed<DType> {
    let word = cursor.expect_word("an element type such as `f32`")?;
    DType::from_name(word.text).ok_or_else(|| unknown(word, "element type"))
}

/// A memory space. The text has no name for `Global`, so that each type has one text.
fn space(cursor: &mut Cursor<'_>) -> Parsed<Space> {
    let word = cursor.expect_word("`task` or `shared`")?;
    let named = Space::ALL.into_iter().find(|&space| space != Space::Global && space.name() == word.text);
    named.ok_or_else(|| {
        let message = format!("there is no space `{}`; those that are named are `task` and `shared`", shorten(word.text));
        error(Code::E0102, word.span, message)
    })
}

fn vector(cursor: &mut Cursor<'_>) -> Parsed<Type> {
    cursor.expect("<", "after `vector`")?;
    cursor.peek();
    let start = cursor.pos;
    let lanes = cursor.integer()?;
    let place = span(start, cursor.pos);
    let count = u32::try_from(lanes).ok().filter(|count| (1..=MAX_LANES).contains(count));
    let lanes = count.ok_or_else(|| error(Code::E0105, place, format!("{lanes} lanes; a vector has 1 to {MAX_LANES}")))?;
    cursor.expect("x", "after the number of lanes")?;
    let dtype = dtype(cursor)?;
    cursor.expect(">", "at the end of the type")?;
    Ok(Type::Vector { lanes, dtype })
}

/// Parses `<` dims dtype, up to the end of the type.
fn shaped(cursor: &mut Cursor<'_>, fresh: &mut Fresh<'_>, word: Word<'_>) -> Parsed<TensorType> {
    cursor.expect("<", &format!("after `{}`", word.text))?;
    let mut sizes = Vec::new();
    loop {
        match cursor.peek() {
            Some(b'?') => {
                cursor.pos += 1;
                sizes.push(Dim::symbol(fresh.symbol()));
            }
            Some(b'[') => sizes.push(dims::size(cursor)?),
            Some(b'-' | b'0'..=b'9') => sizes.push(size(cursor)?),
            _ => break,
        }
        cursor.expect("x", "after a size")?;
        if sizes.len() > MAX_RANK {
            let message = format!("a type of more than {MAX_RANK} dimensions");
            return Err(error(Code::E0105, span(word.span.start as usize, cursor.pos), message));
        }
    }
    let dtype = dtype(cursor)?;
    if !fits(sizes.iter().filter_map(Dim::as_const), dtype) {
        let message = "the constant sizes of the type multiply to 2^62 bytes or more";
        return Err(error(Code::E0105, span(word.span.start as usize, cursor.pos), message));
    }
    Ok(TensorType { dims: sizes, dtype })
}

fn size(cursor: &mut Cursor<'_>) -> Parsed<Dim> {
    let start = cursor.pos;
    let size = cursor.integer()?;
    match size {
        0.. => Ok(Dim::constant(size)),
        _ => Err(error(Code::E0101, span(start, cursor.pos), format!("a size of {size}; sizes are 0 or more"))),
    }
}
