//! Parses values of attributes, by the kind that the op table declares.
use super::{
    super::{location, suggest::closest},
    Parser,
    cursor::{Cursor, Parsed, error, shorten, span},
    dims, literal, types,
};
use crate::{
    attr::{Attr, AttrKind},
    diag::{Code, Span},
    lines::Line,
    ops::{AttrDef, OpDef},
    types::DType,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// A parsed value: literals wait until their element type is known.
pub(super) enum Value {
    Ready(Attr),
    Literal(Span),
}

/// The attributes of one op, as they are read.
pub(super) struct Attrs {
    def: &'static OpDef,
    pub(super) slots: SmallVec<[Option<Attr>; 2]>,
    /// The slot of a literal and its place.
    pub(super) literal: Option<(usize, Span)>,
}

/// Other names of attributes: those of StableHLO's generic form.
const ALIASES: &[(&str, &str)] = &[
    ("broadcast_dimensions", "dims"),
    ("permutation", "dims"),
    ("iota_dimension", "dim"),
    ("dimension", "dim"),
    ("dim", "dimension"),
    ("start_indices", "start"),
    ("limit_indices", "limit"),
    ("comparison_direction", "direction"),
];

/// StableHLO attributes without meaning here.
const IGNORED: &[&str] =
    &["compare_type", "precision", "precision_config", "indices_are_sorted", "unique_indices", "result_accuracy"];

impl Attrs {
    pub(super) fn new(def: &'static OpDef) -> Self {
        Self { def, slots: smallvec::smallvec![None; def.attrs.len()], literal: None }
    }

    /// Returns the attribute that is written bare before the operands: the first one, if it is the
    /// subject of the op.
    pub(super) fn leading(def: &'static OpDef) -> Option<&'static AttrDef> {
        def.attrs.first().filter(|attr| attr.required && is_leading(attr.kind, def))
    }

    fn slot(&self, name: &str) -> Option<usize> {
        let other = || ALIASES.iter().filter(|(alias, _)| *alias == name).find_map(|(_, ours)| self.def.attr_position(ours));
        self.def.attr_position(name).or_else(other)
    }

    /// The slots that `name = a x b` fills.
    fn pair(&self, name: &str) -> Option<(usize, usize)> {
        let slots = (0..self.def.attrs.len()).filter_map(|i| pair(self.def, i).map(|(plain, rhs)| (plain, i, rhs)));
        slots.filter(|(plain, ..)| *plain == name).map(|(_, lhs, rhs)| (lhs, rhs)).next()
    }

    pub(super) fn set(&mut self, slot: usize, value: Value, place: Span) -> Parsed<()> {
        if self.slots[slot].is_some() || self.literal.is_some_and(|(taken, _)| taken == slot) {
            let message = format!("attribute `{}` is given twice", self.def.attrs[slot].name);
            return Err(error(Code::E0202, place, message).in_op(self.def.name));
        }
        match value {
            Value::Ready(attr) => self.slots[slot] = Some(attr),
            Value::Literal(extent) => self.literal = Some((slot, extent)),
        }
        Ok(())
    }

    fn unknown(&self, name: &str, place: Span) -> crate::Diagnostic {
        let message = format!("there is no attribute `{}`", shorten(name));
        let found = error(Code::E0102, place, message).in_op(self.def.name);
        match closest(name, self.def.attrs.iter().map(|attr| attr.name)) {
            Some(near) => found.help(format!("did you mean `{near}`?")),
            None if self.def.attrs.is_empty() => found.note("the op has no attributes"),
            None => found.note(format!("it has: {}", self.def.attrs.iter().map(|a| a.name).collect::<Vec<_>>().join(", "))),
        }
    }
}

/// Returns true if an attribute of this kind, declared first, is written without its name.
pub(in crate::text) fn is_leading(kind: AttrKind, def: &OpDef) -> bool {
    match kind {
        AttrKind::Literal | AttrKind::Symbol | AttrKind::Enum(_) => true,
        AttrKind::Dim => def.attrs.len() == 1 && def.operands.is_empty(),
        _ => false,
    }
}

/// The name that attribute `lhs` shares with another, and that one: `lhs_dims` and `rhs_dims` are
/// written `dims = [0] x [1]`.
pub(in crate::text) fn pair(def: &OpDef, lhs: usize) -> Option<(&'static str, usize)> {
    let plain = def.attrs[lhs].name.strip_prefix("lhs_")?;
    let rhs = def.attrs.iter().position(|attr| attr.name.strip_prefix("rhs_") == Some(plain))?;
    (def.attrs[lhs].kind == AttrKind::Ints && def.attrs[rhs].kind == AttrKind::Ints).then_some((plain, rhs))
}

impl Parser<'_> {
    /// `= [0] x [1]`
    fn pair(&mut self, attrs: &mut Attrs, (lhs, rhs): (usize, usize), place: Span) -> Parsed<()> {
        self.cursor.expect("=", "after the name of the attribute")?;
        let value = self.value(AttrKind::Ints)?;
        attrs.set(lhs, value, place)?;
        self.cursor.expect("x", "between the axes of both operands")?;
        let value = self.value(AttrKind::Ints)?;
        attrs.set(rhs, value, place)
    }

    /// `name = value`.
    pub(super) fn attribute(&mut self, attrs: &mut Attrs) -> Parsed<()> {
        let name = self.cursor.expect_word("the name of an attribute")?;
        if let Some(slots) = attrs.pair(name.text) {
            return self.pair(attrs, slots, name.span);
        }
        let slot = attrs.slot(name.text);
        if slot.is_none() && IGNORED.contains(&name.text) {
            return self.skip_until(b",:");
        }
        let slot = slot.ok_or_else(|| attrs.unknown(name.text, name.span))?;
        self.cursor.expect("=", "after the name of the attribute")?;
        let value = self.value(attrs.def.attrs[slot].kind)?;
        attrs.set(slot, value, name.span)
    }

    /// Parses MLIR's `{name = value : type, ...}`; names with a dot belong to other tools, and are
    /// skipped.
    pub(super) fn dictionary(&mut self, attrs: &mut Attrs) -> Parsed<()> {
        self.cursor.expect("{", "before the attributes")?;
        while !self.cursor.eat("}") {
            let name = self.cursor.expect_word("the name of an attribute, or `}`")?;
            if attrs.slot(name.text).is_none() && (name.text.contains('.') || IGNORED.contains(&name.text)) {
                self.skip_until(b",}")?;
            } else {
                let slot = attrs.slot(name.text).ok_or_else(|| attrs.unknown(name.text, name.span))?;
                let is_flag = attrs.def.attrs[slot].kind == AttrKind::Bool && !self.cursor.at("=");
                let value =
                    if is_flag { Value::Ready(Attr::Bool(true)) } else { self.dictionary_value(attrs.def.attrs[slot].kind)? };
                attrs.set(slot, value, name.span)?;
            }
            if !self.cursor.eat(",") && !self.cursor.at("}") {
                return Err(self.cursor.unexpected("`,` or `}` after the attribute"));
            }
        }
        Ok(())
    }

    fn dictionary_value(&mut self, kind: AttrKind) -> Parsed<Value> {
        self.cursor.expect("=", "after the name of the attribute")?;
        let value = self.value(kind)?;
        if self.cursor.eat(":") {
            types::parse(&mut self.cursor, &mut self.fresh)?;
        }
        Ok(value)
    }

    pub(super) fn value(&mut self, kind: AttrKind) -> Parsed<Value> {
        Ok(Value::Ready(match kind {
            AttrKind::Literal => return literal::extent(&mut self.cursor).map(Value::Literal),
            AttrKind::Int => Attr::Int(self.cursor.integer()?),
            AttrKind::Float => Attr::Float(self.float()?),
            AttrKind::Bool => Attr::Bool(self.truth()?),
            AttrKind::Enum(words) => Attr::Enum(self.enum_word(words)?),
            AttrKind::Str => Attr::Str(Arc::from(self.cursor.string()?)),
            AttrKind::Symbol => Attr::Symbol(Arc::from(self.cursor.symbol_name()?.0)),
            AttrKind::DType => Attr::DType(types::dtype(&mut self.cursor)?),
            AttrKind::Type => Attr::Type(types::parse(&mut self.cursor, &mut self.fresh)?),
            AttrKind::Ints => Attr::Ints(self.integers()?),
            AttrKind::Dim if self.cursor.at("[") => Attr::Dim(dims::bracketed(&mut self.cursor)?),
            AttrKind::Dim => Attr::Dim(self.cursor.integer()?.into()),
            AttrKind::Dims if self.cursor.at("array") => Attr::Dims(self.integers()?.into_iter().map(Into::into).collect()),
            AttrKind::Dims => Attr::Dims(self.list("[", "]", |parser| dims::expression(&mut parser.cursor))?),
        }))
    }

    fn float(&mut self) -> Parsed<f64> {
        let word = self.cursor.number()?;
        word.text.parse().map_err(|_| error(Code::E0101, word.span, format!("`{}` is no number", shorten(word.text))))
    }

    fn truth(&mut self) -> Parsed<bool> {
        match self.cursor.peek_word() {
            Some("true") => Ok(self.cursor.eat_word("true")),
            Some("false") => Ok(!self.cursor.eat_word("false")),
            _ => Err(self.cursor.unexpected("true or false")),
        }
    }

    /// `WORD`, or MLIR's `#stablehlo<kind WORD>`.
    pub(super) fn enum_word(&mut self, words: &'static [&'static str]) -> Parsed<&'static str> {
        let is_wrapped = self.cursor.eat("#stablehlo");
        if is_wrapped {
            self.cursor.expect("<", "after `#stablehlo`")?;
            self.cursor.expect_word("the kind of the word")?;
        }
        let wanted = format!("one of {}", words.join(", "));
        let word = self.cursor.expect_word(&wanted)?;
        if is_wrapped {
            self.cursor.expect(">", "at the end of the word")?;
        }
        words.iter().copied().find(|known| *known == word.text).ok_or_else(|| {
            let found = error(Code::E0102, word.span, format!("expected {wanted}, found `{}`", shorten(word.text)));
            match closest(word.text, words.iter().copied()) {
                Some(near) => found.help(format!("did you mean `{near}`?")),
                None => found,
            }
        })
    }

    /// `[0, 1]`, or MLIR's `array<i64: 0, 1>` and `dense<[0, 1]> : tensor<2xi64>`.
    fn integers(&mut self) -> Parsed<Vec<i64>> {
        match self.cursor.peek_word() {
            Some("array") => {
                self.cursor.eat_word("array");
                self.cursor.expect("<", "after `array`")?;
                types::dtype(&mut self.cursor)?;
                if self.cursor.eat(">") {
                    return Ok(Vec::new());
                }
                self.list(":", ">", |parser| parser.cursor.integer())
            }
            Some("dense") => {
                let place = literal::extent(&mut self.cursor)?;
                let shaped = literal::parse(self.cursor.source, place, DType::I64)?;
                Ok((0..shaped.literal.stored_len()).map(|i| shaped.literal.i64_at(i)).collect())
            }
            _ => self.list("[", "]", |parser| parser.cursor.integer()),
        }
    }

    /// Entries between two marks, separated by commas.
    pub(super) fn list<T>(&mut self, open: &str, close: &str, mut entry: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        self.cursor.expect(open, "before a list")?;
        let mut entries = Vec::new();
        if self.cursor.eat(close) {
            return Ok(entries);
        }
        loop {
            entries.push(entry(self)?);
            if self.cursor.eat(close) {
                return Ok(entries);
            }
            self.cursor.expect(",", &format!("or `{close}` after an entry of the list"))?;
        }
    }

    /// Moves to one of `ends` outside brackets and strings.
    pub(super) fn skip_until(&mut self, ends: &[u8]) -> Parsed<()> {
        let mut depth = 0_usize;
        loop {
            self.cursor.peek();
            let Some(byte) = self.cursor.byte() else {
                return Err(self.cursor.unexpected("the end of the attribute"));
            };
            if depth == 0 && ends.contains(&byte) {
                return Ok(());
            }
            match byte {
                b'"' => {
                    self.cursor.string()?;
                    continue;
                }
                b'(' | b'[' | b'{' | b'<' => depth += 1,
                b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.cursor.pos += 1;
        }
    }

    /// Skips `loc(...)`, which other tools write.
    pub(super) fn skip_location(&mut self) -> Parsed<()> {
        self.location().map(drop)
    }

    /// Reads `loc(...)`; the line of the model, if it is one.
    pub(super) fn location(&mut self) -> Parsed<Option<Line>> {
        if self.cursor.peek_word() == Some("loc") {
            let start = self.cursor.pos;
            self.cursor.eat_word("loc");
            self.cursor.expect("(", "after `loc`")?;
            if let Some(line) = location::read(&mut self.cursor) {
                return Ok(Some(line));
            }
            self.skip_until(b")").map_err(|_| error(Code::E0101, span(start, start + 3), "the location has no end"))?;
            self.cursor.eat(")");
        }
        Ok(None)
    }
}

/// Returns true if `word` comes next and `=` after it.
pub(super) fn at_attribute(cursor: &mut Cursor<'_>) -> bool {
    let start = cursor.pos;
    let found = cursor.word().is_some() && cursor.at("=") && !cursor.at("==");
    cursor.pos = start;
    found
}
