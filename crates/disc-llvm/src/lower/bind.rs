//! Places the computation of dims in a host program: at its start, or after the op that binds the
//! last of their symbols.
//!
//! Invariants:
//! - a dim is computed once in the scope of its last symbol, in a block that dominates all of the
//!   scope;
//! - its value is dropped at the end of the region that binds the symbol.
use super::Lowering;
use crate::{Error, emit::Val};
use disc_ir::{Attr, Dim, Inst, Symbol};
use inkwell::{IntPredicate, basic_block::BasicBlock, values::InstructionValue};
use std::collections::HashMap;

/// The scope of a symbol: from its binding to the end of the region. The outermost scope is the
/// host program.
#[derive(Default)]
pub(super) struct Scope<'c> {
    symbols: Vec<Symbol>,
    /// Terminator of the block that computes the scope's dims, once its checks are done.
    end: Option<InstructionValue<'c>>,
    pub(super) dims: HashMap<Dim, Val<'c>>,
    /// Dims as `f64`, and dims or `i64::MAX`: see `bounded`.
    pub(super) estimates: HashMap<Dim, Val<'c>>,
    pub(super) bounded: HashMap<Dim, Val<'c>>,
}

impl<'c> Lowering<'_, 'c> {
    /// Returns the position of the scope that a dim is computed in.
    pub(super) fn scope_of(&self, dim: &Dim) -> usize {
        let mut found = 0;
        dim.visit_symbols(&mut |symbol| {
            let position = self.scopes.iter().rposition(|scope| scope.symbols.contains(symbol));
            found = found.max(position.unwrap_or(0));
        });
        found
    }

    /// Moves the builder to the block that computes dims of a scope, and returns its previous
    /// block. The dims of the checks come first, one after the other.
    pub(super) fn go_to_scope(&self, scope: usize) -> Result<BasicBlock<'c>, Error> {
        let here = self.block()?;
        if let Some(end) = &self.scopes[scope].end {
            self.emit.builder.position_before(end);
        }
        Ok(here)
    }

    /// Opens the block for dims of the innermost scope, and the block after it, where ops continue.
    pub(super) fn open_body(&mut self) -> Result<(), Error> {
        let [shapes, body] = [self.append_block(), self.append_block()];
        self.emit.builder.build_unconditional_branch(shapes)?;
        self.emit.builder.position_at_end(shapes);
        let end = self.emit.builder.build_unconditional_branch(body)?;
        self.scopes.last_mut().expect("the outermost scope is never left").end = Some(end);
        self.emit.builder.position_at_end(body);
        Ok(())
    }

    /// Ends the scopes that a region has opened.
    pub(super) fn leave_scopes(&mut self, outer: usize) {
        for scope in self.scopes.drain(outer..) {
            self.symbols.retain(|symbol, _| !scope.symbols.contains(symbol));
        }
    }

    pub(super) fn bind_dim(&mut self, inst: Inst) -> Result<(), Error> {
        self.host(inst)?;
        let size = self.value(self.function.operands(inst)[0])?;
        let Some(symbol) = self.function.bound_by(inst).next() else { return Err(self.error(inst, "needs a dim".to_owned())) };
        let bound = self.bound;
        let Some(check) = bound.iter().find(|check| check.symbol == *symbol) else {
            return Err(self.error(inst, format!("binds {symbol}, of which the signature says nothing")));
        };
        let valid = self.emit.icmp(IntPredicate::SGE, size, self.emit.i64(0).into())?;
        self.fail_unless(valid, check.site, &[size])?;
        self.symbols.insert(symbol.clone(), size);
        self.scopes.push(Scope { symbols: vec![symbol.clone()], ..Scope::default() });
        check.facts.iter().try_for_each(|fact| self.check_fact(fact))?;
        self.open_body()
    }

    /// Lays out the parts of an arena, and binds their offsets.
    pub(super) fn layout_arena(&mut self, inst: Inst) -> Result<(), Error> {
        self.host(inst)?;
        let (Some(Attr::Dims(sizes)), Some(Attr::Ints(meets))) = (self.attr(inst, "sizes"), self.attr(inst, "meets")) else {
            return Err(self.error(inst, "needs `sizes` and `meets`".to_owned()));
        };
        let values = sizes.iter().map(|size| self.bounded_value(size)).collect::<Result<Vec<_>, _>>()?;
        let words = self.write_words(&values)?;
        let offsets = self.emit.slot(words, values.len() as i64)?;
        let total = self.call_layout_arena(values.len(), words, meets, offsets)?;
        let places = (0..values.len() as i64).map(|part| self.emit.load_i64(offsets, part)).collect::<Result<Vec<_>, _>>()?;
        let symbols: Vec<Symbol> = self.function.bound_by(inst).cloned().collect();
        self.symbols.extend(symbols.iter().cloned().zip(places.into_iter().chain([total])));
        self.scopes.push(Scope { symbols, ..Scope::default() });
        self.open_body()
    }
}
