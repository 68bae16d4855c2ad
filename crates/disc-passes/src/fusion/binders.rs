//! Finds the ops that bind the dims that another op mentions: it depends on them, although no
//! operand says so. Everything that orders or groups ops asks here too.
use disc_ir::{Block, Function, Inst, Symbol};
use std::collections::HashMap;

/// The ops of a block that bind dims.
pub(crate) struct Binders(HashMap<Symbol, Inst>);

impl Binders {
    pub(crate) fn of_block(function: &Function, block: Block) -> Self {
        let bound = |&inst| function.bound_by(inst).map(move |symbol| (symbol.clone(), inst));
        let bound = function.insts(block).iter().flat_map(bound);
        Self(bound.collect())
    }

    /// The ops that bind dims of `inst` or of its regions.
    pub(crate) fn of(&self, function: &Function, inst: Inst) -> impl Iterator<Item = Inst> {
        let symbols = if self.0.is_empty() { Default::default() } else { function.symbols_of(inst) };
        symbols.into_iter().filter_map(|symbol| self.0.get(&symbol).copied()).filter(move |&binder| binder != inst)
    }
}
