//! Parses pretty forms of StableHLO that differ from ours: they are read but never printed.
use super::{
    Parser,
    attrs::Value,
    cursor::{Parsed, span},
    function::Body,
    op::Head,
};
use crate::attr::AttrKind;

impl<'s> Parser<'s> {
    /// `(%x init: %z) applies add across dimensions = [1]` of `reduce`; without `applies`, a region
    /// `reducer` follows the signature.
    pub(super) fn stablehlo_reduce(&mut self, body: &mut Body, head: &mut Head<'s>) -> Parsed<()> {
        self.cursor.expect("(", "before the input")?;
        head.operands.push(self.operand(body)?);
        self.keyword("init")?;
        self.cursor.expect(":", "before the initial value")?;
        head.operands.push(self.operand(body)?);
        self.cursor.expect(")", "after the initial value")?;
        if self.cursor.peek_word() == Some("applies") {
            let dtype = body.function.ty(head.operands[0].0).dtype();
            let block = self.applies(body, Some(dtype))?;
            head.regions.push(block);
        }
        self.keyword("across")?;
        let start = self.cursor.pos;
        self.keyword("dimensions")?;
        self.cursor.expect("=", "before the dimensions")?;
        let dims = self.value(AttrKind::Ints)?;
        self.set_named(head, "dims", dims, span(start, self.cursor.pos))
    }

    fn keyword(&mut self, word: &str) -> Parsed<()> {
        if self.cursor.eat_word(word) { Ok(()) } else { Err(self.cursor.unexpected(&format!("`{word}`"))) }
    }

    fn set_named(&self, head: &mut Head<'s>, name: &str, value: Value, place: crate::diag::Span) -> Parsed<()> {
        match head.def.attr_position(name) {
            Some(slot) => head.attrs.set(slot, value, place),
            None => Ok(()),
        }
    }
}
