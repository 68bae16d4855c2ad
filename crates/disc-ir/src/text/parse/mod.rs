//! Parses text to a module.
//!
//! Recursive descent straight over the text. An error ends the function it is in; the next one is
//! still read, so that several functions give several errors.
//!
//! Invariants: ops have their declared attribute slots and regions; operands are defined before; a
//! value has the type the text states, or else the one its op infers. Everything else is the
//! verifier's.
mod applies;
mod attrs;
mod cursor;
mod dims;
mod facts;
mod function;
mod literal;
mod op;
mod signature;
mod stablehlo;
mod types;

pub(super) use applies::combines_two;
pub(super) use attrs::{is_leading, pair};
pub(super) use cursor::Cursor;
pub(super) use op::{is_indexed, takes_short_form};

use super::limits::{MAX_FUNCTIONS, MAX_LITERAL_BYTES, MAX_OPS, MAX_TEXT, MAX_VALUES};
use crate::{
    diag::{Code, Diagnostic, Span},
    graph::{FunctionKind, Module, Weight},
    literal::Literal,
    types::DType,
};
use cursor::{Parsed, error};
use std::{collections::HashSet, sync::Arc};
use types::Fresh;

/// Parses a module.
///
/// # Errors
/// At least one diagnostic, each with its place; at most one per function or weight.
pub fn parse(text: &str) -> Result<Module, Vec<Diagnostic>> {
    if text.len() > MAX_TEXT {
        let message = format!("a text of {} bytes; {MAX_TEXT} are the limit", text.len());
        return Err(vec![Diagnostic::new(Code::E0105, message)]);
    }
    let mut parser = Parser::new(text);
    parser.module();
    if parser.errors.is_empty() { Ok(parser.module) } else { Err(parser.errors) }
}

/// Parses the text between `dense<` and `>`.
pub(super) fn elements(text: &str, place: Span, dtype: DType) -> Parsed<(Literal, Option<Vec<usize>>)> {
    literal::parse(text, place, dtype).map(|shaped| (shaped.literal, shaped.shape))
}

pub(super) struct Parser<'s> {
    cursor: Cursor<'s>,
    fresh: Fresh<'s>,
    module: Module,
    errors: Vec<Diagnostic>,
    /// Names of functions and of weights, in separate name spaces.
    names: HashSet<(bool, Arc<str>)>,
    ops: usize,
    values: usize,
    literal_bytes: usize,
    /// True if the last types were in parentheses.
    last_was_list: bool,
}

impl<'s> Parser<'s> {
    fn new(source: &'s str) -> Self {
        Self {
            cursor: Cursor::new(source),
            fresh: Fresh::new(source),
            module: Module::default(),
            errors: Vec::new(),
            names: HashSet::new(),
            ops: 0,
            values: 0,
            literal_bytes: 0,
            last_was_list: false,
        }
    }

    fn module(&mut self) {
        const MOST_ERRORS: usize = 100;
        let mut is_wrapped = false;
        while let Some(byte) = self.cursor.peek() {
            let start = self.cursor.pos;
            let read = match byte {
                // MLIR's aliases of locations.
                b'#' => {
                    self.cursor.skip_line();
                    Ok(())
                }
                b'}' if is_wrapped => {
                    self.cursor.eat("}");
                    is_wrapped = false;
                    self.skip_location()
                }
                _ if !is_wrapped && self.cursor.eat_word("module") => {
                    is_wrapped = true;
                    self.module_head()
                }
                _ => self.item(),
            };
            if let Err(found) = read {
                self.errors.push(found);
                self.recover(start);
                if self.errors.len() == MOST_ERRORS {
                    return;
                }
            }
        }
        if is_wrapped && self.errors.is_empty() {
            let found = self.cursor.unexpected("`}` at the end of the module");
            self.errors.push(found);
        }
    }

    /// `module @name attributes {...} {`; only its brace matters.
    fn module_head(&mut self) -> Parsed<()> {
        if self.cursor.at("@") {
            self.cursor.symbol_name()?;
        }
        if self.cursor.eat_word("attributes") {
            self.skip_attribute_dictionary()?;
        }
        self.cursor.expect("{", "after `module`")
    }

    fn skip_attribute_dictionary(&mut self) -> Parsed<()> {
        if self.cursor.eat("{") {
            self.skip_until(b"}")?;
            self.cursor.eat("}");
        }
        Ok(())
    }

    /// A weight or a function.
    fn item(&mut self) -> Parsed<()> {
        const WANTED: &str = "`func`, `kernel`, `routine`, `host` or `weight`";
        let word = self.cursor.expect_word(WANTED)?;
        if self.module.functions.len() + self.module.weights.len() >= MAX_FUNCTIONS {
            return Err(error(Code::E0105, word.span, format!("more than {MAX_FUNCTIONS} functions and weights")));
        }
        match word.text {
            "weight" => self.weight(),
            "func" | "func.func" => self.function(FunctionKind::Func, word.span),
            "kernel" => self.function(FunctionKind::Kernel, word.span),
            "routine" => self.function(FunctionKind::Routine, word.span),
            "host" => self.function(FunctionKind::Host, word.span),
            other => {
                let message = format!("expected {WANTED}, found `{}`", cursor::shorten(other));
                Err(error(Code::E0101, word.span, message))
            }
        }
    }

    fn weight(&mut self) -> Parsed<()> {
        let (name, place) = self.cursor.symbol_name()?;
        let name = self.declare(true, name, place)?;
        let (mut extent, mut prepared) = (None, None);
        if self.cursor.eat("=") {
            if self.cursor.eat_word("prepared") {
                // A negative or huge number names no result; the verifier says so.
                prepared = Some(u32::try_from(self.cursor.integer()?).unwrap_or(u32::MAX));
            } else {
                extent = Some(literal::extent(&mut self.cursor)?);
            }
        }
        self.cursor.expect(":", "before the type of the weight")?;
        let ty = types::tensor(&mut self.cursor, &mut self.fresh)?;
        if let Some(dim) = ty.dims.iter().find(|dim| dim.as_const().is_none()) {
            let message = format!("the weight has the size [{dim}]; sizes of weights are constant");
            return Err(error(Code::E0209, place, message));
        }
        let data = extent.map(|extent| self.literal(extent, ty.dtype, ty.static_dims().as_deref())).transpose()?;
        self.module.weights.push(Weight { name, ty, data, prepared });
        Ok(())
    }

    /// Reads the literal at `extent`, whose brackets have the shape `sizes` if that is known.
    fn literal(&mut self, extent: Span, dtype: DType, sizes: Option<&[i64]>) -> Parsed<Literal> {
        let shaped = literal::parse(self.cursor.source, extent, dtype)?;
        self.literal_bytes += shaped.literal.bytes.len();
        if self.literal_bytes > MAX_LITERAL_BYTES {
            return Err(error(Code::E0105, extent, format!("literals of more than {MAX_LITERAL_BYTES} bytes in all")));
        }
        match (shaped.shape, sizes) {
            (Some(shape), Some(sizes)) if !shape.iter().map(|&n| n as i64).eq(sizes.iter().copied()) => {
                Err(error(Code::E0209, extent, format!("the literal has shape {shape:?}, its type {sizes:?}")))
            }
            _ => Ok(shaped.literal),
        }
    }

    /// Takes a name that no other function (or weight) may have.
    fn declare(&mut self, is_weight: bool, name: String, place: Span) -> Parsed<Arc<str>> {
        let name: Arc<str> = name.into();
        if !self.names.insert((is_weight, name.clone())) {
            let what = if is_weight { "weight" } else { "function" };
            return Err(error(Code::E0104, place, format!("there are two {what}s of the name @{name}")));
        }
        Ok(name)
    }

    /// Continues at the next line that starts with a function or weight.
    fn recover(&mut self, start: usize) {
        self.cursor.pos = self.cursor.pos.max(start + 1);
        while self.cursor.byte().is_some() {
            self.cursor.skip_line();
            self.cursor.pos = (self.cursor.pos + 1).min(self.cursor.source.len());
            let rest = &self.cursor.source.as_bytes()[self.cursor.pos..];
            let is_item = |word: &str| rest.starts_with(word.as_bytes()) && matches!(rest.get(word.len()), Some(b' ' | b'.'));
            if ["func", "kernel", "routine", "host", "weight"].into_iter().any(is_item) {
                return;
            }
        }
    }

    /// Counts an op and its values.
    fn count(&mut self, ops: usize, values: usize, place: Span) -> Parsed<()> {
        self.ops += ops;
        self.values += values;
        match () {
            () if self.ops > MAX_OPS => Err(error(Code::E0105, place, format!("more than {MAX_OPS} ops"))),
            () if self.values > MAX_VALUES => Err(error(Code::E0105, place, format!("more than {MAX_VALUES} values"))),
            () => Ok(()),
        }
    }
}
